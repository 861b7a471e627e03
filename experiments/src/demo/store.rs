//! A store that can be switched off: it answers nobody, keeps its counts, and reads what waits when it is back.

use std::sync::Arc;

use tokio::sync::watch;
use tollgate::enforce::Take;
use tollgate::store::{Answers, MemoryStore, Store, StoreError};
use tollgate_common::clock::{Clock, Timestamp};

pub(super) struct SwitchedStore {
    inner: MemoryStore,
    up: watch::Sender<bool>,
}

impl SwitchedStore {
    pub(super) fn new(clock: Arc<dyn Clock>) -> Self {
        Self { inner: MemoryStore::new(clock), up: watch::Sender::new(true) }
    }

    /// Switches it on or off; whether that changed anything.
    pub(super) fn switch(&self, up: bool) -> bool {
        self.up.send_if_modified(|now| std::mem::replace(now, up) != up)
    }

    async fn wait(&self) {
        // The sender lives as long as this store, so waiting cannot fail.
        let _ = self.up.subscribe().wait_for(|up| *up).await;
    }
}

impl Store for SwitchedStore {
    async fn take(&self, takes: &[Take]) -> Result<Answers, StoreError> {
        self.wait().await;
        self.inner.take(takes).await
    }

    fn take_now(&self, takes: &[Take]) -> Option<Result<Answers, StoreError>> {
        if *self.up.borrow() { self.inner.take_now(takes) } else { None }
    }

    async fn ping(&self) -> Result<Timestamp, StoreError> {
        self.wait().await;
        self.inner.ping().await
    }
}
