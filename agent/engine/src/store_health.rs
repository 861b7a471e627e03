//! State of the store's health: the breaker, and the interval in which the store's time lies.
//!
//! [`crate::store_answers`] updates it with every answer and every missed deadline.

use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::RwLock;
use tollgate_core::clock::Timestamp;

use crate::enforce::Breaker;
use crate::shell_waker::ShellWaker;
use crate::time_bounds::{StoreClock, TimeBounds};

/// Health of the store, as this agent knows it.
#[derive(Debug, Default)]
pub(crate) struct StoreHealth {
    time: RwLock<StoreClock>,
    pub(crate) breaker: Breaker,
    /// True once a ping was answered.
    reached: AtomicBool,
    /// Wakes the shell of the maintenance.
    pub(crate) waker: ShellWaker,
}

impl StoreHealth {
    /// Returns the interval in which the store's time lies.
    pub(crate) fn time(&self, now: Timestamp) -> TimeBounds {
        self.time.read().at(now)
    }

    /// Applies the store's time in an answer.
    pub(crate) fn update_time(&self, sent: Timestamp, received: Timestamp, store_now: Timestamp) {
        if self.time.read().would_learn(sent, received) {
            self.time.write().update(sent, received, store_now);
        }
    }

    /// Returns true once a ping was answered.
    pub(crate) fn is_reached(&self) -> bool {
        self.reached.load(Ordering::Relaxed)
    }

    /// Records that a ping was answered.
    pub(crate) fn set_reached(&self) {
        self.reached.store(true, Ordering::Relaxed);
    }
}
