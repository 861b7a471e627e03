//! Real servers for tests and experiments, each on a free port and in its own temporary folder, stopped when dropped.
//!
//! A missing server is an error, or fails the test, with the command that installs it. Failures are simulated by signals:
//! [`kill`](Server::kill) sends SIGKILL, [`pause`](Server::pause) SIGSTOP.

mod memory;
mod size;
mod program;
mod port;
mod server;
mod proxy;
mod certificates;
mod redis;
mod sentinel;
mod cluster;
mod kafka;
mod kafka_cluster;
mod mirror_maker;
mod gateway;
mod prometheus;
mod browser;
mod python;
#[cfg(feature = "contract")]
mod api_contract;

#[cfg(feature = "contract")]
pub use api_contract::{ApiAnswer, ApiContract, METHODS, each_value};
pub use browser::browser_script;
pub use certificates::Certificates;
pub use cluster::RedisCluster;
pub use gateway::{GatewayKind, GatewayProgram};
pub use kafka::{KafkaKind, KafkaListener};
pub use kafka_cluster::KafkaCluster;
pub use memory::resident_bytes;
pub use mirror_maker::MirrorMakerKind;
pub use port::free_port;
pub use program::{Finished, finish};
pub use prometheus::PrometheusKind;
pub use proxy::Proxy;
pub use python::python_script;
pub use redis::RedisKind;
pub use sentinel::{SentinelGroup, SentinelKind};
pub use server::{Server, ServerError, ServerKind, try_wait_for, wait_for};
pub use size::{is_full, scaled};

/// Running gateway.
pub type Gateway = Server<GatewayKind>;
/// Running Kafka node.
pub type Kafka = Server<KafkaKind>;
/// Running `MirrorMaker`.
pub type MirrorMaker = Server<MirrorMakerKind>;
/// Running Prometheus.
pub type Prometheus = Server<PrometheusKind>;
/// Running Redis without persistence.
pub type Redis = Server<RedisKind>;
/// Running Sentinel.
pub type Sentinel = Server<SentinelKind>;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_answer_and_survive_being_killed() {
        let mut redis = Redis::start();
        assert_eq!(redis.command("SET a 1"), "+OK");
        redis.kill();
        redis.restart();
        assert_eq!(redis.command("GET a"), "$-1");
        let mut kafka = Kafka::start();
        kafka.kill();
        kafka.restart();
    }
}
