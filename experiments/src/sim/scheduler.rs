//! Virtual time: one queue of events, and the clocks that follow it.
//!
//! Of two events at the same instant, the one that was scheduled first comes first, so one seed replays everything. The
//! events themselves are in [`super::event`]; the clocks of agents differ from true time by a constant offset, and the
//! store's clock may also step.

use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use tollgate_core::clock::{Clock, Timestamp};

use super::event::SimEvent;

/// A clock that shows the time that it was set to.
#[derive(Debug, Default)]
pub(super) struct VirtualClock(AtomicU64);

/// The queue of events, and true time.
#[derive(Debug)]
pub(super) struct Scheduler {
    now: Timestamp,
    queue: BinaryHeap<Reverse<Scheduled>>,
    scheduled: u64,
}

/// An event, its instant, and its place among the events of that instant.
#[derive(Debug)]
struct Scheduled {
    at: Timestamp,
    order: u64,
    event: SimEvent,
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
        Self { now: start, queue: BinaryHeap::new(), scheduled: 0 }
    }

    /// Returns true time.
    pub(super) fn now(&self) -> Timestamp {
        self.now
    }

    /// Schedules an event `ms` from now.
    pub(super) fn after(&mut self, ms: u64, event: SimEvent) {
        self.scheduled += 1;
        self.queue.push(Reverse(Scheduled { at: self.now.plus_ms(ms), order: self.scheduled, event }));
    }

    /// Moves time to the next event until an instant and returns it; without one, moves time to that instant.
    pub(super) fn next_until(&mut self, until: Timestamp) -> Option<SimEvent> {
        let is_due = self.queue.peek().is_some_and(|Reverse(next)| next.at <= until);
        let next = if is_due { self.queue.pop() } else { None };
        self.now = next.as_ref().map_or(until.max(self.now), |Reverse(next)| next.at);
        next.map(|Reverse(next)| next.event)
    }
}

impl Ord for Scheduled {
    fn cmp(&self, other: &Self) -> Ordering {
        (self.at, self.order).cmp(&(other.at, other.order))
    }
}

impl PartialOrd for Scheduled {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Scheduled {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Scheduled {}
