//! A store that can be switched off. While it is off it answers no request and keeps its counts; requests that wait are
//! processed when it is switched on again.

use tokio::sync::watch;
use tollgate::store::{ChargeStore, StoreError};
use tollgate_core::clock::Timestamp;
use tollgate_core::counter::Charge;
use tollgate_core::counter::ChargeResults;

pub(super) struct SwitchedStore<S> {
    inner: S,
    up: watch::Sender<bool>,
}

impl<S> SwitchedStore<S> {
    pub(super) fn new(inner: S) -> Self {
        Self { inner, up: watch::Sender::new(true) }
    }

    /// Returns true if the state of the store has changed.
    pub(super) fn switch(&self, up: bool) -> bool {
        self.up.send_if_modified(|now| std::mem::replace(now, up) != up)
    }

    async fn wait(&self) {
        // The sender lives as long as this store, so waiting cannot fail.
        let _ = self.up.subscribe().wait_for(|up| *up).await;
    }
}

impl<S: ChargeStore> ChargeStore for SwitchedStore<S> {
    async fn charge(&self, charges: &[Charge]) -> Result<ChargeResults, StoreError> {
        self.wait().await;
        self.inner.charge(charges).await
    }

    fn try_charge(&self, charges: &[Charge]) -> Option<Result<ChargeResults, StoreError>> {
        if *self.up.borrow() { self.inner.try_charge(charges) } else { None }
    }

    async fn ping(&self) -> Result<Timestamp, StoreError> {
        self.wait().await;
        self.inner.ping().await
    }
}
