//! The sliding window over sub-window counts (Muscat, "Distributed Rate-Limiting Algorithms", 2022; with n sub-windows
//! instead of its two to five).
//!
//! Error: `conservative` never admits more than the quota in any true window, and admits n/(n+1) of it under steady
//! demand; `interpolated` is exact under steady demand and off by at most the content of the oldest sub-window.

use super::{Limit, Verdict};
use crate::clock::Timestamp;
use crate::window::{Estimate, Ring, Window};

/// Admitted units per sub-window.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SlidingWindow {
    ring: Ring,
    pub(super) last: Timestamp,
}

impl SlidingWindow {
    pub(super) fn new(window: Window) -> Self {
        Self { ring: Ring::new(window), last: Timestamp::default() }
    }

    pub(super) fn window(&self) -> Window {
        self.ring.window()
    }

    pub(super) fn judge(&self, limit: &Limit, estimate: Estimate, now: Timestamp, cost: u64) -> Verdict {
        let window = limit.window;
        let left = limit.units.saturating_sub(self.ring.used(now, estimate));
        if let Some(remaining) = left.checked_sub(cost) {
            let reset_at = if cost > 0 {
                window.start_of(window.sub_window(now) + u64::from(window.parts()) + 1)
            } else {
                self.ring.falls_to(0, now, estimate)
            };
            return Verdict { admitted: true, remaining, retry_at: now, reset_at };
        }
        let retry_at = match limit.units.checked_sub(cost) {
            Some(room) => self.ring.falls_to(room, now, estimate),
            None => now.plus_ms(window.width_ms()),
        };
        Verdict { admitted: false, remaining: left, retry_at, reset_at: self.ring.falls_to(0, now, estimate) }
    }

    pub(super) fn charge(&mut self, at: Timestamp, units: u64) {
        self.ring.add(self.window().sub_window(at), units);
        self.last = self.last.max(at);
    }

    /// Drops what has left by `now`, so that a clock which then steps back finds every unit as old as it was.
    pub(super) fn move_to(&mut self, now: Timestamp) {
        self.ring.roll_to(self.window().sub_window(now));
        self.last = now;
    }

    pub(super) fn rebase(&mut self, now: Timestamp) {
        self.ring.rebase(now);
        self.last = now;
    }

    pub(super) fn is_idle_at(&self, now: Timestamp) -> bool {
        self.ring.is_empty_at(now)
    }

    pub(super) fn admitted(&self) -> Vec<(Timestamp, u64)> {
        let window = self.window();
        self.ring.counts().map(|(sub_window, units)| (window.end_of(sub_window).min(self.last), units)).collect()
    }
}
