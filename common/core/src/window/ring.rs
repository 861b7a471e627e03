//! Ring of sub-window counts: the state of a sliding window.
//!
//! The ring has n+1 counts, because at any instant the window extends into the sub-window before its n whole ones. That
//! oldest sub-window is either counted whole ([`Estimate::Conservative`], never below the true count) or weighted by
//! the share of it that is still inside ([`Estimate::Interpolated`], the "previous x 17/60" of the approximated sliding
//! window: Muscat, "Distributed Rate-Limiting Algorithms", 2022). The ring reads no clock and has no quota.

use std::num::{NonZeroU32, NonZeroU64};

use super::ring_counts::RingCounts;
use super::sub_windows::{SubWindow, Window};
use crate::clock::Timestamp;

/// Method of counting the oldest sub-window, which the window covers in part.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Estimate {
    /// In proportion to its overlap with the window, rounded down. Error of at most its content.
    #[default]
    Interpolated,
    /// Whole. Never below the true count; admits n/(n+1) of the quota under steady demand.
    Conservative,
    /// Ignored. With a single sub-window this is the fixed window.
    Ignored,
}

/// Counts of the newest sub-window and of the n before it.
#[derive(Clone, Debug)]
pub struct Ring {
    /// Parts of the window; the index fills the space behind their number.
    sub_windows: NonZeroU32,
    /// Index of the newest sub-window in `counts`. Older ones precede it, cyclically.
    newest_index: u32,
    sub_window_ms: NonZeroU64,
    newest: SubWindow,
    counts: RingCounts,
}

impl Ring {
    /// Creates an empty ring.
    #[must_use]
    pub fn new(window: Window) -> Self {
        let Window { sub_windows, sub_window_ms } = window;
        Self {
            sub_windows,
            newest_index: 0,
            sub_window_ms,
            newest: 0,
            counts: RingCounts::new(sub_windows.get() as usize + 1),
        }
    }

    /// Returns the window of the counts.
    #[must_use]
    pub fn window(&self) -> Window {
        Window { sub_windows: self.sub_windows, sub_window_ms: self.sub_window_ms }
    }

    /// Returns the newest sub-window that units were added to or that the ring was rolled to.
    #[must_use]
    pub fn newest(&self) -> SubWindow {
        self.newest
    }

    /// Adds units to a sub-window. A sub-window after the newest one evicts the oldest. Returns false, and counts
    /// nothing, if the sub-window had left the ring.
    #[inline]
    pub fn add(&mut self, sub_window: SubWindow, units: u64) -> bool {
        self.roll_to(sub_window);
        let index = self.index_of(sub_window);
        if let Some(index) = index {
            self.counts.set(index, self.counts.get(index).saturating_add(units));
        }
        index.is_some()
    }

    /// Adds units to the sub-window of an instant, as [`Self::add`] does. In the newest sub-window it divides nothing.
    #[inline]
    pub fn add_at(&mut self, at: Timestamp, units: u64) {
        let (window, newest) = (self.window(), self.newest);
        self.add(if window.is_in(newest, at) { newest } else { window.sub_window(at) }, units);
    }

    /// Makes a sub-window the newest, unless the newest one is later, and drops the counts that are too old for it.
    #[inline]
    pub fn roll_to(&mut self, sub_window: SubWindow) {
        let steps = sub_window.saturating_sub(self.newest);
        if steps >= self.len() {
            self.counts.clear();
        } else {
            for _ in 0..steps {
                self.newest_index = if self.newest_index == self.sub_windows.get() { 0 } else { self.newest_index + 1 };
                self.counts.set(self.newest_index as usize, 0);
            }
        }
        self.newest = self.newest.max(sub_window);
    }

    /// Subtracts units from a sub-window, at most to zero.
    pub fn subtract(&mut self, sub_window: SubWindow, units: u64) {
        if let Some(index) = self.index_of(sub_window) {
            self.counts.set(index, self.counts.get(index).saturating_sub(units));
        }
    }

    /// Returns the count of a sub-window; 0 outside the ring.
    #[must_use]
    #[inline]
    pub fn get(&self, sub_window: SubWindow) -> u64 {
        self.index_of(sub_window).map_or(0, |index| self.counts.get(index))
    }

    /// Returns the sub-windows with a count above zero, oldest first.
    pub fn counts(&self) -> impl Iterator<Item = (SubWindow, u64)> + '_ {
        let oldest = self.newest.saturating_sub(self.len() - 1);
        (oldest..=self.newest).map(|sub_window| (sub_window, self.get(sub_window))).filter(|(_, units)| *units > 0)
    }

    /// Returns the units in the window that ends at `now`. An instant before the newest sub-window is
    /// treated as its start.
    #[must_use]
    #[inline]
    pub fn used(&self, now: Timestamp, estimate: Estimate) -> u64 {
        let (current, offset_ms) = self.locate(now);
        let (whole, oldest) = self.whole_and_oldest(current);
        let sub_window_ms = self.window().sub_window_ms();
        match estimate {
            Estimate::Conservative => whole.saturating_add(oldest),
            Estimate::Interpolated => whole.saturating_add(share(oldest, sub_window_ms - offset_ms, sub_window_ms)),
            Estimate::Ignored => whole,
        }
    }

    /// Returns the earliest instant, not before `now`, at which the window holds at most `units` if nothing is added.
    #[must_use]
    pub fn falls_to(&self, units: u64, now: Timestamp, estimate: Estimate) -> Timestamp {
        let (mut current, _) = self.locate(now);
        let (mut whole, mut oldest) = self.whole_and_oldest(current);
        loop {
            let from = self.window().start_of(current).max(now);
            let fading = if estimate == Estimate::Ignored { 0 } else { oldest };
            if whole.saturating_add(fading) <= units {
                return from;
            }
            if estimate == Estimate::Interpolated && whole <= units {
                // oldest * (S - o) < (units - whole + 1) * S, solved for the smallest offset o.
                let sub_window_ms = self.window().sub_window_ms();
                let product = u128::from(sub_window_ms) * (u128::from(units - whole) + 1);
                let covered_ms = narrow((product - 1) / u128::from(oldest));
                if covered_ms > 0 {
                    return self.window().start_of(current).plus_ms(sub_window_ms - covered_ms).max(from);
                }
            }
            current += 1;
            oldest = current.checked_sub(self.len() - 1).map_or(0, |sub_window| self.get(sub_window));
            whole = whole.saturating_sub(oldest);
        }
    }

    /// Returns the earliest instant at which the window is empty if `units`, at least one, are added at `now`, and nothing
    /// after them.
    #[must_use]
    #[inline]
    pub fn empties_after(&self, units: u64, now: Timestamp, estimate: Estimate) -> Timestamp {
        let (window, (current, _)) = (self.window(), self.locate(now));
        let oldest_from = window.start_of(current + u64::from(self.sub_windows.get()));
        oldest_from.plus_ms(match estimate {
            Estimate::Ignored => 0,
            Estimate::Conservative => window.sub_window_ms(),
            // units * (S - o) < S, solved for the smallest offset o.
            Estimate::Interpolated => {
                let covered_ms = (window.sub_window_ms() - 1) / self.get(current).saturating_add(units).max(1);
                window.sub_window_ms() - covered_ms
            }
        })
    }

    /// Returns true if the window that ends at `now` is empty.
    #[must_use]
    pub fn is_empty_at(&self, now: Timestamp) -> bool {
        self.used(now, Estimate::Conservative) == 0
    }

    /// Shifts all counts after a clock stepped back to `now`, so that none lies after the sub-window of `now`. `now`
    /// may be later in its sub-window than the clock was in the newest one. So each count moves to one sub-window newer
    /// than that, and the two newest become one: no unit leaves the window early. Where only the newest sub-window
    /// counts, each keeps its distance.
    pub fn rebase(&mut self, now: Timestamp, estimate: Estimate) {
        let current = self.window().sub_window(now);
        if self.newest <= current {
            return;
        }
        let mut moved = Self::new(self.window());
        moved.roll_to(current);
        let newer = u64::from(estimate != Estimate::Ignored);
        for (sub_window, units) in self.counts() {
            let age = (self.newest - sub_window).saturating_sub(newer);
            moved.add(current.saturating_sub(age), units);
        }
        *self = moved;
    }

    /// Converts the counts to the sub-windows of another window. Each count is dated at the end of its sub-window, so
    /// that it never leaves too early.
    #[must_use]
    pub fn carried_to(&self, window: Window) -> Self {
        let mut carried = Self::new(window);
        for (sub_window, units) in self.counts() {
            carried.add(window.sub_window(self.window().end_of(sub_window)), units);
        }
        carried
    }

    #[inline]
    fn len(&self) -> u64 {
        u64::from(self.sub_windows.get()) + 1
    }

    /// Returns the index in `counts` of a sub-window, or `None` outside the ring.
    #[inline]
    fn index_of(&self, sub_window: SubWindow) -> Option<usize> {
        let len = self.sub_windows.get() as usize + 1;
        let back = usize::try_from(self.newest.checked_sub(sub_window)?).ok().filter(|back| *back < len)?;
        let newest = self.newest_index as usize;
        Some(newest.checked_sub(back).unwrap_or_else(|| newest + len - back))
    }

    /// Returns the effective sub-window of `now` and the offset in ms within it.
    #[inline]
    fn locate(&self, now: Timestamp) -> (SubWindow, u64) {
        let current = self.window().sub_window(now);
        if current < self.newest { (self.newest, 0) } else { (current, now.ms_since(self.window().start_of(current))) }
    }

    /// Returns the units of the n sub-windows up to `current`, and of the one before them.
    #[inline]
    fn whole_and_oldest(&self, current: SubWindow) -> (u64, u64) {
        let held = if current == self.newest {
            self.counts.sum()
        } else {
            let first = current.saturating_sub(self.len() - 1);
            (first..=self.newest).fold(0, |sum: u64, sub_window| sum.saturating_add(self.get(sub_window)))
        };
        let oldest = current.checked_sub(self.len() - 1).map_or(0, |sub_window| self.get(sub_window));
        (held.saturating_sub(oldest), oldest)
    }
}

impl PartialEq for Ring {
    /// Compares the counts, regardless of their position in memory.
    fn eq(&self, other: &Self) -> bool {
        self.window() == other.window() && self.newest == other.newest && self.counts().eq(other.counts())
    }
}

impl Eq for Ring {}

/// Computes units * part / whole, rounded down.
fn share(units: u64, part: u64, whole: u64) -> u64 {
    match units.checked_mul(part) {
        Some(product) => product / whole,
        None => narrow(u128::from(units) * u128::from(part) / u128::from(whole)),
    }
}

fn narrow(wide: u128) -> u64 {
    u64::try_from(wide).unwrap_or(u64::MAX)
}
