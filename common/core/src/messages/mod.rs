//! Messages between agents and aggregators, one file per topic of the bus. `tollgate-wire` encodes them.

pub mod texts;
pub mod calls;
pub mod emergency;
pub mod signals;
pub mod rollups;
pub mod presence;
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
    /// Published rule sets; one partition. The newest set is kept without a time limit, older ones are deleted.
    Rules,
    /// Budgets of regions; one partition, kept without a time limit. Only the bus of the home cluster carries it.
    Ledger,
    /// Units that the callers of each region use; one partition. Only the bus of the home cluster carries it.
    Usage,
    /// Sums of calls by closed minutes, as JSON lines; one partition.
    Rollups,
    /// Sums of calls by the newest seconds, as JSON lines; one partition.
    Live,
}

impl Topic {
    /// All topics.
    pub const ALL: [Self; 8] =
        [Self::Calls, Self::Signals, Self::Presence, Self::Rules, Self::Ledger, Self::Usage, Self::Rollups, Self::Live];
    /// Topics of a deployment: all but those that the deployments of all regions share.
    pub const OF_DEPLOYMENT: [Self; 6] =
        [Self::Calls, Self::Signals, Self::Presence, Self::Rules, Self::Rollups, Self::Live];

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
        }
    }
}
