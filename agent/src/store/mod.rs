//! Where counters live.
//!
//! A store charges all counters of a call or none, by its own clock. Every backend runs the same conformance suite.

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
pub use memory::MemoryStore;
pub use redis::{PREFIX_DEFAULT, RedisAddressError, RedisSettings, RedisStore, Slots};
pub use tollgate_engine::StoreError;

/// The answers to the charges of one call, in their order.
pub type ChargeResults = SmallVec<[ChargeResult; 2]>;

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
