//! Identifier of a decision: it names the agent, the call, and the partition of the log in which the call is found.

use std::fmt;

use crate::counter::Partition;
use crate::name::Name;

/// Identifier of a decision, unique in the fleet.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct DecisionId {
    /// Name of the agent, and the start of its process.
    pub life: Name,
    /// Number of the call, unique since the start.
    pub call: u64,
    /// Partition of `calls` with the home record of the call; none without a bus, and for a call without a counter.
    pub partition: Option<Partition>,
}

impl fmt::Display for DecisionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{:x}", self.life, self.call)?;
        self.partition.map_or(Ok(()), |partition| write!(f, ".{partition:x}"))
    }
}
