//! Virtual time: one queue of events, and the clocks that follow it.
//!
//! Of two events at the same instant, the one that was scheduled first comes first, so one seed replays everything. The
//! events themselves are in [`super::event`]; the clocks of agents and of the store differ from true time by an offset that
//! grows, and the store's clock may also step.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use tollgate_core::clock::{Clock, Timestamp};

use super::event::SimEvent;

const MILLION: i64 = 1_000_000;

/// A clock that shows the time that it was set to.
#[derive(Debug, Default)]
pub(super) struct VirtualClock(AtomicU64);

/// A clock whose difference from true time grows.
#[derive(Clone, Copy, Debug)]
pub(super) struct DriftingClock {
    pub(super) offset_ms: i64,
    /// Rate at which the difference grows, in millionths.
    pub(super) drift_ppm: i64,
    /// True time from which it drifts.
    pub(super) since: Timestamp,
}

/// The queue of events, and true time.
#[derive(Debug)]
pub(super) struct Scheduler {
    now: Timestamp,
    /// Events by their instants, and by their places among the events of an instant. They are large, and the queue moves its
    /// entries.
    queue: BTreeMap<(Timestamp, u64), Box<SimEvent>>,
    scheduled: u64,
}

impl DriftingClock {
    /// Returns the time that it shows at an instant of true time, in whole ms.
    pub(super) fn at(self, now: Timestamp) -> Timestamp {
        let drifted_ms = (now.ms_since(self.since).cast_signed() * self.drift_ppm).div_euclid(MILLION);
        Timestamp::from_ms(now.as_ms().saturating_add_signed(self.offset_ms + drifted_ms))
    }

    /// Returns the true time from an instant until it shows another time, in ms.
    pub(super) fn ms_until(self, now: Timestamp, until: Timestamp) -> u64 {
        let own_ms = until.ms_since(self.at(now));
        let drift_ms = own_ms.saturating_mul(self.drift_ppm.unsigned_abs()) / MILLION.unsigned_abs();
        let mut ms = own_ms.saturating_sub(drift_ms + 1);
        while self.at(now.plus_ms(ms)) < until {
            ms += 1;
        }
        ms
    }
}

impl VirtualClock {
    pub(super) fn set(&self, now: Timestamp) {
        self.0.store(now.as_ms(), Relaxed);
    }
}

impl Clock for VirtualClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_ms(self.0.load(Relaxed))
    }
}

impl Scheduler {
    pub(super) fn new(start: Timestamp) -> Self {
        Self { now: start, queue: BTreeMap::new(), scheduled: 0 }
    }

    /// Returns true time.
    pub(super) fn now(&self) -> Timestamp {
        self.now
    }

    /// Schedules an event `ms` from now.
    pub(super) fn after(&mut self, ms: u64, event: SimEvent) {
        self.scheduled += 1;
        self.queue.insert((self.now.plus_ms(ms), self.scheduled), Box::new(event));
    }

    /// Moves time to the next event until an instant and returns it; without one, moves time to that instant.
    pub(super) fn next_until(&mut self, until: Timestamp) -> Option<SimEvent> {
        let next = self.queue.first_entry().filter(|next| next.key().0 <= until);
        self.now = next.as_ref().map_or(until.max(self.now), |next| next.key().0);
        next.map(|next| *next.remove())
    }
}
