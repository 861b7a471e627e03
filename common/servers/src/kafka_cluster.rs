//! Cluster of three nodes of Apache Kafka, each of which is broker and controller. It goes on while one of them is dead.

use std::fs;
use std::path::Path;

use crate::kafka::{CLUSTER_ID, DISTRIBUTION, FORMATTED, KafkaKind, LOGS, copy_files, jars, node};
use crate::port::free_port;
use crate::server::{Server, ServerError};

/// Identities of the data folders, in base64.
const FOLDER_IDS: [&str; 3] = ["dqE7JhlgKm8dw26iNWmAtA", "dqE7JhlgKm8dw26iNWmAtQ", "dqE7JhlgKm8dw26iNWmAtg"];

/// Cluster of three nodes, whose topics have three replicas. Two of them must have a record.
pub struct KafkaCluster(Vec<Server<KafkaKind>>);

impl KafkaCluster {
    /// Starts the nodes.
    ///
    /// # Panics
    /// Panics if Java or Kafka is not installed.
    #[must_use]
    pub fn start() -> Self {
        let controllers = FOLDER_IDS.map(|_| free_port());
        let voters = [0, 1, 2].map(|index| format!("{}@127.0.0.1:{}", index + 1, controllers[index])).join(",");
        let start = |index: usize| launch(index, controllers[index], &voters);
        // No node answers before two of them run.
        let nodes = std::thread::scope(|scope| {
            let starting = [0, 1, 2].map(|index| scope.spawn(move || start(index)));
            starting.map(|node| node.join().expect("a node").unwrap_or_else(|error| panic!("{error}")))
        });
        Self(nodes.into())
    }

    /// Returns the addresses of all nodes, separated by commas.
    #[must_use]
    pub fn brokers(&self) -> String {
        self.0.iter().map(Server::brokers).collect::<Vec<_>>().join(",")
    }

    /// Returns a node.
    ///
    /// # Panics
    /// Panics if the index is not below 3.
    pub fn node(&mut self, index: usize) -> &mut Server<KafkaKind> {
        &mut self.0[index]
    }
}

fn launch(index: usize, controller: u16, voters: &str) -> Result<Server<KafkaKind>, ServerError> {
    let distribution = Path::new(DISTRIBUTION);
    let (jars, port, id) = (jars(distribution)?, free_port(), index + 1);
    Server::launch(port, |folder| {
        let (file, logs) = (folder.join("server.properties"), folder.join(LOGS));
        copy_files(&distribution.join(FORMATTED), &logs)?;
        let folder_id = FOLDER_IDS[index];
        let meta = format!("node.id={id}\ndirectory.id={folder_id}\nversion=1\ncluster.id={CLUSTER_ID}\n");
        fs::write(logs.join("meta.properties"), meta)?;
        let properties = format!(
            "process.roles=broker,controller
node.id={id}
controller.quorum.voters={voters}
controller.listener.names=CONTROLLER
listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}
advertised.listeners=PLAINTEXT://127.0.0.1:{port}
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT
log.dirs={}
default.replication.factor=3
min.insync.replicas=2
offsets.topic.replication.factor=3
broker.heartbeat.interval.ms=500
broker.session.timeout.ms=3000
",
            logs.display()
        );
        fs::write(&file, properties)?;
        Ok(node(distribution, &jars, &file))
    })
}
