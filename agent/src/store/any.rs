//! The store that the builder's settings select.

use std::sync::Arc;

use tollgate_core::clock::Timestamp;
use tollgate_core::counter::{Charge, ChargeResults, CounterId, PrimaryIndex};
use tollgate_core::regions::stored_limit::LimitView;
use tollgate_engine::StoreShape;

#[cfg(feature = "redis")]
use super::RedisStore;
use super::{ChargeStore, MemoryStore, OwnersListener, StoreError, StoreServer};

/// Store that the settings of a [`Builder`](crate::Builder) select.
#[non_exhaustive]
pub enum AnyStore {
    /// Counters in this process.
    #[doc(hidden)]
    Memory(Arc<MemoryStore>),
    /// Counters in Redis.
    #[cfg(feature = "redis")]
    #[doc(hidden)]
    Redis(RedisStore),
}

impl ChargeStore for AnyStore {
    async fn charge(&self, charges: &[Charge]) -> Result<ChargeResults, StoreError> {
        match self {
            Self::Memory(store) => store.charge(charges).await,
            #[cfg(feature = "redis")]
            Self::Redis(store) => store.charge(charges).await,
        }
    }

    async fn charge_at(
        &self,
        primary: PrimaryIndex,
        is_passing: bool,
        charges: &[Charge],
    ) -> Result<ChargeResults, StoreError> {
        match self {
            Self::Memory(store) => store.charge_at(primary, is_passing, charges).await,
            #[cfg(feature = "redis")]
            Self::Redis(store) => store.charge_at(primary, is_passing, charges).await,
        }
    }

    fn try_charge(&self, charges: &[Charge]) -> Option<Result<ChargeResults, StoreError>> {
        match self {
            Self::Memory(store) => store.try_charge(charges),
            #[cfg(feature = "redis")]
            Self::Redis(store) => store.try_charge(charges),
        }
    }

    fn shape(&self) -> StoreShape {
        match self {
            Self::Memory(store) => store.shape(),
            #[cfg(feature = "redis")]
            Self::Redis(store) => store.shape(),
        }
    }

    async fn ping(&self) -> Result<Timestamp, StoreError> {
        match self {
            Self::Memory(store) => store.ping().await,
            #[cfg(feature = "redis")]
            Self::Redis(store) => store.ping().await,
        }
    }

    async fn ping_primary(&self, primary: PrimaryIndex) -> Result<Timestamp, StoreError> {
        match self {
            Self::Memory(store) => store.ping_primary(primary).await,
            #[cfg(feature = "redis")]
            Self::Redis(store) => store.ping_primary(primary).await,
        }
    }

    fn tell_slots(&self, listener: OwnersListener) {
        match self {
            Self::Memory(store) => store.tell_slots(listener),
            #[cfg(feature = "redis")]
            Self::Redis(store) => store.tell_slots(listener),
        }
    }

    fn servers(&self) -> Vec<StoreServer> {
        match self {
            Self::Memory(store) => store.servers(),
            #[cfg(feature = "redis")]
            Self::Redis(store) => store.servers(),
        }
    }

    async fn limit_view(&self, counter: CounterId) -> Option<LimitView> {
        match self {
            Self::Memory(store) => store.limit_view(counter).await,
            #[cfg(feature = "redis")]
            Self::Redis(store) => store.limit_view(counter).await,
        }
    }
}
