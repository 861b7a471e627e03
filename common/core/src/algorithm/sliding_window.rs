//! The sliding window over sub-window counts (Muscat, "Distributed Rate-Limiting Algorithms", 2022; with n sub-windows
//! instead of its two to five).
//!
//! Error: `conservative` never admits more than the quota in any true window, and admits n/(n+1) of it under steady
//! demand; `interpolated` is exact under steady demand and off by at most the content of the oldest sub-window.
//!
//! With a burst there is a [reserve](super::reserve) beside the counts.

use super::reserve::Reserve;
use super::{LEVEL_MAX, Limit, Verdict};
use crate::clock::Timestamp;
use crate::window::{Estimate, Ring, Window};

/// Admitted units per sub-window, and the reserve of a burst.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SlidingWindow {
    ring: Ring,
    reserve: Option<Reserve>,
    pub(super) last: Timestamp,
}

impl SlidingWindow {
    pub(super) fn new(limit: &Limit) -> Self {
        let reserve = limit.reserve_estimate().map(|estimate| Reserve::of(limit, estimate, 0));
        Self { ring: Ring::new(limit.window), reserve, last: Timestamp::default() }
    }

    pub(super) fn window(&self) -> Window {
        self.ring.window()
    }

    /// Sets what is spent of the reserve, as a store tells of it.
    pub(super) fn set_spent(&mut self, limit: &Limit, spent: u64) {
        self.reserve = limit.reserve_estimate().map(|estimate| Reserve::of(limit, estimate, spent));
    }

    /// Spent part of the reserve, in units times sub-windows.
    pub(super) fn spent(&self) -> u64 {
        self.reserve.map_or(0, Reserve::spent)
    }

    /// Follows a changed burst or quota; the counts stay.
    pub(super) fn fit_reserve(&mut self, limit: &Limit) {
        self.reserve = limit.reserve_estimate().map(|estimate| match self.reserve {
            Some(reserve) => reserve.fitted(limit, estimate),
            None => Reserve::of(limit, estimate, 0),
        });
    }

    /// All units in the ring.
    pub(super) fn held(&self) -> u64 {
        self.ring.counts().fold(0, |sum, (_, units)| sum.saturating_add(units))
    }

    /// Whether there is room beside what the window holds, and in the reserve where there is one.
    pub(super) fn evaluate(&self, limit: &Limit, estimate: Estimate, now: Timestamp, cost: u64) -> Verdict {
        let used = self.ring.used(now, estimate);
        let left = match &self.reserve {
            None => limit.units.saturating_sub(used),
            Some(reserve) => reserve.left(used),
        };
        if let Some(remaining) = left.checked_sub(cost) {
            let reset_at = self.reset_after(limit.window, estimate, now, cost);
            return Verdict { admitted: true, remaining, retry_at: now, reset_at, delay_ms: 0 };
        }
        let retry_at = match &self.reserve {
            None => limit.units.checked_sub(cost).map(|room| self.ring.falls_to(room, now, estimate)),
            Some(_) => (cost <= limit.burst).then(|| self.has_room_at(now, cost, estimate)),
        };
        let retry_at = retry_at.unwrap_or_else(|| now.plus_ms(limit.window.width_ms()));
        let reset_at = self.reset_at(estimate, now);
        Verdict { admitted: false, remaining: left, retry_at, reset_at, delay_ms: 0 }
    }

    pub(super) fn charge(&mut self, at: Timestamp, units: u64) {
        if let Some(reserve) = &mut self.reserve {
            reserve.charge(self.ring.used(self.last.max(at), reserve.estimate()), units);
        }
        let sub_window = self.window().sub_window(at);
        // Up to there the numbers of a store's script are exact.
        self.ring.add(sub_window, units.min(LEVEL_MAX.saturating_sub(self.ring.get(sub_window))));
        self.last = self.last.max(at);
    }

    pub(super) fn refund(&mut self, at: Timestamp, units: u64) {
        let held = self.ring.get(self.window().sub_window(at)).min(units);
        if let Some(reserve) = &mut self.reserve {
            reserve.refund(self.ring.used(self.last, reserve.estimate()), held);
        }
        self.ring.subtract(self.window().sub_window(at), units);
    }

    /// Drops what has left by `now`, so that a clock which then steps back finds every unit as old as it was.
    pub(super) fn move_to(&mut self, now: Timestamp) {
        let target = self.window().sub_window(now);
        while self.reserve.is_some_and(|reserve| !reserve.is_whole()) && self.ring.newest() < target {
            self.end_sub_window(target);
        }
        self.ring.roll_to(target);
        self.last = now;
    }

    pub(super) fn rebase(&mut self, now: Timestamp) {
        self.ring.rebase(now);
        self.last = now;
    }

    pub(super) fn is_idle_at(&self, now: Timestamp) -> bool {
        if self.reserve.is_none_or(Reserve::is_whole) || now <= self.last {
            return self.ring.is_empty_at(now) && self.reserve.is_none_or(Reserve::is_whole);
        }
        let mut then = self.clone();
        then.move_to(now);
        then.ring.is_empty_at(now) && then.reserve.is_none_or(Reserve::is_whole)
    }

    pub(super) fn admitted(&self) -> Vec<(Timestamp, u64)> {
        let window = self.window();
        self.ring.counts().map(|(sub_window, units)| (window.end_of(sub_window).min(self.last), units)).collect()
    }

    /// The newest sub-window is over: what it left unused fills the reserve. When nothing is held any more, all that are
    /// over until `target` at once.
    fn end_sub_window(&mut self, target: u64) {
        let newest = self.ring.newest();
        let ended = self.window().end_of(newest);
        let (held, empty) = (self.ring.used(ended, Estimate::Ignored), self.ring.is_empty_at(ended));
        let next = if empty { target } else { newest + 1 };
        if let Some(reserve) = &mut self.reserve {
            reserve.fill(held, next - newest);
        }
        self.ring.roll_to(next);
    }

    /// The first instant at which so much has room, with a reserve that bears it when it is whole.
    fn has_room_at(&self, now: Timestamp, cost: u64, estimate: Estimate) -> Timestamp {
        let (mut then, mut from) = (self.clone(), now);
        loop {
            let current = self.window().sub_window(from);
            // Once nothing is held, only time is missing, and however much of it need not be walked through.
            if then.ring.is_empty_at(from) {
                let missing = then.reserve.map_or(0, |reserve| reserve.bears_in(cost));
                return if missing == 0 { from } else { self.window().start_of(current + missing) };
            }
            let next = self.window().start_of(current + 1);
            let room = then.reserve.and_then(|reserve| reserve.room_for(cost));
            if let Some(at) = room.map(|room| then.ring.falls_to(room, from, estimate)).filter(|at| *at < next) {
                return at;
            }
            then.move_to(next);
            from = next;
        }
    }

    /// The same once so much more is charged.
    fn reset_after(&self, window: Window, estimate: Estimate, now: Timestamp, cost: u64) -> Timestamp {
        if cost == 0 {
            return self.reset_at(estimate, now);
        }
        if self.reserve.is_none() {
            let kept = u64::from(estimate != Estimate::Ignored);
            return window.start_of(window.sub_window(now) + u64::from(window.parts()) + kept);
        }
        let mut after = self.clone();
        after.charge(now, cost);
        after.reset_at(estimate, now)
    }

    /// The first instant at which nothing is used and nothing spent.
    fn reset_at(&self, estimate: Estimate, now: Timestamp) -> Timestamp {
        let empty_at = self.ring.falls_to(0, now, estimate);
        if self.reserve.is_none_or(Reserve::is_whole) {
            return empty_at;
        }
        let mut then = self.clone();
        then.move_to(empty_at.max(self.last));
        let Some(reserve) = then.reserve.filter(|reserve| !reserve.is_whole()) else {
            return empty_at;
        };
        self.window().start_of(self.window().sub_window(empty_at.max(self.last)) + reserve.fills_in())
    }
}
