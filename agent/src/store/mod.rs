//! Stores of counters.
//!
//! A store charges all counters of a call or none, by its own clock. Every backend runs the same conformance suite. Registry
//! and rules that a Redis holds beside the counters are in `fleet_services`.

mod charge_store;
mod limit_records;
mod memory;
mod fleet_services;
#[cfg(feature = "redis")]
mod redis;
mod any;
#[cfg(test)]
mod conformance;

pub use any::AnyStore;
pub use charge_store::{ChargeStore, OwnersListener, StoreServer};
pub(crate) use fleet_services::FleetServices;
#[doc(hidden)]
pub use memory::CounterCopies;
pub use memory::MemoryStore;
#[cfg(feature = "redis")]
pub use redis::{
    HashSlots, PREFIX_DEFAULT, RedisAddressError, RedisCredentials, RedisSettings, RedisStore, RedisTlsFiles,
};
pub use tollgate_core::counter::{ChargeResults, StoreError};
