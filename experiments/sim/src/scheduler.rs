//! Virtual time: one queue of events, and the clocks that follow it.
//!
//! The regions of a world share the queue. Each has a handle, which names its region with each event. Of two events at the same instant, the one that was scheduled first comes first, so one seed replays everything. The
//! events themselves are in [`super::event`]; the clocks of agents and of the store differ from true time by an offset that
//! grows, and the store's clock may also step.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
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

/// Handle of one region to the queue of events and to true time.
#[derive(Clone, Debug)]
pub(super) struct Scheduler {
    region: usize,
    queue: Rc<RefCell<SharedQueue>>,
}

#[derive(Debug)]
struct SharedQueue {
    now: Timestamp,
    /// Events with their regions, by their instants and by their places among the events of an instant. They are large, and the
    /// queue moves its entries.
    events: BTreeMap<(Timestamp, u64), (usize, Box<SimEvent>)>,
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
        let queue = SharedQueue { now: start, events: BTreeMap::new(), scheduled: 0 };
        Self { region: 0, queue: Rc::new(RefCell::new(queue)) }
    }

    /// Returns the handle of another region.
    pub(super) fn of_region(&self, region: usize) -> Self {
        Self { region, queue: self.queue.clone() }
    }

    /// Returns true time.
    pub(super) fn now(&self) -> Timestamp {
        self.queue.borrow().now
    }

    /// Schedules an event `ms` from now.
    pub(super) fn after(&mut self, ms: u64, event: SimEvent) {
        let mut queue = self.queue.borrow_mut();
        queue.scheduled += 1;
        let at = (queue.now.plus_ms(ms), queue.scheduled);
        queue.events.insert(at, (self.region, Box::new(event)));
    }

    /// Schedules an event at an instant, or now if that has passed.
    pub(super) fn at(&mut self, at: Timestamp, event: SimEvent) {
        self.after(at.ms_since(self.now()), event);
    }

    /// Moves time to the next event until an instant and returns it with its region; without one, moves time to that instant.
    pub(super) fn next_until(&mut self, until: Timestamp) -> Option<(usize, SimEvent)> {
        let mut queue = self.queue.borrow_mut();
        let at = queue.events.first_key_value().map(|((at, _), _)| *at).filter(|at| *at <= until);
        queue.now = at.unwrap_or(until.max(queue.now));
        let (_, (region, event)) = at.and_then(|_| queue.events.pop_first())?;
        Some((region, *event))
    }
}
