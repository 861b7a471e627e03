//! The meter of both buckets: the generic cell rate algorithm in its leaky-bucket form (ITU-T I.371, 1993).
//!
//! A level that falls by the quota's rate and rises by each charge. It is kept as of its last charge, in whole numbers: with
//! p units per q ms in lowest policy a unit is q of the level and a millisecond drains p, so nothing is ever rounded. Of what
//! was admitted it remembers only so much: within any window at most burst + rate x window.

use super::Limit;
use crate::clock::Timestamp;
use crate::window::Window;

/// The highest level: up to here the numbers of a store's script are exact.
pub const LEVEL_MAX: u64 = 1 << 53;

/// A level that drains.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Meter {
    units: u64,
    window: Window,
    burst: u64,
    rate: Rate,
    /// The last charge.
    at: Timestamp,
    /// As of then.
    level: u64,
}

/// So many units in so many milliseconds, in lowest policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rate {
    /// Units.
    pub units: u64,
    /// Milliseconds.
    pub ms: u64,
}

impl Rate {
    /// The rate of a quota.
    #[must_use]
    pub fn of(units: u64, width_ms: u64) -> Self {
        let (mut a, mut b) = (units, width_ms);
        while b > 0 {
            (a, b) = (b, a % b);
        }
        Self { units: units / a.max(1), ms: width_ms / a.max(1) }
    }

    /// Whether a bucket of this rate and burst stays within exact numbers.
    #[must_use]
    pub fn is_exact_for(self, burst: u64) -> bool {
        burst.checked_mul(self.ms).is_some_and(|level| level <= LEVEL_MAX)
    }
}

impl Meter {
    pub(super) fn new(limit: &Limit) -> Self {
        let (units, window, burst) = (limit.units, limit.window, limit.burst);
        let rate = Rate::of(units, window.width_ms());
        Self { units, window, burst, rate, at: Timestamp::default(), level: 0 }
    }

    /// A meter as a store tells of it.
    #[must_use]
    pub fn of(limit: &Limit, at: Timestamp, level: u64) -> Self {
        Self { at, level, ..Self::new(limit) }
    }

    /// The last charge, and the level as of then.
    pub(super) fn charged(&self) -> (Timestamp, u64) {
        (self.at, self.level)
    }

    pub(super) fn fits(&self, limit: &Limit) -> bool {
        (self.units, self.window, self.burst) == (limit.units, limit.window, limit.burst)
    }

    /// Another quota: the tokens that are there are kept, as many as the new bucket holds, and the new rate holds at once.
    pub(super) fn refitted(&self, limit: &Limit, now: Timestamp) -> Self {
        let mut fitting = Self::new(limit);
        let tokens = self.room(now) / self.rate.ms;
        fitting.level = limit.burst.saturating_sub(tokens).saturating_mul(fitting.rate.ms).min(LEVEL_MAX);
        fitting.at = if fitting.level > 0 { now } else { self.at };
        fitting
    }

    /// As full as these units make it.
    pub(super) fn filled(limit: &Limit, now: Timestamp, units: u64) -> Self {
        let mut fitting = Self::new(limit);
        if units > 0 {
            fitting.charge(now, units);
        }
        fitting
    }

    /// What is above empty, in the level's measure.
    pub(super) fn level_at(&self, now: Timestamp) -> u64 {
        self.level.saturating_sub(self.rate.units.saturating_mul(now.ms_since(self.at)))
    }

    /// What is free, in the level's measure.
    pub(super) fn room(&self, now: Timestamp) -> u64 {
        self.capacity().saturating_sub(self.level_at(now))
    }

    /// What must drain before this much fits.
    pub(super) fn lacks(&self, now: Timestamp, size: u64) -> u64 {
        (self.level_at(now) + size).saturating_sub(self.capacity())
    }

    /// What units are in the level's measure; nothing when so many never fit.
    pub(super) fn size(&self, units: u64) -> Option<u64> {
        (units <= self.burst).then(|| units.saturating_mul(self.rate.ms))
    }

    /// Whole units of a level.
    pub(super) fn units_in(&self, level: u64) -> u64 {
        level / self.rate.ms
    }

    /// How long a level takes to drain, in ms, rounded up.
    pub(super) fn drain_ms(&self, level: u64) -> u64 {
        level.div_ceil(self.rate.units.max(1))
    }

    pub(super) fn charge(&mut self, at: Timestamp, units: u64) {
        if units == 0 {
            return;
        }
        let size = units.saturating_mul(self.rate.ms);
        if at >= self.at {
            self.level = self.level_at(at);
            self.at = at;
        } else if self.at.ms_since(at) >= self.drain_ms(self.capacity()) {
            // A whole bucket has drained since.
            return;
        }
        self.level = self.level.saturating_add(size).min(LEVEL_MAX);
    }

    pub(super) fn refund(&mut self, units: u64) {
        self.level = self.level.saturating_sub(units.saturating_mul(self.rate.ms));
    }

    pub(super) fn rebase(&mut self, back_ms: u64) {
        self.at = self.at.minus_ms(back_ms);
    }

    pub(super) fn is_idle_at(&self, now: Timestamp) -> bool {
        // As long as the last charge may matter to a window that this is switched to, it is remembered.
        self.at.plus_ms(self.window.width_ms()) <= now && self.level_at(now) == 0
    }

    /// The most that may have been admitted, and when at the latest, oldest first: the level at the last charge, and the rate
    /// before it, in steps of a sub-window. Whether it was steady demand or one call after a long sleep is not known.
    pub(super) fn admitted(&self, now: Timestamp) -> Vec<(Timestamp, u64)> {
        if self.at == Timestamp::default() {
            return Vec::new();
        }
        let parts = u64::from(self.window.parts());
        let before = (0..parts).rev().map(|part| {
            let at = self.at.minus_ms(part * self.window.part_ms());
            (at, self.units.div_ceil(parts))
        });
        let last = std::iter::once((self.at, self.level.div_ceil(self.rate.ms)));
        let inside = |at: Timestamp| at.plus_ms(self.window.width_ms()) > now;
        before.chain(last).filter(|(at, units)| *units > 0 && inside(*at)).collect()
    }

    fn capacity(&self) -> u64 {
        self.burst.saturating_mul(self.rate.ms)
    }
}
