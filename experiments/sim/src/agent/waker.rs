//! The sleep of a shell, and the waker that ends it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Wake, Waker};

use tollgate_core::clock::Timestamp;

#[derive(Debug, Default)]
pub(super) struct Sleep {
    /// The agent's own time at which the shell wakes. An event that ends an earlier sleep is void.
    pub(super) until: Timestamp,
    pub(super) woken: Arc<SimWaker>,
}

/// A waker that was called, or not yet.
#[derive(Debug, Default)]
pub(super) struct SimWaker(pub(super) AtomicBool);

impl Wake for SimWaker {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::Relaxed);
    }
}

impl Sleep {
    pub(super) fn waker(&self) -> Waker {
        Waker::from(self.woken.clone())
    }
}
