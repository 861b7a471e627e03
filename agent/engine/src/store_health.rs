//! State of the store's health: the breaker, and the interval in which the store's time lies.
//!
//! [`crate::store_answers`] updates it with every answer and every missed deadline.

use std::sync::atomic::AtomicBool;

use parking_lot::RwLock;
use tollgate_core::clock::Timestamp;

use crate::enforce::Breaker;
use crate::shell_waker::ShellWaker;
use crate::time_bounds::StoreClock;

/// Health of the store, as this agent knows it.
#[derive(Debug, Default)]
pub(crate) struct StoreHealth {
    pub(crate) time: RwLock<StoreClock>,
    pub(crate) breaker: Breaker,
    /// True once a ping was answered.
    pub(crate) reached: AtomicBool,
    /// Wakes the shell of the maintenance.
    pub(crate) waker: ShellWaker,
}

impl StoreHealth {
    /// Applies the store's time in an answer.
    pub(crate) fn update_time(&self, sent: Timestamp, received: Timestamp, store_now: Timestamp) {
        if self.time.read().would_learn(sent, received) {
            self.time.write().update(sent, received, store_now);
        }
    }
}
