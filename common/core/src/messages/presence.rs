//! Records of the topic `presence`: the heartbeats of agents and aggregators.

use std::sync::Arc;

use crate::clock::Timestamp;
use crate::counter::{CounterId, Partition};
use crate::messages::emergency::EmergencySwitch;
use crate::rules::{Generation, Numbering};

/// Interval between heartbeats of a member, in ms.
pub const INTERVAL_MS: u64 = 1_000;
/// Time without a heartbeat after which a member counts as gone, in ms. Together with the heartbeat interval and the
/// interval of the check, every member learns of a loss within 15 s.
pub const GONE_AFTER_MS: u64 = 13_000;
/// Maximum time between two heartbeats of a member that is heard all the time, in ms.
pub const GAP_MS_MAX: u64 = 3 * INTERVAL_MS;
/// Time after which rules that no live agent has any more are not the newest, in ms: one announcement and its delay.
pub const RULES_GONE_AFTER_MS: u64 = INTERVAL_MS + INTERVAL_MS / 2;

/// Maximum number of resets in a heartbeat.
pub const RESETS_LEN_MAX: usize = 1_000;

/// Maximum number of characters of a reason in a heartbeat.
pub const REFUSAL_LEN_MAX: usize = 300;

/// One record of the topic `presence`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Presence {
    /// Name of the member.
    pub id: Arc<str>,
    /// Start of the member's process, in ms since the Unix epoch.
    pub epoch: u64,
    /// Region of the member.
    pub region: Arc<str>,
    /// Role of the member.
    pub role: Role,
    /// Generation of the rules in force.
    pub generation: Generation,
    /// Time of the member's clock.
    pub clock: Timestamp,
    /// Store nodes for which the member's circuit breaker is open.
    pub open_breakers: Vec<Arc<str>>,
    /// Number of rows that the member failed to publish since its start.
    pub dropped_rows: u64,
    /// True in the last heartbeat before a regular shutdown.
    pub leaving: bool,
    /// Address of the member's HTTP API as host:port; empty if it has none.
    pub http: Arc<str>,
    /// Partitions that an aggregator owns and has restored; empty for an agent.
    pub partitions: Vec<Partition>,
    /// True if the member is an aggregator that may coordinate the budgets of regions.
    pub coordinates: bool,
    /// Latest change of the emergency switch that the member knows; none from an aggregator.
    pub emergency: Option<EmergencySwitch>,
    /// Counters that the member has emptied in the last seconds; none from an aggregator.
    pub resets: Vec<CounterReset>,
    /// Reason why the member refused newer rules; empty if it did not.
    pub rules_refusal: Arc<str>,
    /// True if the rules in force are published ones, so that their generation can be compared with others.
    pub rules_published: bool,
}

/// Counter that an operator has emptied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CounterReset {
    /// The counter.
    pub counter: CounterId,
    /// Instant of the reset, in store time.
    pub at: Timestamp,
}

/// Role of a fleet member.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Role {
    /// Enforces limits.
    Agent,
    /// Aggregates counts.
    Aggregator,
}

/// Rules of an agent, as it announces them in the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AnnouncedRules {
    /// Origin of the generation.
    pub numbering: Numbering,
    /// Generation of the rules in force.
    pub generation: Generation,
    /// Generation in the agent's charges, for which the rank stands.
    pub order: Generation,
    /// Rank that the store has given these rules; 0 before it has.
    pub rank: RuleRank,
}

/// Place of rules in the order of all rules that the agents of a fleet have. Newer rules have a greater rank.
pub type RuleRank = u64;

/// Answer to an announcement in the store: the live agents, their rules and their digest keys.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PresenceSet {
    /// Time since the set was created, in ms. A step of the store's clock adds at most [`GAP_MS_MAX`]. A young set may
    /// lack live agents.
    pub age_ms: u64,
    /// Ids of the agents, and the time of the last announcement of each, by the clock of the set.
    pub agents: Vec<(Arc<str>, Timestamp)>,
    /// Time of the announcement before under the asking agent's name, by the same clock.
    pub own_before: Option<Timestamp>,
    /// Rank of the asking agent's rules; 0 if it has announced none.
    pub rank: RuleRank,
    /// Greatest rank that the store has given.
    pub newest_rank: RuleRank,
    /// Generation of the rules that are published in the store, if there are any and the answer can tell.
    pub published: Option<Generation>,
    /// Number of digest keys that other live agents use.
    pub other_digest_keys: u32,
}
