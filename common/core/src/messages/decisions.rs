//! Events of single decisions, for people and warehouses: lines of the decision log, and records of the topic `decisions`.

use std::sync::Arc;

use crate::clock::Timestamp;
use crate::decision::{LocalAnswer, Source};
use crate::messages::calls::DenialCause;

/// One decision. It contains no secret value.
#[derive(Clone, Debug, PartialEq)]
pub struct DecisionEvent {
    /// Time of the decision, in store time.
    pub at: Timestamp,
    /// Name of the agent.
    pub agent: Arc<str>,
    /// Region of the agent.
    pub region: Arc<str>,
    /// Identifier of the decision, as in the answer.
    pub id: String,
    /// True if the call was admitted.
    pub allowed: bool,
    /// Reason for which the call was denied.
    pub cause: Option<DenialCause>,
    /// True if a rule in shadow would have denied the call.
    pub shadow_denied: bool,
    /// Authority that made the decision.
    pub source: Source,
    /// Answer of the store by which the agent decided on its own.
    pub by: Option<LocalAnswer>,
    /// Units of the call.
    pub cost: u64,
    /// Limit that was reported: of the denying rule, or of the one with the smallest part left.
    pub limit: Option<DecisionLimit>,
    /// Values of the call as people see them: secrets are digested.
    pub descriptors: Vec<(String, String)>,
    /// `traceparent` of the request.
    pub trace: Option<String>,
    /// Number of admitted calls that an admitted one stands for: 100 if 1% of them are kept; 1 for a denied one.
    pub one_of: f64,
}

/// State of one rule's limit at the time of a decision.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DecisionLimit {
    /// Name of the rule.
    pub rule: String,
    /// Label of the caller under the rule; none for lists and for the emergency switch.
    pub caller: Option<String>,
    /// Quota in units.
    pub quota: u64,
    /// Window in ms.
    pub window_ms: u64,
    /// Units that remained after the decision; none if the agent does not know them.
    pub remaining: Option<u64>,
    /// Time in ms until the same call would be admitted; 0 for an admitted call.
    pub retry_after_ms: u64,
}
