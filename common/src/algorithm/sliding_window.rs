//! The sliding window over sub-window counts (Muscat, "Distributed Rate-Limiting Algorithms", 2022; with n sub-windows
//! instead of its two to five).
//!
//! Error: `conservative` never admits more than the quota in any true window, and admits n/(n+1) of it under steady
//! demand; `interpolated` is exact under steady demand and off by at most the content of the oldest sub-window.
//!
//! With a burst it admits so many after idleness instead: the window holds at most the burst, and a [meter](super::meter)
//! of the quota's rate is spent beside it, so what went beyond the quota is missing afterwards. Any k windows hold at most
//! burst + (k - 1) x quota.

use super::meter::{LEVEL_MAX, Meter};
use super::{Limit, Verdict, token_bucket};
use crate::clock::Timestamp;
use crate::window::{Estimate, Ring, Window};

/// Admitted units per sub-window, and the meter of a burst.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SlidingWindow {
    ring: Ring,
    reserve: Option<Meter>,
    pub(super) last: Timestamp,
}

impl SlidingWindow {
    pub(super) fn new(limit: &Limit) -> Self {
        Self {
            ring: Ring::new(limit.window),
            reserve: limit.has_reserve().then(|| Meter::new(limit)),
            last: Timestamp::default(),
        }
    }

    pub(super) fn window(&self) -> Window {
        self.ring.window()
    }

    /// Sets the meter of a burst as a store tells of it.
    pub(super) fn set_reserve(&mut self, meter: Meter) {
        self.reserve = Some(meter);
    }

    /// Follows a changed burst or quota; the counts stay.
    pub(super) fn fit_reserve(&mut self, limit: &Limit) {
        self.reserve = match &self.reserve {
            _ if !limit.has_reserve() => None,
            Some(meter) if meter.fits(limit) => return,
            Some(meter) => Some(meter.refitted(limit, self.last)),
            None => Some(Meter::filled(limit, self.last, self.held())),
        };
    }

    /// All units in the ring.
    pub(super) fn held(&self) -> u64 {
        self.ring.counts().fold(0, |sum, (_, units)| sum.saturating_add(units))
    }

    /// By the counts and, with a burst, by its meter.
    pub(super) fn judge_all(&self, limit: &Limit, estimate: Estimate, now: Timestamp, cost: u64) -> Verdict {
        let Some(reserve) = &self.reserve else {
            return self.judge(limit, limit.units, estimate, now, cost);
        };
        let (by_counts, by_meter) =
            (self.judge(limit, limit.burst, estimate, now, cost), token_bucket::judge(reserve, limit, now, cost));
        Verdict {
            admitted: by_counts.admitted && by_meter.admitted,
            remaining: by_counts.remaining.min(by_meter.remaining),
            retry_at: by_counts.retry_at.max(by_meter.retry_at),
            reset_at: by_counts.reset_at.max(by_meter.reset_at),
            delay_ms: 0,
        }
    }

    /// By the counts alone, against so many units.
    pub(super) fn judge(&self, limit: &Limit, units: u64, estimate: Estimate, now: Timestamp, cost: u64) -> Verdict {
        let window = limit.window;
        let left = units.saturating_sub(self.ring.used(now, estimate));
        if let Some(remaining) = left.checked_sub(cost) {
            let reset_at = if cost > 0 {
                let kept = if estimate == Estimate::Ignored { 0 } else { 1 };
                window.start_of(window.sub_window(now) + u64::from(window.parts()) + kept)
            } else {
                self.ring.falls_to(0, now, estimate)
            };
            return Verdict { admitted: true, remaining, retry_at: now, reset_at, delay_ms: 0 };
        }
        let retry_at = match units.checked_sub(cost) {
            Some(room) => self.ring.falls_to(room, now, estimate),
            None => now.plus_ms(window.width_ms()),
        };
        let reset_at = self.ring.falls_to(0, now, estimate);
        Verdict { admitted: false, remaining: left, retry_at, reset_at, delay_ms: 0 }
    }

    pub(super) fn charge(&mut self, at: Timestamp, units: u64) {
        let sub_window = self.window().sub_window(at);
        // Up to there the numbers of a store's script are exact.
        let counted = units.min(LEVEL_MAX.saturating_sub(self.ring.get(sub_window)));
        self.ring.add(sub_window, counted);
        if let Some(reserve) = &mut self.reserve {
            reserve.charge(at, units);
        }
        self.last = self.last.max(at);
    }

    pub(super) fn give_back(&mut self, at: Timestamp, units: u64) {
        self.ring.subtract(self.window().sub_window(at), units);
        if let Some(reserve) = &mut self.reserve {
            reserve.give_back(units);
        }
    }

    /// Drops what has left by `now`, so that a clock which then steps back finds every unit as old as it was.
    pub(super) fn move_to(&mut self, now: Timestamp) {
        self.ring.roll_to(self.window().sub_window(now));
        self.last = now;
    }

    pub(super) fn rebase(&mut self, now: Timestamp) {
        self.ring.rebase(now);
        if let Some(reserve) = &mut self.reserve {
            reserve.rebase(self.last.ms_since(now));
        }
        self.last = now;
    }

    pub(super) fn is_idle_at(&self, now: Timestamp) -> bool {
        self.ring.is_empty_at(now) && self.reserve.as_ref().is_none_or(|reserve| reserve.is_idle_at(now))
    }

    pub(super) fn admitted(&self) -> Vec<(Timestamp, u64)> {
        let window = self.window();
        self.ring.counts().map(|(sub_window, units)| (window.end_of(sub_window).min(self.last), units)).collect()
    }
}
