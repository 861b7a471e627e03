//! Counters in a Redis Cluster: the steps of each primary are gathered and sent on its own connection.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::RwLock;
use tokio::time::sleep;
use tollgate_core::clock::Stopwatch;
use tollgate_core::counter::{Charge, PrimaryIndex};
use tollgate_redis::{Cluster, HashSlots, RedisSettings};

use super::gathered_steps::GatheredSteps;
use super::steps::{StepResult, Steps};
use crate::store::StoreError;

/// Pause before a step is sent again of whose keys some are on their way to another primary.
const TRY_AGAIN_PAUSE: Duration = Duration::from_millis(2);
/// Maximum time for which it is sent again: the maximum deadline of a rule, after which the step has expired.
const TRY_AGAIN_MAX: Duration = Duration::from_secs(10);

/// Steps of the primaries of a cluster.
pub(super) struct ClusterLanes {
    pub(super) cluster: Arc<Cluster>,
    settings: RedisSettings,
    /// Steps of each primary, by its index.
    lanes: RwLock<Vec<GatheredSteps>>,
}

impl ClusterLanes {
    pub(super) fn new(settings: &RedisSettings, cluster: Arc<Cluster>) -> Self {
        Self { cluster, settings: settings.clone(), lanes: RwLock::default() }
    }

    /// Evaluates and charges the counters of one slot at a primary.
    pub(super) async fn charge(&self, primary: PrimaryIndex, is_passing: bool, charges: &[Charge]) -> StepResult {
        let lane = self.lane(primary).await?;
        let began = Stopwatch::start();
        loop {
            let answer = if is_passing {
                let connection = &lane.steps.connection;
                if connection.socket().is_err() {
                    // A node that has no slot yet is pinged by nobody else.
                    connection.ping().await?;
                }
                let socket = connection.socket()?;
                lane.steps.run_passing(&socket, charges).await
            } else {
                lane.run(charges).await
            };
            if answer != Err(StoreError::Contended) || began.elapsed() >= TRY_AGAIN_MAX {
                return answer;
            }
            sleep(TRY_AGAIN_PAUSE).await;
        }
    }

    async fn lane(&self, primary: PrimaryIndex) -> Result<GatheredSteps, StoreError> {
        if let Some(lane) = self.lanes.read().get(primary.index()) {
            return Ok(lane.clone());
        }
        // They come in the order of their indexes.
        self.cluster.connection(primary).await?;
        let connections = self.cluster.connections();
        let mut lanes = self.lanes.write();
        for connection in connections.into_iter().skip(lanes.len()) {
            lanes.push(GatheredSteps::new(Steps::new(&self.settings, connection), HashSlots::Multi));
        }
        lanes.get(primary.index()).cloned().ok_or(StoreError::Unreachable)
    }
}
