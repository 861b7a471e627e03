//! The interface of every store.

use std::future::Future;

use tollgate_core::clock::Timestamp;
use tollgate_core::counter::{Charge, ChargeResults, CounterId, PrimaryIndex, StoreError};
use tollgate_core::regions::stored_limit::LimitView;
use tollgate_engine::StoreShape;

/// Server of a store, as an operator sees it.
#[doc(hidden)]
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoreServer {
    /// Host and port, or path; the address if there is no connection.
    pub node: String,
    /// True if there is a connection.
    pub is_connected: bool,
    /// Reason why it does not serve, with a remedy; none if it serves, or is only late.
    pub trouble: Option<String>,
}

/// Listener that is told the primary of each slot; none for a slot that nobody serves.
#[doc(hidden)]
pub type OwnersListener = Box<dyn Fn(&[Option<PrimaryIndex>]) + Send + Sync>;

/// Store of counters. It is not meant to be implemented outside of Tollgate: its methods may change in any version.
pub trait ChargeStore: Send + Sync + 'static {
    /// Charges counters in one step and one round trip: all of them or none. Backfill is charged in any case.
    #[doc(hidden)]
    fn charge(&self, charges: &[Charge]) -> impl Future<Output = Result<ChargeResults, StoreError>> + Send;

    /// Charges the counters of one slot at a primary, as [`ChargeStore::charge`] does. `is_passing` is true if the slot is on its way
    /// to this primary. A store with one primary has no others.
    #[doc(hidden)]
    fn charge_at(
        &self,
        primary: PrimaryIndex,
        is_passing: bool,
        charges: &[Charge],
    ) -> impl Future<Output = Result<ChargeResults, StoreError>> + Send {
        let _ = (primary, is_passing);
        self.charge(charges)
    }

    /// Charges at once, if the store needs no waiting.
    #[doc(hidden)]
    fn try_charge(&self, charges: &[Charge]) -> Option<Result<ChargeResults, StoreError>> {
        let _ = charges;
        None
    }

    /// Returns the shape of the store.
    #[doc(hidden)]
    fn shape(&self) -> StoreShape {
        StoreShape::Server
    }

    /// Returns the store's time.
    #[doc(hidden)]
    fn ping(&self) -> impl Future<Output = Result<Timestamp, StoreError>> + Send;

    /// Returns the time of a primary.
    #[doc(hidden)]
    fn ping_primary(&self, primary: PrimaryIndex) -> impl Future<Output = Result<Timestamp, StoreError>> + Send {
        let _ = primary;
        self.ping()
    }

    /// Tells a listener the primary of each slot, whenever it changes. A store with one primary tells nothing.
    #[doc(hidden)]
    fn tell_slots(&self, listener: OwnersListener) {
        let _ = listener;
    }

    /// Returns the servers of the store; none if it is in this process.
    #[doc(hidden)]
    fn servers(&self) -> Vec<StoreServer> {
        Vec::new()
    }

    /// Returns the record of a counter's limit, for display; none if there is none, or if the store does not answer.
    #[doc(hidden)]
    fn limit_view(&self, counter: CounterId) -> impl Future<Output = Option<LimitView>> + Send {
        let _ = counter;
        std::future::ready(None)
    }
}
