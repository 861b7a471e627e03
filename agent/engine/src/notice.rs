//! Notices: changes of state that an operator should read in the log.
//!
//! An engine writes no log: any thread queues a notice, and [`crate::maintenance`] hands it to the shell.

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
}
