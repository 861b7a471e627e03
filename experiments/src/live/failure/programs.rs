//! Programs of the servers.

use std::path::PathBuf;

/// Programs of the servers.
#[derive(Clone, Debug)]
pub struct Programs {
    /// Program of Redis.
    pub redis_server: String,
    /// Folder of Apache Kafka, with its jars in `libs`.
    pub kafka: PathBuf,
    /// Program `tollgate`, which runs as aggregator.
    pub tollgate: PathBuf,
}
