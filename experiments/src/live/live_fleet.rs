//! Agents on real servers and their aggregator, all in this process, which a measurement starts and stops.

use tollgate::Agent;
use tollgate_aggregator::Aggregator;
use tollgate_bus::kafka::{KafkaBus, KafkaSettings};
use tollgate_command::shared_servers::clear_kafka;

pub(super) struct LiveFleet {
    pub(super) kafka: (KafkaBus, KafkaSettings),
    pub(super) aggregator: Aggregator,
    pub(super) agents: Vec<Agent>,
}

impl LiveFleet {
    /// Stops all parts, and deletes the topics of the run.
    pub(super) async fn stop(mut self) {
        for agent in &self.agents {
            agent.shutdown().await;
        }
        let clear = move || {
            self.aggregator.stop();
            clear_kafka(&self.kafka.0, &self.kafka.1);
        };
        if tokio::task::spawn_blocking(clear).await.is_err() {
            tracing::error!("the aggregator could not be stopped");
        }
    }
}
