//! A burst over the sliding window: a reserve of units beyond the quota (the "burst reserve layered on top of the sliding
//! window counter" of designs with a burst multiplier).
//!
//! What is admitted beyond the quota is taken from the reserve, and the reserve is filled by what each sub-window left
//! unused of the quota: so under steady demand the burst passes once and then the quota. Error: a window holds at most the
//! burst, and any time t at most burst + quota x t / window.

use super::Limit;
use crate::window::Estimate;

/// What was taken beyond the quota, and not yet made up for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Reserve {
    quota: u64,
    burst: u64,
    estimate: Estimate,
    parts: u64,
    /// Units times the number of sub-windows, so that a sub-window's share of them is whole.
    spent: u64,
}

impl Reserve {
    /// A reserve of which so much is spent, in units times sub-windows.
    pub(super) fn of(limit: &Limit, estimate: Estimate, spent: u64) -> Self {
        let parts = u64::from(limit.window.parts());
        Self { quota: limit.units, burst: limit.burst, estimate, parts, spent: 0 }.spending(spent)
    }

    /// The same for another limit.
    pub(super) fn fitted(self, limit: &Limit, estimate: Estimate) -> Self {
        let units = self.spent.div_ceil(self.parts);
        let parts = u64::from(limit.window.parts());
        Self::of(limit, estimate, if parts == self.parts { self.spent } else { units.saturating_mul(parts) })
    }

    pub(super) fn estimate(self) -> Estimate {
        self.estimate
    }

    pub(super) fn spent(self) -> u64 {
        self.spent
    }

    pub(super) fn is_whole(self) -> bool {
        self.spent == 0
    }

    /// How many units have room beside so many used.
    pub(super) fn left(self, used: u64) -> u64 {
        let reserve = (self.whole() - self.spent) / self.parts;
        self.quota.saturating_sub(used).saturating_add(reserve).min(self.burst.saturating_sub(used))
    }

    /// The most that may be used for `cost` more to pass; none when the reserve cannot bear it even then.
    pub(super) fn room_for(self, cost: u64) -> Option<u64> {
        let reserve = (self.whole() - self.spent) / self.parts;
        let by_reserve = if cost <= reserve { Some(self.burst) } else { self.quota.checked_sub(cost - reserve) };
        Some(by_reserve?.min(self.burst.checked_sub(cost)?))
    }

    /// Takes what goes beyond the quota.
    pub(super) fn charge(&mut self, used: u64, units: u64) {
        let excess = units.min(used.saturating_add(units).saturating_sub(self.quota));
        *self = self.spending(excess.saturating_mul(self.parts));
    }

    /// Gives back what the last of the used units took.
    pub(super) fn refund(&mut self, used: u64, units: u64) {
        let excess = units.min(used.saturating_sub(self.quota));
        self.spent = self.spent.saturating_sub(excess.saturating_mul(self.parts));
    }

    /// So many sub-windows are over, and the windows that ended with them held so much.
    pub(super) fn fill(&mut self, held: u64, sub_windows: u64) {
        self.spent = self.spent.saturating_sub(self.quota.saturating_sub(held).saturating_mul(sub_windows));
    }

    /// How many sub-windows without any call make it bear `cost` beside nothing, if it can at all.
    pub(super) fn bears_in(self, cost: u64) -> u64 {
        let beyond = cost.saturating_sub(self.quota).saturating_mul(self.parts);
        let too_much = self.spent.saturating_sub(self.whole().saturating_sub(beyond));
        too_much.div_ceil(self.quota.max(1))
    }

    /// How many sub-windows without any call make it whole.
    pub(super) fn fills_in(self) -> u64 {
        self.spent.div_ceil(self.quota.max(1))
    }

    fn spending(mut self, more: u64) -> Self {
        self.spent = self.spent.saturating_add(more).min(self.whole());
        self
    }

    fn whole(self) -> u64 {
        self.burst.saturating_sub(self.quota).saturating_mul(self.parts)
    }
}
