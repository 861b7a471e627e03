//! Apache Kafka for tests: one node that is both broker and controller, with default settings except that a killed
//! broker is readmitted sooner. Its logs survive a kill.

use std::fs;
use std::net::TcpStream;
use std::path::Path;
use std::process::Command;

use crate::server::{Server, ServerKind, free_port, temporary_folder};

/// Kafka's own commands and their classes.
const COMMANDS: [(&str, &str); 3] = [
    ("kafka-topics.sh", "org.apache.kafka.tools.TopicCommand"),
    ("kafka-console-producer.sh", "org.apache.kafka.tools.ConsoleProducer"),
    ("kafka-configs.sh", "kafka.admin.ConfigCommand"),
];
/// Location of Kafka's jars relative to this crate; scripts/servers installs them.
const JARS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../target/servers/kafka/libs");
const CLUSTER_ID: &str = "MkU3OEVBNTcwNTJENDM2Qg";

/// Apache Kafka.
pub struct KafkaKind;

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
        let installed = Command::new("java").arg("-version").output().is_ok() && Path::new(JARS).is_dir();
        assert!(installed, "Apache Kafka is missing; run scripts/servers");
        let (folder, port) = (temporary_folder(), free_port());
        let file = folder.path().join("server.properties");
        fs::write(&file, properties_file(folder.path(), port, protocol) + properties)
            .expect("the folder can be written");
        let file = file.display().to_string();
        let format = java(&["kafka.tools.StorageTool", "format", "-t", CLUSTER_ID, "-c", &file]);
        let output = Command::new(&format[0]).args(&format[1..]).output().expect("java runs");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        Self::launch(java(&["kafka.Kafka", &file]), port, folder)
    }

    /// Returns the address as `127.0.0.1:PORT`.
    #[must_use]
    pub fn brokers(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    /// Runs a line of shell, as an operator does, with Kafka's own commands.
    ///
    /// # Panics
    /// Panics with the output if the line fails.
    pub fn run(&self, line: &str) {
        let mut script = COMMANDS.map(|(name, class)| function(name, &java(&[class]))).join("\n");
        script.extend(["\n", line]);
        let output = Command::new("bash").args(["-c", &script]).output().expect("bash runs");
        let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        assert!(output.status.success(), "{line}: {out}{err}");
    }
}

/// Returns a function of the shell that runs a command with the function's arguments.
fn function(name: &str, command: &[String]) -> String {
    let quoted: Vec<String> = command.iter().map(|word| format!("'{word}'")).collect();
    format!("{name}() {{ {} \"$@\"; }}", quoted.join(" "))
}

fn java(args: &[&str]) -> Vec<String> {
    let class_path = format!("{JARS}/*");
    let fixed = ["java", "-Xmx512m", "-XX:TieredStopAtLevel=1", "-cp", &class_path];
    fixed.iter().chain(args).map(ToString::to_string).collect()
}

fn properties_file(folder: &Path, port: u16, protocol: &str) -> String {
    let (controller, logs) = (free_port(), folder.join("logs"));
    let logs = logs.display();
    format!(
        "process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:{controller}
controller.listener.names=CONTROLLER
listeners={protocol}://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}
inter.broker.listener.name={protocol}
# The controller's listener is always plain text.
listener.security.protocol.map={protocol}:{protocol},CONTROLLER:PLAINTEXT
log.dirs={logs}
offsets.topic.replication.factor=1
# The controller readmits a killed broker after its session has expired; the default is 9 s.
broker.heartbeat.interval.ms=500
broker.session.timeout.ms=3000
"
    )
}
