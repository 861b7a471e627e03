//! Metrics of an agent. The engine counts in plain numbers; only [`prometheus`] knows a format, and only with the feature
//! `metrics`.

#[cfg(not(feature = "metrics"))]
mod absent;
#[cfg(feature = "metrics")]
mod prometheus;

#[cfg(not(feature = "metrics"))]
pub(crate) use absent::AgentMetrics;
#[cfg(feature = "metrics")]
pub(crate) use prometheus::AgentMetrics;
