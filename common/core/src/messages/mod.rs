//! Messages between agents and aggregators, one file per topic of the bus. `tollgate-wire` encodes them.

pub mod texts;
pub mod calls;
pub mod decisions;
pub mod emergency;
pub mod signals;
pub mod rollups;
pub mod presence;
pub mod agent_rules;
pub mod rules;
pub mod ledger;
pub mod usage;

/// Topic of the bus: one partitioned log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Topic {
    /// All calls, partitioned by counter.
    Calls,
    /// Counts published by aggregators, partitioned like `calls`.
    Signals,
    /// Heartbeats of agents and aggregators; one partition.
    Presence,
    /// Published rule sets; one partition. The last sets are kept without a time limit, older ones are deleted.
    Rules,
    /// Budgets of regions; one partition, kept without a time limit. Only the bus of the home cluster carries it.
    Ledger,
    /// Units that the callers of each region use; one partition. Only the bus of the home cluster carries it.
    Usage,
    /// Sums of calls by closed minutes, as JSON lines; one partition.
    Rollups,
    /// Sums of calls by the newest seconds, as JSON lines; one partition.
    Live,
    /// Single decisions, as JSON objects, for readers of any kind; nothing of Tollgate reads it.
    Decisions,
}

impl Topic {
    /// All topics.
    pub const ALL: [Self; 9] = [
        Self::Calls,
        Self::Signals,
        Self::Presence,
        Self::Rules,
        Self::Ledger,
        Self::Usage,
        Self::Rollups,
        Self::Live,
        Self::Decisions,
    ];
    /// Topics by which the agents and aggregators of a deployment limit calls.
    pub const OF_DEPLOYMENT: [Self; 4] = [Self::Calls, Self::Signals, Self::Presence, Self::Rules];
    /// Topics by which the aggregators of a deployment show calls.
    pub const OF_ANALYTICS: [Self; 2] = [Self::Rollups, Self::Live];

    /// Returns the topic's name, without the prefix of a deployment.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Calls => "calls",
            Self::Signals => "signals",
            Self::Presence => "presence",
            Self::Rules => "rules",
            Self::Ledger => "ledger",
            Self::Usage => "usage",
            Self::Rollups => "rollups",
            Self::Live => "live",
            Self::Decisions => "decisions",
        }
    }
}
