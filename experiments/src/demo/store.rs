//! A store that can be switched off. While it is off it answers no request and keeps its counts; requests that wait are
//! processed when it is switched on again.

use tokio::sync::watch;
use tollgate::store::{Store, StoreError};
use tollgate_core::clock::Timestamp;
use tollgate_core::counter::Charge;
use tollgate_core::counter::ChargeResults;
use tollgate_core::messages::rules::Published;
use tollgate_core::rules::Generation;

pub(super) struct SwitchedStore<S> {
    inner: S,
    up: watch::Sender<bool>,
}

impl<S> SwitchedStore<S> {
    pub(super) fn new(inner: S) -> Self {
        Self { inner, up: watch::Sender::new(true) }
    }

    /// Switches the store on or off. Returns true if that changed its state.
    pub(super) fn switch(&self, up: bool) -> bool {
        self.up.send_if_modified(|now| std::mem::replace(now, up) != up)
    }

    async fn wait(&self) {
        // The sender lives as long as this store, so waiting cannot fail.
        let _ = self.up.subscribe().wait_for(|up| *up).await;
    }
}

impl<S: Store> Store for SwitchedStore<S> {
    async fn take(&self, takes: &[Charge]) -> Result<ChargeResults, StoreError> {
        self.wait().await;
        self.inner.take(takes).await
    }

    fn take_now(&self, takes: &[Charge]) -> Option<Result<ChargeResults, StoreError>> {
        if *self.up.borrow() { self.inner.take_now(takes) } else { None }
    }

    async fn ping(&self) -> Result<Timestamp, StoreError> {
        self.wait().await;
        self.inner.ping().await
    }

    async fn show(&self, agent: &str, leaving: bool) -> Result<Option<u32>, StoreError> {
        self.wait().await;
        self.inner.show(agent, leaving).await
    }

    async fn rules(&self) -> Result<Option<(Generation, Published)>, StoreError> {
        self.wait().await;
        self.inner.rules().await
    }
}
