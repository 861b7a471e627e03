//! Apache Kafka: one node that is both broker and controller, with default settings except that a killed
//! broker is readmitted sooner. Its logs survive a kill.
//!
//! `scripts/servers` leaves a formatted data folder, which a node copies, and an archive of loaded classes: together they
//! save a node of the tests two thirds of its CPU time at the start.

use std::fs;
use std::io;
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::port::free_port;
use crate::proxy::Proxy;
use crate::server::{Server, ServerError, ServerKind, require};

/// Kafka's own commands and their classes.
const COMMANDS: [(&str, &str); 5] = [
    ("kafka-storage.sh", "kafka.tools.StorageTool"),
    ("kafka-acls.sh", "org.apache.kafka.tools.AclCommand"),
    ("kafka-topics.sh", "org.apache.kafka.tools.TopicCommand"),
    ("kafka-console-producer.sh", "org.apache.kafka.tools.ConsoleProducer"),
    ("kafka-configs.sh", "kafka.admin.ConfigCommand"),
];
/// Location of Kafka for tests, relative to this crate; scripts/servers installs it.
pub(crate) const DISTRIBUTION: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../target/servers/kafka");
/// Formatted data folder of an empty node, in the distribution.
pub(crate) const FORMATTED: &str = "formatted";
/// Archive of the classes that a node loads, in the distribution.
const CLASS_ARCHIVE: &str = "kafka.jsa";
pub(crate) const CLUSTER_ID: &str = "MkU3OEVBNTcwNTJENDM2Qg";
const HEAP: &str = "512m";
/// Data folder of a node, in its own folder.
pub(crate) const LOGS: &str = "logs";

/// Apache Kafka.
pub struct KafkaKind;

/// Further listener of a node.
#[derive(Clone, Copy)]
pub struct KafkaListener {
    /// Name, in capital letters.
    pub name: &'static str,
    /// Security protocol.
    pub protocol: &'static str,
    /// Port on which it listens.
    pub port: u16,
    /// Port that the node tells clients.
    pub advertised: u16,
}

impl KafkaListener {
    /// Returns a listener on a free port.
    #[must_use]
    pub fn new(name: &'static str, protocol: &'static str) -> Self {
        let port = free_port();
        Self { name, protocol, port, advertised: port }
    }

    /// Returns the address as `127.0.0.1:PORT`.
    #[must_use]
    pub fn brokers(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }
}

impl ServerKind for KafkaKind {
    const NAME: &'static str = "Kafka";

    fn is_ready(port: u16) -> bool {
        TcpStream::connect(("127.0.0.1", port)).is_ok()
    }
}

impl Server<KafkaKind> {
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
        launch(Path::new(DISTRIBUTION), protocol, properties, &[]).unwrap_or_else(|error| panic!("{error}"))
    }

    /// Starts a node with a further listener, which clients reach by a proxy: the node tells them the proxy's port.
    ///
    /// # Panics
    /// Panics if Java or Kafka is not installed.
    #[must_use]
    pub fn start_behind(proxy: &Proxy) -> Self {
        let far = free_port();
        proxy.forward_to(far);
        let far = KafkaListener { name: "FAR", protocol: "PLAINTEXT", port: far, advertised: proxy.port() };
        Self::start_listening(&[far], "")
    }

    /// Starts a node with a listener without authentication, further listeners, and additional lines for its properties file.
    ///
    /// # Panics
    /// Panics if Java or Kafka is not installed.
    #[must_use]
    pub fn start_listening(listeners: &[KafkaListener], properties: &str) -> Self {
        let started = launch(Path::new(DISTRIBUTION), "PLAINTEXT", properties, listeners);
        started.unwrap_or_else(|error| panic!("{error}"))
    }

    /// Starts a node without authentication, of the Kafka in this folder.
    ///
    /// # Errors
    /// If Java or Kafka is missing, or the node does not answer.
    pub fn try_start(distribution: &Path) -> Result<Self, ServerError> {
        launch(distribution, "PLAINTEXT", "", &[])
    }

    /// Returns the address as `127.0.0.1:PORT`.
    #[must_use]
    pub fn brokers(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    /// Starts a node with this properties file, whose data folder is formatted.
    ///
    /// # Panics
    /// Panics if Java or Kafka is not installed.
    #[must_use]
    pub fn start_from(file: &Path, port: u16) -> Self {
        let start = || {
            let jars = jars(Path::new(DISTRIBUTION))?;
            Self::launch(port, |_| Ok(node(Path::new(DISTRIBUTION), &jars, file)))
        };
        start().unwrap_or_else(|error: ServerError| panic!("{error}"))
    }

    /// Runs a line of shell, as an operator does, with Kafka's own commands.
    ///
    /// # Panics
    /// Panics with the output if the line fails.
    pub fn run(&self, line: &str) {
        drop(Self::run_in(self.folder(), line));
    }

    /// Runs lines of shell in a folder, as an operator does, with Kafka's own commands, and returns the output.
    ///
    /// # Panics
    /// Panics with the output if a line fails.
    #[must_use]
    pub fn run_in(folder: &Path, lines: &str) -> String {
        let jars = Path::new(DISTRIBUTION).join("libs");
        let jars = jars.canonicalize().unwrap_or(jars);
        let command = |class| java_with_archive(Path::new(DISTRIBUTION), &jars, &[class]);
        let functions = COMMANDS.map(|(name, class)| function(name, &command(class))).join("\n");
        let script = format!("{functions}\nset -e\n{lines}");
        let output = Command::new("bash").args(["-c", &script]).current_dir(folder).output().expect("bash runs");
        let text = [output.stdout, output.stderr].concat();
        let text = String::from_utf8_lossy(&text).into_owned();
        assert!(output.status.success(), "{lines}: {text}");
        text
    }
}

/// Returns the folder of the jars, if Java and Kafka are installed.
pub(crate) fn jars(distribution: &Path) -> Result<PathBuf, ServerError> {
    require("java", "-version", "run scripts/servers, or apt-get install openjdk-17-jre-headless")?;
    let jars = distribution.join("libs");
    if jars.is_dir() {
        // The archive of classes is used only under the path with which it was written.
        return Ok(jars.canonicalize()?);
    }
    let shown = distribution.display();
    let text =
        format!("Apache Kafka is missing: {shown} has no folder `libs`; run scripts/servers in Tollgate's sources");
    Err(ServerError::Missing(text))
}

/// Returns the command that runs a class of Kafka with a heap of at most this size.
pub(crate) fn java(jars: &Path, heap: &str, args: &[&str]) -> Vec<String> {
    let (class_path, heap) = (format!("{}/*", jars.display()), format!("-Xmx{heap}"));
    let fixed = ["java", &heap, "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-cp", &class_path];
    fixed.iter().chain(args).map(ToString::to_string).collect()
}

/// Returns a function of the shell that runs a command with the function's arguments.
fn function(name: &str, command: &[String]) -> String {
    let quoted: Vec<String> = command.iter().map(|word| format!("'{word}'")).collect();
    format!("{name}() {{ {} \"$@\"; }}", quoted.join(" "))
}

fn launch(
    distribution: &Path,
    protocol: &str,
    properties: &str,
    more: &[KafkaListener],
) -> Result<Server<KafkaKind>, ServerError> {
    let (jars, port) = (jars(distribution)?, free_port());
    Server::launch(port, |folder| {
        let file = folder.join("server.properties");
        fs::write(&file, properties_file(folder, port, protocol, more) + properties)?;
        let formatted = distribution.join(FORMATTED);
        if formatted.is_dir() {
            copy_files(&formatted, &folder.join(LOGS))?;
        } else {
            format(&jars, &file.display().to_string())?;
        }
        Ok(node(distribution, &jars, &file))
    })
}

/// Returns the command that starts a node.
pub(crate) fn node(distribution: &Path, jars: &Path, file: &Path) -> Vec<String> {
    java_with_archive(distribution, jars, &["kafka.Kafka", &file.display().to_string()])
}

/// Returns the command that runs a class of Kafka, with the archive of loaded classes.
fn java_with_archive(distribution: &Path, jars: &Path, args: &[&str]) -> Vec<String> {
    let mut command = java(jars, HEAP, args);
    if let Ok(archive) = distribution.join(CLASS_ARCHIVE).canonicalize() {
        command.insert(1, format!("-XX:SharedArchiveFile={}", archive.display()));
    }
    command
}

/// Formats the data folder that a properties file names.
fn format(jars: &Path, file: &str) -> Result<(), ServerError> {
    let format = java(jars, HEAP, &["kafka.tools.StorageTool", "format", "-t", CLUSTER_ID, "-c", file]);
    let output = Command::new(&format[0]).args(&format[1..]).output()?;
    if output.status.success() {
        return Ok(());
    }
    let log = String::from_utf8_lossy(&output.stderr).into_owned();
    Err(ServerError::Silent { name: KafkaKind::NAME, log })
}

/// Copies the files of a folder without subfolders.
pub(crate) fn copy_files(from: &Path, to: &Path) -> io::Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        fs::copy(entry.path(), to.join(entry.file_name()))?;
    }
    Ok(())
}

fn properties_file(folder: &Path, port: u16, protocol: &str, more: &[KafkaListener]) -> String {
    let (controller, logs) = (free_port(), folder.join(LOGS));
    let logs = logs.display();
    let each = |text: fn(&KafkaListener) -> String| more.iter().map(text).collect::<String>();
    let listens = each(|it| format!("{}://127.0.0.1:{},", it.name, it.port));
    let advertised = each(|it| format!("{}://127.0.0.1:{},", it.name, it.advertised));
    let protocols = each(|it| format!(",{}:{}", it.name, it.protocol));
    format!(
        "process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:{controller}
controller.listener.names=CONTROLLER
listeners={listens}{protocol}://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}
advertised.listeners={advertised}{protocol}://127.0.0.1:{port}
inter.broker.listener.name={protocol}
# The controller's listener is always plain text.
listener.security.protocol.map={protocol}:{protocol},CONTROLLER:PLAINTEXT{protocols}
log.dirs={logs}
offsets.topic.replication.factor=1
# The controller readmits a killed broker after its session has expired; the default is 9 s.
broker.heartbeat.interval.ms=500
broker.session.timeout.ms=3000
"
    )
}
