//! State of the store: the breaker, and the bounds of the store's time. [`store_health`](crate::store_health) changes it.

use std::sync::atomic::AtomicBool;

use parking_lot::RwLock;

use crate::enforce::Breaker;
use crate::shell_waker::ShellWaker;
use crate::time_bounds::StoreClock;

/// State of the store, as this agent knows it.
#[derive(Debug, Default)]
pub(crate) struct StoreState {
    pub(crate) time: RwLock<StoreClock>,
    pub(crate) breaker: Breaker,
    /// True once a ping was answered.
    pub(crate) reached: AtomicBool,
    /// Wakes the shell of the maintenance.
    pub(crate) waker: ShellWaker,
}
