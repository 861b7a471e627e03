//! Apache Kafka for tests: one node that is both broker and controller, with default settings except that a killed
//! broker is readmitted sooner.

use std::fmt::Write as _;
use std::fs;
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::process::{Folder, Process, free_port};

/// Location of Kafka's jars relative to the workspace root; scripts/servers installs them.
const JARS: &str = "target/servers/kafka/libs";
const CLUSTER_ID: &str = "MkU3OEVBNTcwNTJENDM2Qg";

/// Running Kafka node.
pub struct Kafka {
    process: Process,
    folder: Folder,
    port: u16,
}

impl Kafka {
    /// Starts a node without authentication.
    ///
    /// # Panics
    /// Panics if Java or Kafka is not installed.
    #[must_use]
    pub fn start() -> Self {
        Self::start_with("PLAINTEXT", "")
    }

    /// Starts a node whose listener uses the given security protocol, with additional lines for its properties file.
    ///
    /// # Panics
    /// Panics if Java or Kafka is not installed.
    #[must_use]
    pub fn start_with(protocol: &str, properties: &str) -> Self {
        let installed = Command::new("java").arg("-version").output().is_ok() && jars().is_dir();
        assert!(installed, "Apache Kafka is missing; run scripts/servers");
        let (folder, port) = (Folder::new("kafka"), free_port());
        let file = folder.path().join("server.properties");
        fs::write(&file, properties_file(folder.path(), port, protocol) + properties)
            .expect("the folder can be written");
        let formatted =
            java(&["kafka.tools.StorageTool", "format", "-t", CLUSTER_ID, "-c", &file.display().to_string()]);
        let output = Command::new("java").args(formatted).output().expect("java runs");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let process = launch(&folder, port);
        Self { process, folder, port }
    }

    /// Returns the address as `127.0.0.1:PORT`.
    #[must_use]
    pub fn brokers(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    /// Kills the node; its logs remain.
    pub fn kill(&mut self) {
        self.process.kill();
    }

    /// Restarts the node on the same port with its logs.
    pub fn restart(&mut self) {
        self.process = launch(&self.folder, self.port);
    }

    /// Suspends the process.
    pub fn pause(&self) {
        self.process.signal("STOP");
    }

    /// Resumes the process.
    pub fn resume(&self) {
        self.process.signal("CONT");
    }
}

fn jars() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(JARS)
}

fn java(args: &[&str]) -> Vec<String> {
    let class_path = format!("{}/*", jars().display());
    let fixed = ["-Xmx512m", "-XX:TieredStopAtLevel=1", "-cp", &class_path];
    fixed.iter().chain(args).map(ToString::to_string).collect()
}

fn properties_file(folder: &Path, port: u16, protocol: &str) -> String {
    let controller = free_port();
    let mut text = String::new();
    for (name, value) in [
        ("process.roles", "broker,controller".to_owned()),
        ("node.id", "1".to_owned()),
        ("controller.quorum.voters", format!("1@127.0.0.1:{controller}")),
        ("controller.listener.names", "CONTROLLER".to_owned()),
        ("listeners", format!("{protocol}://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}")),
        ("inter.broker.listener.name", protocol.to_owned()),
        // The controller's listener is always plain text.
        ("listener.security.protocol.map", format!("{protocol}:{protocol},CONTROLLER:PLAINTEXT")),
        ("log.dirs", folder.join("logs").display().to_string()),
        ("offsets.topic.replication.factor", "1".to_owned()),
        // The controller readmits a killed broker after its session has expired; the default is 9 s.
        ("broker.heartbeat.interval.ms", "500".to_owned()),
        ("broker.session.timeout.ms", "3000".to_owned()),
    ] {
        let _ = writeln!(text, "{name}={value}");
    }
    text
}

fn launch(folder: &Folder, port: u16) -> Process {
    let file = folder.path().join("server.properties").display().to_string();
    let process = Process::start(&folder.path().join("log"), "java", java(&["kafka.Kafka", &file]));
    process.wait_until_ready("Kafka", || TcpStream::connect(("127.0.0.1", port)).ok());
    process
}
