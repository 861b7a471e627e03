//! Sliding window over sub-window counts (Muscat, "Distributed Rate-Limiting Algorithms", 2022; with n sub-windows
//! instead of its two to five).
//!
//! Error: `conservative` never admits more than the quota in any true window, and admits n/(n+1) of it under steady
//! demand; `interpolated` is right to a unit under steady demand, with an error of at most the content of the oldest sub-window.
//!
//! A rule with a burst also has a [reserve](super::reserve).

use super::limit::{Algorithm, Limit};
use super::meter::LEVEL_MAX;
use super::reserve::Reserve;
use super::verdict::Verdict;
use crate::clock::Timestamp;
use crate::window::{Estimate, Ring, Window};

/// Admitted units per sub-window, and the burst reserve.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SlidingWindow {
    ring: Ring,
    /// In memory of its own: few counters have one.
    reserve: Option<Box<Reserve>>,
    pub(super) last: Timestamp,
}

impl SlidingWindow {
    pub(super) fn new(limit: &Limit) -> Self {
        Self { ring: Ring::new(limit.window), reserve: Reserve::of(limit, 0).map(Box::new), last: Timestamp::default() }
    }

    pub(super) fn window(&self) -> Window {
        self.ring.window()
    }

    /// Adapts the reserve to a burst and quota, and sets its spent part; the counts stay.
    pub fn set_spent(&mut self, limit: &Limit, spent: u64) {
        self.reserve = Reserve::of(limit, spent).map(Box::new);
    }

    /// Returns the spent part of the reserve, in units times sub-windows.
    #[must_use]
    pub fn spent(&self) -> u64 {
        self.reserve.as_ref().map_or(0, |reserve| reserve.spent)
    }

    /// Returns the sum of all counts in the ring.
    pub(super) fn held(&self) -> u64 {
        self.ring.counts().fold(0, |sum, (_, units)| sum.saturating_add(units))
    }

    /// Returns the count of the sub-window of `at`.
    pub(super) fn held_around(&self, at: Timestamp) -> u64 {
        self.ring.get(self.window().sub_window(at))
    }

    /// Evaluates a charge against the window's content and, with a burst, the reserve.
    #[inline]
    pub(super) fn evaluate(&self, limit: &Limit, estimate: Estimate, now: Timestamp, cost: u64) -> Verdict {
        let used = self.ring.used(now, estimate);
        let left = match &self.reserve {
            None => limit.units.saturating_sub(used),
            Some(reserve) => reserve.left(used),
        };
        if let Some(remaining) = left.checked_sub(cost) {
            let reset_at = self.reset_after(estimate, now, cost);
            return Verdict::admission(now, remaining, reset_at);
        }
        let retry_at = match &self.reserve {
            None => limit.units.checked_sub(cost).map(|room| self.ring.falls_to(room, now, estimate)),
            Some(_) => (cost <= limit.burst).then(|| self.has_room_at(now, cost, estimate)),
        };
        let retry_at = retry_at.unwrap_or_else(|| now.plus_ms(limit.window.width_ms()));
        Verdict::denial(left, retry_at, self.reset_at(estimate, now))
    }

    #[inline]
    pub(super) fn charge(&mut self, at: Timestamp, units: u64) {
        if let Some(reserve) = &mut self.reserve {
            reserve.charge(self.ring.used(self.last.max(at), reserve.estimate), units);
        }
        let sub_window = self.window().sub_window(at);
        // Counts above this are not exact in Redis's Lua.
        self.ring.add(sub_window, units.min(LEVEL_MAX.saturating_sub(self.ring.get(sub_window))));
        self.last = self.last.max(at);
    }

    pub(super) fn refund(&mut self, at: Timestamp, units: u64) {
        let held = self.ring.get(self.window().sub_window(at)).min(units);
        if let Some(reserve) = &mut self.reserve {
            reserve.refund(self.ring.used(self.last, reserve.estimate), held);
        }
        self.ring.subtract(self.window().sub_window(at), units);
    }

    /// Drops the sub-windows that have left by `now`, and refills the reserve by the unused quota of each; if the window is
    /// empty, of all at once. After a step back of the clock, every unit then has the age that it had before.
    #[inline]
    pub(super) fn move_to(&mut self, now: Timestamp) {
        let target = self.window().sub_window(now);
        while let Some(reserve) = self.reserve.as_mut().filter(|reserve| !reserve.is_full())
            && self.ring.newest() < target
        {
            let newest = self.ring.newest();
            let ended = self.ring.window().end_of(newest);
            let next = if self.ring.is_empty_at(ended) { target } else { newest + 1 };
            reserve.fill(self.ring.used(ended, Estimate::Ignored), next - newest);
            self.ring.roll_to(next);
        }
        self.ring.roll_to(target);
        self.last = now;
    }

    /// Re-bases the counts to a clock that stepped back. The units of a fixed window leave at the next edge of that clock.
    pub(super) fn rebase(&mut self, limit: &Limit, now: Timestamp) {
        let estimate = match limit.algorithm {
            Algorithm::FixedWindow => Estimate::Ignored,
            _ => Estimate::Conservative,
        };
        self.ring.rebase(now, estimate);
        self.reserve.iter_mut().for_each(|reserve| reserve.hold_back());
        self.last = now;
    }

    pub(super) fn is_idle_at(&self, now: Timestamp) -> bool {
        self.ring.is_empty_at(now) && (self.has_full_reserve() || self.reset_at(Estimate::Conservative, now) <= now)
    }

    pub(super) fn admitted(&self) -> Vec<(Timestamp, u64)> {
        let window = self.window();
        self.ring.counts().map(|(sub_window, units)| (window.end_of(sub_window).min(self.last), units)).collect()
    }

    /// Returns the earliest instant at which `cost` is admitted. The burst must be at least `cost`.
    fn has_room_at(&self, now: Timestamp, cost: u64, estimate: Estimate) -> Timestamp {
        let (mut then, mut from) = (self.clone(), now);
        loop {
            let current = self.window().sub_window(from);
            // An empty window only needs time, which is computed instead of simulated.
            if then.ring.is_empty_at(from) {
                let missing = then.reserve.as_ref().map_or(0, |reserve| reserve.idle_sub_windows_until_room(cost));
                return if missing == 0 { from } else { self.window().start_of(current + missing) };
            }
            let next = self.window().start_of(current + 1);
            let room = then.reserve.as_ref().and_then(|reserve| reserve.room_for(cost));
            if let Some(at) = room.map(|room| then.ring.falls_to(room, from, estimate)).filter(|at| *at < next) {
                return at;
            }
            then.move_to(next);
            from = next;
        }
    }

    /// Returns [`Self::reset_at`] after a charge of `cost`.
    #[inline]
    fn reset_after(&self, estimate: Estimate, now: Timestamp, cost: u64) -> Timestamp {
        if cost == 0 {
            return self.reset_at(estimate, now);
        }
        if self.reserve.is_none() {
            return self.ring.empties_after(cost, now, estimate);
        }
        let mut after = self.clone();
        after.charge(now, cost);
        after.reset_at(estimate, now)
    }

    /// Returns the earliest instant at which the window is empty and the reserve is full.
    fn reset_at(&self, estimate: Estimate, now: Timestamp) -> Timestamp {
        let empty_at = self.ring.falls_to(0, now, estimate);
        if self.has_full_reserve() {
            return empty_at;
        }
        let mut then = self.clone();
        then.move_to(empty_at.max(self.last));
        match then.reserve.as_ref().map_or(0, |reserve| reserve.idle_sub_windows_until_full()) {
            0 => empty_at,
            missing => self.window().start_of(self.window().sub_window(then.last) + missing),
        }
    }

    fn has_full_reserve(&self) -> bool {
        self.reserve.as_ref().is_none_or(|reserve| reserve.is_full())
    }
}
