//! Apache Kafka: one node that is broker and controller, with the default settings of a broker, but
//! that one which was killed comes back sooner.

use std::fmt::Write as _;
use std::fs;
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::process::{Folder, Process, free_port};

/// Where scripts/servers puts it, from the root of the workspace.
const JARS: &str = "target/servers/kafka/libs";
const CLUSTER_ID: &str = "MkU3OEVBNTcwNTJENDM2Qg";

/// A Kafka of one's own.
pub struct Kafka {
    process: Process,
    folder: Folder,
    port: u16,
}

impl Kafka {
    /// Starts one.
    ///
    /// # Panics
    /// Panics if Java or Kafka is not installed.
    #[must_use]
    pub fn start() -> Self {
        Self::start_with("PLAINTEXT", "")
    }

    /// Starts one whose listener speaks this security protocol, with more lines for its properties file.
    ///
    /// # Panics
    /// Panics if Java or Kafka is not installed.
    #[must_use]
    pub fn start_with(protocol: &str, properties: &str) -> Self {
        let installed = Command::new("java").arg("-version").output().is_ok() && jars().is_dir();
        assert!(installed, "Apache Kafka is missing; run scripts/servers");
        let (folder, port) = (Folder::new("kafka"), free_port());
        let file = folder.path().join("server.properties");
        fs::write(&file, settings(folder.path(), port, protocol) + properties).expect("the folder can be written");
        let formatted =
            java(&["kafka.tools.StorageTool", "format", "-t", CLUSTER_ID, "-c", &file.display().to_string()]);
        let output = Command::new("java").args(formatted).output().expect("there is a java");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let process = launch(&folder, port);
        Self { process, folder, port }
    }

    /// Where it is: `127.0.0.1:PORT`.
    #[must_use]
    pub fn brokers(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    /// Kills it; its logs stay.
    pub fn kill(&mut self) {
        self.process.kill();
    }

    /// Starts it again on the same port, with its logs.
    pub fn restart(&mut self) {
        self.process = launch(&self.folder, self.port);
    }

    /// Stops it in its tracks.
    pub fn pause(&self) {
        self.process.signal("STOP");
    }

    /// Lets it go on.
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

fn settings(folder: &Path, port: u16, protocol: &str) -> String {
    let controller = free_port();
    let mut text = String::new();
    for (name, value) in [
        ("process.roles", "broker,controller".to_owned()),
        ("node.id", "1".to_owned()),
        ("controller.quorum.voters", format!("1@127.0.0.1:{controller}")),
        ("controller.listener.names", "CONTROLLER".to_owned()),
        ("listeners", format!("{protocol}://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}")),
        ("inter.broker.listener.name", protocol.to_owned()),
        // The controller's listener is always plain, whatever clients speak.
        ("listener.security.protocol.map", format!("{protocol}:{protocol},CONTROLLER:PLAINTEXT")),
        ("log.dirs", folder.join("logs").display().to_string()),
        ("offsets.topic.replication.factor", "1".to_owned()),
        // One that was killed is let in again once the controller believes it dead: after 9 s, unless told otherwise.
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
    process.wait_until_there("Kafka", || TcpStream::connect(("127.0.0.1", port)).ok());
    process
}
