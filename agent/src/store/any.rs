//! The store that an agent was told to use, of those there are.

use tollgate_core::clock::Timestamp;
use tollgate_core::messages::rules::Published;
use tollgate_core::rules::Generation;

use super::{ChargeResults, MemoryStore, RedisStore, Store, StoreError};
use tollgate_core::counter::Charge;

/// One of the stores.
pub enum AnyStore {
    /// In this process.
    Memory(MemoryStore),
    /// In Redis.
    Redis(RedisStore),
}

impl Store for AnyStore {
    async fn take(&self, takes: &[Charge]) -> Result<ChargeResults, StoreError> {
        match self {
            Self::Memory(store) => store.take(takes).await,
            Self::Redis(store) => store.take(takes).await,
        }
    }

    fn take_now(&self, takes: &[Charge]) -> Option<Result<ChargeResults, StoreError>> {
        match self {
            Self::Memory(store) => store.take_now(takes),
            Self::Redis(store) => store.take_now(takes),
        }
    }

    async fn ping(&self) -> Result<Timestamp, StoreError> {
        match self {
            Self::Memory(store) => store.ping().await,
            Self::Redis(store) => store.ping().await,
        }
    }

    async fn show(&self, agent: &str, leaving: bool) -> Result<Option<u32>, StoreError> {
        match self {
            Self::Memory(store) => store.show(agent, leaving).await,
            Self::Redis(store) => store.show(agent, leaving).await,
        }
    }

    async fn rules(&self) -> Result<Option<(Generation, Published)>, StoreError> {
        match self {
            Self::Memory(store) => store.rules().await,
            Self::Redis(store) => store.rules().await,
        }
    }
}
