//! Sink of the decision log of an agent.

use std::sync::Arc;

use tollgate_core::messages::decisions::DecisionEvent;
use tollgate_engine::DecisionSampler;

/// Sampler, and the function that takes the chosen events.
pub(super) struct DecisionSink {
    pub(super) sampler: Arc<DecisionSampler>,
    /// Returns false if there is no room for the event.
    pub(super) deliver: Box<dyn Fn(DecisionEvent) -> bool + Send + Sync>,
}
