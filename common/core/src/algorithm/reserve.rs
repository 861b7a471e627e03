//! Burst reserve of a sliding window: units beyond the quota (the "burst reserve layered on top of the sliding window
//! counter" of designs with a burst multiplier).
//!
//! Units admitted beyond the quota are taken from the reserve, and the unused quota of each ended sub-window refills
//! it. Under steady demand the burst is admitted once and then the quota. Error: a window holds at most the burst, and
//! any time t at most burst + quota x t / window.

use super::limit::{Algorithm, Limit};
use crate::window::Estimate;

/// Units taken beyond the quota that have not been refilled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Reserve {
    quota: u64,
    burst: u64,
    pub(super) estimate: Estimate,
    parts: u64,
    /// Spent units times the number of sub-windows, so that one sub-window's share is a whole number.
    pub(super) spent: u64,
}

impl Reserve {
    /// Returns the reserve of a sliding window with a burst, of which `spent` units times sub-windows are spent; none for
    /// other limits.
    pub(super) fn of(limit: &Limit, spent: u64) -> Option<Self> {
        let Algorithm::SlidingWindow(estimate) = limit.algorithm else { return None };
        let (quota, burst, parts) = (limit.units, limit.burst, u64::from(limit.window.sub_windows()));
        (burst > 0).then(|| Self { quota, burst, estimate, parts, spent: 0 }.spending(spent))
    }

    pub(super) fn is_full(self) -> bool {
        self.spent == 0
    }

    /// Returns the units that have room if the window holds `used`.
    pub(super) fn left(self, used: u64) -> u64 {
        let reserve = (self.capacity() - self.spent) / self.parts;
        self.quota.saturating_sub(used).saturating_add(reserve).min(self.burst.saturating_sub(used))
    }

    /// Returns the maximum content of the window at which `cost` is admitted, or `None` if the reserve is too small
    /// even for an empty window.
    pub(super) fn room_for(self, cost: u64) -> Option<u64> {
        let reserve = (self.capacity() - self.spent) / self.parts;
        let by_reserve = if cost <= reserve { Some(self.burst) } else { self.quota.checked_sub(cost - reserve) };
        Some(by_reserve?.min(self.burst.checked_sub(cost)?))
    }

    /// Takes the part of `units` that exceeds the quota.
    pub(super) fn charge(&mut self, used: u64, units: u64) {
        let excess = units.min(used.saturating_add(units).saturating_sub(self.quota));
        *self = self.spending(excess.saturating_mul(self.parts));
    }

    /// Returns the part of `units` that had exceeded the quota.
    pub(super) fn refund(&mut self, used: u64, units: u64) {
        let excess = units.min(used.saturating_sub(self.quota));
        self.spent = self.spent.saturating_sub(excess.saturating_mul(self.parts));
    }

    /// Refills the reserve after `sub_windows` sub-windows ended, each with `held` units in its window.
    pub(super) fn fill(&mut self, held: u64, sub_windows: u64) {
        self.spent = self.spent.saturating_sub(self.quota.saturating_sub(held).saturating_mul(sub_windows));
    }

    /// Takes the refill of the present sub-window beforehand, because it ends early after a step back of the clock.
    pub(super) fn hold_back(&mut self) {
        if !self.is_full() {
            *self = self.spending(self.quota);
        }
    }

    /// Returns the number of idle sub-windows after which an empty window admits `cost`.
    pub(super) fn idle_sub_windows_until_room(self, cost: u64) -> u64 {
        let beyond = cost.saturating_sub(self.quota).saturating_mul(self.parts);
        let too_much = self.spent.saturating_sub(self.capacity().saturating_sub(beyond));
        too_much.div_ceil(self.quota.max(1))
    }

    /// Returns the number of idle sub-windows after which the reserve is full.
    pub(super) fn idle_sub_windows_until_full(self) -> u64 {
        self.spent.div_ceil(self.quota.max(1))
    }

    fn spending(mut self, more: u64) -> Self {
        self.spent = self.spent.saturating_add(more).min(self.capacity());
        self
    }

    fn capacity(self) -> u64 {
        self.burst.saturating_sub(self.quota).saturating_mul(self.parts)
    }
}
