//! Resets that an agent knows, behind a flag that spares calls the lock as long as there are none.

use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;
use tollgate_core::clock::Timestamp;
use tollgate_core::counter::CounterId;
use tollgate_core::messages::presence::CounterReset;

use crate::store::reset_announcements::ResetAnnouncements;

#[derive(Debug, Default)]
pub(crate) struct Resets {
    announcements: Mutex<ResetAnnouncements>,
    /// False while no reset is known, as mostly.
    are_known: AtomicBool,
}

impl Resets {
    /// Announces a reset of this agent in the next heartbeats.
    pub(crate) fn announce(&self, now: Timestamp, reset: CounterReset) {
        let mut announcements = self.announcements.lock();
        // Under the lock, or a call that finds none meanwhile would clear the flag for good.
        self.are_known.store(true, Ordering::Relaxed);
        announcements.announce(now, reset);
    }

    /// Learns a reset; returns false if it, or a later one of the counter, is known.
    pub(crate) fn learn(&self, now: Timestamp, reset: &CounterReset) -> bool {
        let mut announcements = self.announcements.lock();
        self.are_known.store(true, Ordering::Relaxed);
        announcements.learn(now, reset)
    }

    /// Returns the instant of the last known reset of a counter, if it was at `at` or later. Both are in store time.
    #[inline]
    pub(crate) fn after(&self, now: Timestamp, counter: CounterId, at: Timestamp) -> Option<Timestamp> {
        if !self.are_known.load(Ordering::Relaxed) {
            return None;
        }
        let resets = self.announcements.lock();
        self.are_known.store(resets.are_known(now), Ordering::Relaxed);
        resets.last(counter).filter(|reset| at <= *reset)
    }

    /// Returns true if a heartbeat is due at once.
    pub(crate) fn is_due(&self) -> bool {
        self.announcements.lock().is_due()
    }

    /// Returns the resets for a heartbeat.
    pub(crate) fn for_heartbeat(&self, now: Timestamp) -> Vec<CounterReset> {
        self.announcements.lock().for_heartbeat(now)
    }

    /// Forgets all resets, whose instants say nothing once the store's clock was set.
    pub(crate) fn clock_was_set(&self) {
        self.announcements.lock().clock_was_set();
    }
}
