//! Counters in a Redis Cluster: the steps of each primary are gathered and sent on its own connection.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::RwLock;
use tokio::time::sleep;
use tollgate_core::counter::{Charge, PrimaryIndex};
use tollgate_redis::{Cluster, HashSlots, RedisSettings};

use super::gathered_steps::GatheredSteps;
use super::steps::{StepResult, Steps};
use crate::store::StoreError;

/// Pause before a step is sent again of whose keys some are on their way to another primary, and the maximum number of pauses: longer
/// than the deadline of a rule, after which the step has expired.
const TRY_AGAIN_PAUSE: Duration = Duration::from_millis(2);
const TRY_AGAIN_MAX: usize = 50;

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
        for _ in 0..TRY_AGAIN_MAX {
            let answer = if is_passing {
                let socket = lane.steps.connection.awaited_socket().await?;
                lane.steps.run_passing(&socket, charges).await
            } else {
                lane.run(charges).await
            };
            if answer != Err(StoreError::Contended) {
                return answer;
            }
            sleep(TRY_AGAIN_PAUSE).await;
        }
        Err(StoreError::Contended)
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
