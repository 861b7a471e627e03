//! Stand-in for the metrics in a build without the feature `metrics`: nothing is observed.

use std::time::Duration;

/// Metrics of an agent, which nobody reads.
#[derive(Clone, Debug)]
pub(crate) struct AgentMetrics;

#[expect(clippy::unused_self, reason = "the same methods as with the feature `metrics`")]
impl AgentMetrics {
    pub(crate) fn observe_check(&self, _: Duration) {}

    #[cfg(feature = "bus")]
    pub(crate) fn observe_signal_lag(&self, _: Duration) {}
}
