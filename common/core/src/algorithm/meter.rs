//! Meter of the token bucket and the leaky bucket: the generic cell rate algorithm in its leaky-bucket form (ITU-T
//! I.371, 1993).
//!
//! The level falls at the quota's rate and rises by each charge; it is stored as of the last charge. All numbers are
//! whole: for a rate of p units per q ms in lowest terms, one unit raises the level by q and one millisecond lowers it
//! by p, so nothing is rounded. The meter does not store the times of admissions; it only bounds them: at most burst +
//! rate x window within any window.

use super::limit::{Algorithm, Limit};
use crate::clock::{CLOCK_ERROR_MAX_MS, Timestamp};
use crate::window::Window;

/// Maximum level. Numbers up to this one are exact in Redis's Lua, where they are doubles.
pub const LEVEL_MAX: u64 = 1 << 53;

/// Level that drains at a constant rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Meter {
    units: u64,
    window: Window,
    burst: u64,
    rate: Rate,
    /// Time of the last charge.
    at: Timestamp,
    /// Level at `at`, in units times `rate.ms`.
    level: u64,
    /// Time of the counter's last step.
    pub(super) last: Timestamp,
}

/// Rate as a fraction in lowest terms.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rate {
    /// Units per `ms`.
    pub units: u64,
    /// Milliseconds per `units`.
    pub ms: u64,
}

impl Rate {
    /// Returns the rate of `units` per `width_ms`, reduced to lowest terms.
    #[must_use]
    pub fn of(units: u64, width_ms: u64) -> Self {
        let (mut a, mut b) = (units, width_ms);
        while b > 0 {
            (a, b) = (b, a % b);
        }
        Self { units: units / a.max(1), ms: width_ms / a.max(1) }
    }
}

impl Limit {
    /// Returns the time in ms after which a charge has no effect any more: the window, or the time in which a whole bucket
    /// drains if that is longer. For this time, a store knows the ids of requests.
    #[must_use]
    pub fn lasts_ms(&self) -> u64 {
        let width_ms = self.window.width_ms();
        match self.algorithm {
            Algorithm::TokenBucket | Algorithm::LeakyBucket => width_ms.max(Meter::drain_whole_ms(self)),
            _ => width_ms,
        }
    }
}

impl Meter {
    pub(super) fn new(limit: &Limit) -> Self {
        let (units, window, burst) = (limit.units, limit.window, limit.burst);
        let rate = Rate::of(units, window.width_ms());
        Self { units, window, burst, rate, at: Timestamp::default(), level: 0, last: Timestamp::default() }
    }

    /// Returns a meter with the level that a store reports as of `at`.
    #[must_use]
    pub fn of(limit: &Limit, at: Timestamp, level: u64) -> Self {
        Self { at, level, ..Self::new(limit) }
    }

    /// Returns the instant of the last charge, and the level as of then.
    #[must_use]
    pub fn charged(&self) -> (Timestamp, u64) {
        (self.at, self.level)
    }

    /// The present tokens are kept up to the new burst, and the new rate applies from the last step.
    pub(super) fn fit(&mut self, limit: &Limit) {
        if (self.units, self.window, self.burst) == (limit.units, limit.window, limit.burst) {
            return;
        }
        let (fitting, tokens) = (Self::new(limit), self.units_in(self.room(self.last)));
        let level = limit.burst.saturating_sub(tokens).saturating_mul(fitting.rate.ms).min(LEVEL_MAX);
        *self = Self { at: if level > 0 { self.last } else { self.at }, level, last: self.last, ..fitting };
    }

    pub(super) fn level_at(&self, now: Timestamp) -> u64 {
        self.level.saturating_sub(self.rate.units.saturating_mul(now.ms_since(self.at)))
    }

    /// Returns the free part of the capacity at `now`, in level units.
    pub(super) fn room(&self, now: Timestamp) -> u64 {
        self.capacity().saturating_sub(self.level_at(now))
    }

    /// Returns the amount that must drain before `size` fits.
    pub(super) fn shortfall(&self, now: Timestamp, size: u64) -> u64 {
        (self.level_at(now) + size).saturating_sub(self.capacity())
    }

    /// Converts units to level units; returns `None` if the units exceed the burst.
    pub(super) fn size(&self, units: u64) -> Option<u64> {
        (units <= self.burst).then(|| units.saturating_mul(self.rate.ms))
    }

    /// Returns the whole units of a level.
    pub(super) fn units_in(&self, level: u64) -> u64 {
        level / self.rate.ms
    }

    /// Returns the time in ms in which a level drains, rounded up.
    pub(super) fn drain_ms(&self, level: u64) -> u64 {
        level.div_ceil(self.rate.units.max(1))
    }

    pub(super) fn charge(&mut self, at: Timestamp, units: u64) {
        self.last = self.last.max(at);
        if units == 0 {
            return;
        }
        let size = units.saturating_mul(self.rate.ms);
        if at >= self.at {
            self.level = self.level_at(at);
            self.at = at;
        } else if self.at.ms_since(at) >= self.drain_ms(self.capacity()) {
            // The whole bucket has drained since `at`.
            return;
        }
        self.level = self.level.saturating_add(size).min(LEVEL_MAX);
    }

    /// Refunds units that were charged at `at`, up to the capacity less what has drained since then. If `at` is ahead
    /// of the counter, its clock has stepped back, and no unit is refunded.
    pub(super) fn refund(&mut self, at: Timestamp, units: u64) {
        if at > self.last.plus_ms(CLOCK_ERROR_MAX_MS) {
            return;
        }
        let drained = self.rate.units.saturating_mul(self.last.ms_since(at));
        let size = units.saturating_mul(self.rate.ms).min(self.capacity().saturating_sub(drained));
        self.level = self.level.saturating_sub(size);
    }

    pub(super) fn move_to(&mut self, now: Timestamp) {
        self.last = now;
    }

    pub(super) fn rebase(&mut self, now: Timestamp) {
        self.at = self.at.minus_ms(self.last.ms_since(now));
        self.last = now;
    }

    /// Returns the whole units of the level at `at`.
    pub(super) fn held_around(&self, at: Timestamp) -> u64 {
        self.units_in(self.level_at(at))
    }

    /// Returns the whole units of the level.
    pub(super) fn held(&self) -> u64 {
        self.units_in(self.level_at(self.last))
    }

    pub(super) fn is_idle_at(&self, now: Timestamp) -> bool {
        // The last charge is remembered for one window, in case the rule switches to a windowed algorithm.
        self.at.plus_ms(self.window.width_ms()) <= now && self.level_at(now) == 0
    }

    /// Returns the maximum units that may have been admitted and their latest possible times, oldest first: the level
    /// at the last charge, and before it the rate in steps of one sub-window. The meter cannot tell steady demand from
    /// one call after a long idle time.
    pub(super) fn admitted(&self) -> Vec<(Timestamp, u64)> {
        if self.at == Timestamp::default() {
            return Vec::new();
        }
        let parts = u64::from(self.window.sub_windows());
        let before = (0..parts).rev().map(|part| {
            let at = self.at.minus_ms(part * self.window.sub_window_ms());
            (at, self.units.div_ceil(parts))
        });
        let last = std::iter::once((self.at, self.level.div_ceil(self.rate.ms)));
        let inside = |at: Timestamp| at.plus_ms(self.window.width_ms()) > self.last;
        before.chain(last).filter(|(at, units)| *units > 0 && inside(*at)).collect()
    }

    /// Returns the time in ms in which a full bucket drains.
    fn drain_whole_ms(limit: &Limit) -> u64 {
        let meter = Self::new(limit);
        meter.drain_ms(meter.capacity())
    }

    fn capacity(&self) -> u64 {
        self.burst.saturating_mul(self.rate.ms)
    }
}
