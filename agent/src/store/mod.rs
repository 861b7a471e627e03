//! Where counters live.
//!
//! A store charges all counters of a call or none, by its own clock. Every backend runs the same conformance suite.

mod breaker;
mod memory;
mod redis;
mod any;
#[cfg(test)]
mod conformance;

use std::future::Future;

use smallvec::SmallVec;
use tollgate_core::clock::Timestamp;
use tollgate_core::messages::rules::Published;
use tollgate_core::rules::Generation;

use tollgate_core::counter::{Charge, ChargeResult};

pub use any::AnyStore;
pub use breaker::Breaker;
pub use memory::MemoryStore;
pub use redis::{PREFIX_DEFAULT, RedisAddressError, RedisSettings, RedisStore, Slots};

/// The answers to the charges of one call, in their order.
pub type ChargeResults = SmallVec<[ChargeResult; 2]>;

/// Why a store did not answer. None of these is ever a denial.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
pub enum StoreError {
    /// It did not answer before the deadline; whether it charged is not known.
    #[error("the store did not answer in time")]
    TimedOut,
    /// It read the question after its time and charged nothing.
    #[error("the store read the question too late")]
    Expired,
    /// It cannot be reached; nothing was charged.
    #[error("the store cannot be reached")]
    Unreachable,
    /// It holds as many counters as it may; nothing was charged.
    #[error("the store is full")]
    Full,
    /// So many questions wait for it that this one was not sent.
    #[error("too many questions wait for the store")]
    Busy,
    /// Something else lies where this counter should; nothing was charged, and other counters are as well as ever.
    #[error("something else lies where a counter should")]
    Unreadable,
    /// It is there and answered with an error; nothing was charged. The log says which, and what to do.
    #[error("the store refuses to answer")]
    Refused,
}

/// Where counters live.
pub trait Store: Send + Sync + 'static {
    /// Charges the counters of one call: all or none, in one round trip. What is owed is charged in any case.
    fn take(&self, takes: &[Charge]) -> impl Future<Output = Result<ChargeResults, StoreError>> + Send;

    /// The same at once, for a store that need not be waited for.
    fn take_now(&self, takes: &[Charge]) -> Option<Result<ChargeResults, StoreError>> {
        let _ = takes;
        None
    }

    /// The store's time, if it answers at all.
    fn ping(&self) -> impl Future<Output = Result<Timestamp, StoreError>> + Send;

    /// Shows that an agent is there, or is leaving; how many are, if the store is one that agents share.
    fn show(&self, agent: &str, leaving: bool) -> impl Future<Output = Result<Option<u32>, StoreError>> + Send {
        let _ = (agent, leaving);
        async { Ok(None) }
    }

    /// The rules that were published in the store, if it is one that agents share.
    fn rules(&self) -> impl Future<Output = Result<Option<(Generation, Published)>, StoreError>> + Send {
        async { Ok(None) }
    }
}

impl StoreError {
    /// Whether a call that passes all the same is owed to the store: not when the store may have charged it, for told twice
    /// it would count twice, nor when it has no place for it.
    #[must_use]
    pub const fn leaves_debt(self) -> bool {
        !matches!(self, Self::TimedOut | Self::Unreadable)
    }

    /// Its name in metrics.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::TimedOut => "timed_out",
            Self::Expired => "expired",
            Self::Unreachable => "unreachable",
            Self::Full => "full",
            Self::Unreadable => "unreadable",
            Self::Busy => "busy",
            Self::Refused => "refused",
        }
    }
}
