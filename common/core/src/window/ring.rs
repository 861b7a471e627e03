//! A ring of sub-window counts: the state of a sliding window.
//!
//! Why n+1 slots: at any instant the window reaches back into the sub-window before its n whole ones. That oldest one is
//! either counted whole ([`Estimate::Conservative`], never over) or weighed by the share of it that is still inside
//! ([`Estimate::Interpolated`], the "previous x 17/60" of the approximated sliding window: Muscat, "Distributed
//! Rate-Limiting Algorithms", 2022). The ring reads no clock and holds no quota.

use super::{SubWindow, Window};
use crate::clock::Timestamp;

/// How the part of the oldest sub-window that the window still covers is counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Estimate {
    /// In proportion to its overlap with the window: right on average, wrong by at most its content.
    #[default]
    Interpolated,
    /// Whole: never below the truth; admits n/(n+1) of the quota under steady demand.
    Conservative,
    /// Not at all: with a single sub-window this is the fixed window.
    Ignored,
}

/// What became of units that were added to a [`Ring`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Added {
    /// They count.
    Counted,
    /// Their sub-window had left the ring.
    TooOld,
}

/// Counts of the newest sub-window and of the n before it.
#[derive(Clone, Debug)]
pub struct Ring {
    window: Window,
    newest: SubWindow,
    /// Where in `slots` the newest lies; older ones lie before it, round the end.
    newest_slot: usize,
    slots: Box<[u64]>,
}

impl Ring {
    /// An empty ring.
    #[must_use]
    pub fn new(window: Window) -> Self {
        Self { window, newest: 0, newest_slot: 0, slots: vec![0; window.parts() as usize + 1].into() }
    }

    /// The window whose counts these are.
    #[must_use]
    pub fn window(&self) -> Window {
        self.window
    }

    /// The newest sub-window that was ever added to or rolled to.
    #[must_use]
    pub fn newest(&self) -> SubWindow {
        self.newest
    }

    /// Adds units to a sub-window. A newer one than the newest pushes the oldest out.
    pub fn add(&mut self, sub_window: SubWindow, units: u64) -> Added {
        self.roll_to(sub_window);
        let Some(slot) = self.slot_of(sub_window) else {
            return Added::TooOld;
        };
        self.slots[slot] = self.slots[slot].saturating_add(units);
        Added::Counted
    }

    /// Makes a sub-window the newest, unless a newer one is: what is too old for it is dropped.
    pub fn roll_to(&mut self, sub_window: SubWindow) {
        let steps = sub_window.saturating_sub(self.newest);
        if steps >= self.len() {
            self.slots.fill(0);
        } else {
            for _ in 0..steps {
                self.newest_slot = if self.newest_slot + 1 == self.slots.len() { 0 } else { self.newest_slot + 1 };
                self.slots[self.newest_slot] = 0;
            }
        }
        self.newest = self.newest.max(sub_window);
    }

    /// Takes back what [`Ring::add`] added, as far as it is still there.
    pub fn subtract(&mut self, sub_window: SubWindow, units: u64) {
        if let Some(slot) = self.slot_of(sub_window) {
            self.slots[slot] = self.slots[slot].saturating_sub(units);
        }
    }

    /// The count of one sub-window; 0 outside the ring.
    #[must_use]
    pub fn get(&self, sub_window: SubWindow) -> u64 {
        self.slot_of(sub_window).map_or(0, |slot| self.slots[slot])
    }

    /// The sub-windows that hold something, oldest first.
    pub fn counts(&self) -> impl Iterator<Item = (SubWindow, u64)> + '_ {
        let oldest = self.newest.saturating_sub(self.len() - 1);
        (oldest..=self.newest).map(|sub_window| (sub_window, self.get(sub_window))).filter(|(_, units)| *units > 0)
    }

    /// Units in the window that ends at `now`, rounded up. An instant before the newest sub-window reads as its start.
    #[must_use]
    pub fn used(&self, now: Timestamp, estimate: Estimate) -> u64 {
        let (current, offset_ms) = self.place(now);
        let (whole, oldest) = self.whole_and_oldest(current);
        let part_ms = self.window.part_ms();
        match estimate {
            Estimate::Conservative => whole.saturating_add(oldest),
            Estimate::Interpolated => whole.saturating_add(scale_up(oldest, part_ms - offset_ms, part_ms)),
            Estimate::Ignored => whole,
        }
    }

    /// The first instant, not before `now`, at which at most `units` are in the window if nothing is added.
    #[must_use]
    pub fn falls_to(&self, units: u64, now: Timestamp, estimate: Estimate) -> Timestamp {
        let (mut current, _) = self.place(now);
        let (mut whole, mut oldest) = self.whole_and_oldest(current);
        loop {
            let from = self.window.start_of(current).max(now);
            let fading = if estimate == Estimate::Ignored { 0 } else { oldest };
            if whole.saturating_add(fading) <= units {
                return from;
            }
            if estimate == Estimate::Interpolated && whole <= units {
                // oldest * (S - o) <= (units - whole) * S, solved for the smallest offset o.
                let part_ms = self.window.part_ms();
                let covered_ms = scale_down(part_ms, units - whole, oldest);
                if covered_ms > 0 {
                    return self.window.start_of(current).plus_ms(part_ms - covered_ms).max(from);
                }
            }
            current += 1;
            oldest = current.checked_sub(self.len() - 1).map_or(0, |sub_window| self.get(sub_window));
            whole = whole.saturating_sub(oldest);
        }
    }

    /// Whether nothing is left in the window that ends at `now`.
    #[must_use]
    pub fn is_empty_at(&self, now: Timestamp) -> bool {
        self.used(now, Estimate::Conservative) == 0
    }

    /// The same counts, moved so that the newest lies in the sub-window of `now`: for a clock that stepped back.
    pub fn rebase(&mut self, now: Timestamp) {
        let mut moved = Self::new(self.window);
        let current = self.window.sub_window(now);
        moved.roll_to(current);
        for (sub_window, units) in self.counts() {
            moved.add(current.saturating_sub(self.newest - sub_window), units);
        }
        *self = moved;
    }

    /// The same counts in the sub-windows of another window: each at the end of its own, which is never too early to leave.
    #[must_use]
    pub fn carried_to(&self, window: Window) -> Self {
        let mut carried = Self::new(window);
        for (sub_window, units) in self.counts() {
            carried.add(window.sub_window(self.window.end_of(sub_window)), units);
        }
        carried
    }

    fn len(&self) -> u64 {
        self.slots.len() as u64
    }

    /// Where the count of a sub-window lies, if the ring holds it.
    fn slot_of(&self, sub_window: SubWindow) -> Option<usize> {
        let back = usize::try_from(self.newest.checked_sub(sub_window)?).ok()?;
        if back >= self.slots.len() {
            return None;
        }
        Some(if back <= self.newest_slot {
            self.newest_slot - back
        } else {
            self.newest_slot + self.slots.len() - back
        })
    }

    /// The sub-window in which `now` reads, and how far into it.
    fn place(&self, now: Timestamp) -> (SubWindow, u64) {
        let current = self.window.sub_window(now);
        if current < self.newest { (self.newest, 0) } else { (current, now.ms_since(self.window.start_of(current))) }
    }

    /// Units of the n sub-windows up to `current`, and of the one before them.
    fn whole_and_oldest(&self, current: SubWindow) -> (u64, u64) {
        let held = if current == self.newest {
            self.slots.iter().fold(0, |sum: u64, units| sum.saturating_add(*units))
        } else {
            let first = current.saturating_sub(self.len() - 1);
            (first..=self.newest).fold(0, |sum: u64, sub_window| sum.saturating_add(self.get(sub_window)))
        };
        let oldest = current.checked_sub(self.len() - 1).map_or(0, |sub_window| self.get(sub_window));
        (held.saturating_sub(oldest), oldest)
    }
}

impl PartialEq for Ring {
    /// Whether both hold the same counts; where in memory is of no account.
    fn eq(&self, other: &Self) -> bool {
        self.window == other.window && self.newest == other.newest && self.counts().eq(other.counts())
    }
}

impl Eq for Ring {}

/// units * part / whole, rounded up.
fn scale_up(units: u64, part: u64, whole: u64) -> u64 {
    match units.checked_mul(part) {
        Some(product) => product.div_ceil(whole),
        None => narrow((u128::from(units) * u128::from(part)).div_ceil(u128::from(whole))),
    }
}

/// units * part / whole, rounded down.
fn scale_down(units: u64, part: u64, whole: u64) -> u64 {
    match units.checked_mul(part) {
        Some(product) => product / whole,
        None => narrow(u128::from(units) * u128::from(part) / u128::from(whole)),
    }
}

fn narrow(wide: u128) -> u64 {
    u64::try_from(wide).unwrap_or(u64::MAX)
}
