//! Notices: changes of state that an operator should read in the log.
//!
//! An engine writes no log: any thread queues a notice, and [`crate::maintenance`] hands it to the shell.

use std::num::NonZeroU32;

use tollgate_core::clock::Timestamp;
use tollgate_core::counter::StoreError;

/// Change of state that belongs in the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Notice {
    /// The store answers again.
    #[error("the store answers again and decides")]
    StoreRecovered,
    /// The breaker opened.
    #[error("deciding by signals, or by each rule's on_failure, until the store answers a ping: {0}")]
    StoreUnavailable(StoreError),
    /// Published rules can be read from the bus or from the store again.
    #[error("published rules can be read again")]
    RulesReachable,
    /// Published rules can be read neither from the bus nor from the store.
    #[error(
        "published rules cannot be read from Kafka or Redis, and the rules in force stay; check both servers, new rules have no effect until one of them answers"
    )]
    RulesUnreachable,
    /// The store's clock stepped back.
    #[error(
        "the store's clock stepped back to {}; counters were re-based; check the time service of the store's host",
        .store_now.as_ms()
    )]
    StoreClockSteppedBack {
        /// The store's time after the step.
        store_now: Timestamp,
    },
    /// A counter found no place in the table.
    #[error(
        "the table of {counters_max} counters is full: new callers are limited by a sketch, which has no exact counts; find the flooded rule in tollgate_sketch_charges_total, and raise --counters-max if the callers are real"
    )]
    TableFull {
        /// Cap on counters.
        counters_max: usize,
    },
    /// The table has room again.
    #[error("the table of counters has room again: new callers have counters of their own")]
    TableHasRoom,
    /// The members of the fleet are not followed any more.
    #[error(
        "no heartbeat of this agent comes back from the bus or from the store, so the fleet counts as the {agents} agents known last; check the network to Kafka and Redis"
    )]
    FleetFrozen {
        /// Number of agents.
        agents: NonZeroU32,
    },
    /// The members of the fleet are followed again.
    #[error("heartbeats of this agent come back: the fleet of {agents} agents is followed again")]
    FleetUnfrozen {
        /// Number of agents.
        agents: NonZeroU32,
    },
    /// The other agents do not hear this one.
    #[error(
        "the bus delivers heartbeats of other agents and none of this one, so the others have its part of each quota, and without the store it admits nothing by share; check that it may write to the topic presence"
    )]
    HeartbeatsLost,
    /// The other agents hear this one again.
    #[error("heartbeats of this agent come back: it has its part of each quota again")]
    HeartbeatsBack,
}
