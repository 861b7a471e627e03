//! A count-min sketch with conservative update: counts of any number of callers in a fixed number of cells.
//!
//! A caller has one cell in each of a few rows, and its count is the smallest of them. A charge raises only the cells that
//! are below the new count. Sources: G. Cormode, S. Muthukrishnan, "An improved data stream summary: the count-min sketch
//! and its applications", J. Algorithms 2005; C. Estan, G. Varghese, "New directions in traffic measurement and accounting",
//! SIGCOMM 2002 (conservative update).
//!
//! Error: a count is never too low. With N units of all callers in a sub-window and w cells in a row, it is too high by more
//! than e*N/w with a probability of at most e^-4. Conservative update makes the error far smaller where most callers call
//! rarely, as invented ones do: all cells rise together. So many callers that call once cost a newcomer, on average, 0.1
//! units at 0.85 w, 1 unit at 3.1 w, and 10 units at 23 w.
//!
//! Size: a cell has 32 bits. Of a quota beyond them, it counts multiples of a power of two: 4 units of 10 billion. A
//! charge is rounded up to them, so no caller gets more than the quota.
//!
//! Time: there is a set of rows for each sub-window of a coarse [`Ring`], which does the arithmetic of the window. The
//! cells of a caller lie in one stripe, so a charge takes one lock. Cells are chosen by a hash with a random key,
//! because the key of counters may be public, and callers could be invented that fall on the cells of others.

use std::hash::BuildHasher;

use foldhash::quality::RandomState;
use parking_lot::Mutex;
use tollgate_core::algorithm::Verdict;
use tollgate_core::clock::Timestamp;
use tollgate_core::counter::CounterId;
use tollgate_core::window::{Ring, SubWindow, Window};

use super::sketch_limit::{SketchForm, SketchLimit};

/// Number of rows, and so of cells of a caller in a sub-window.
const ROWS: usize = 4;
const STRIPES_MAX: usize = 64;
/// Minimum number of cells in a row of a stripe, unless there is only one stripe.
const ROW_LEN_MIN: usize = 1_024;
const CELL_BYTES: usize = size_of::<u32>();

pub(super) struct CountMin {
    window: Window,
    unit_bits: u32,
    hasher: RandomState,
    row_len: usize,
    stripes: Box<[Mutex<SketchStripe>]>,
}

/// Cells of some of the callers.
struct SketchStripe {
    newest: SubWindow,
    /// Cells by sub-window, modulo the number of kept ones, and by row.
    cells: Box<[u32]>,
}

impl CountMin {
    /// Creates an empty sketch of at most so many bytes. The memory is taken from the system as cells are used.
    pub(super) fn new(form: SketchForm, bytes_max: usize) -> Self {
        let SketchForm { window, unit_bits } = form;
        let row_len = bytes_max / CELL_BYTES / kept_sub_windows(window) / ROWS;
        let stripes = (row_len / ROW_LEN_MIN).clamp(1, STRIPES_MAX);
        let row_len = (row_len / stripes).max(1);
        let stripe =
            || Mutex::new(SketchStripe { newest: 0, cells: vec![0; kept_sub_windows(window) * ROWS * row_len].into() });
        let stripes = (0..stripes).map(|_| stripe()).collect();
        Self { window, unit_bits, hasher: RandomState::default(), row_len, stripes }
    }

    pub(super) fn bytes(&self) -> usize {
        self.stripes.len() * kept_sub_windows(self.window) * ROWS * self.row_len * CELL_BYTES
    }

    /// Charges a caller if its limit admits the cost, or in any case.
    pub(super) fn charge(
        &self,
        caller: CounterId,
        now: Timestamp,
        limit: &SketchLimit,
        cost: u64,
        is_forced: bool,
    ) -> Verdict {
        let hash = self.hasher.hash_one(caller.as_u128());
        let other_hash = self.hasher.hash_one(!caller.as_u128());
        let mut stripe = self.stripes[reduced(other_hash >> 32, self.stripes.len())].lock();
        let columns =
            [hash & u64::from(u32::MAX), hash >> 32, other_hash & u64::from(u32::MAX), hash.rotate_left(16) >> 32]
                .map(|bits| reduced(bits, self.row_len));
        let columns = std::array::from_fn(|row| row * self.row_len + columns[row]);
        stripe.roll_to(self.window.sub_window(now), self.window);
        let mut ring = stripe.ring(self.window, columns, self.unit_bits);
        let used = ring.used(now, limit.estimate);
        let admitted = is_forced || used.saturating_add(cost) <= limit.units;
        let retry_at = match limit.units.checked_sub(cost) {
            _ if admitted => now,
            Some(room) => ring.falls_to(room, now, limit.estimate),
            // It never fits; the limit may have changed once the window is over.
            None => now.plus_ms(self.window.width_ms()),
        };
        if admitted {
            let newest = stripe.newest;
            let count = ring.get(newest).saturating_add(cost).div_ceil(1 << self.unit_bits);
            stripe.raise(self.window, columns, u32::try_from(count).unwrap_or(u32::MAX));
            ring.add(newest, cost);
        }
        let remaining = limit.units.saturating_sub(ring.used(now, limit.estimate));
        let reset_at = ring.falls_to(0, now, limit.estimate).max(retry_at);
        Verdict { admitted, remaining, retry_at, reset_at, delay_ms: 0 }
    }
}

impl SketchStripe {
    /// Makes a sub-window the newest, and clears the cells of those that it replaces.
    fn roll_to(&mut self, sub_window: SubWindow, window: Window) {
        let kept = kept_sub_windows(window) as u64;
        let first = (self.newest + 1).max((sub_window + 1).saturating_sub(kept));
        for cleared in first..=sub_window {
            self.of_sub_window(cleared, window).fill(0);
        }
        self.newest = self.newest.max(sub_window);
    }

    fn ring(&mut self, window: Window, columns: [usize; ROWS], unit_bits: u32) -> Ring {
        let (mut ring, newest) = (Ring::new(window), self.newest);
        ring.roll_to(newest);
        for sub_window in (newest + 1).saturating_sub(kept_sub_windows(window) as u64)..=newest {
            let cells = self.of_sub_window(sub_window, window);
            let count = columns.map(|column| cells[column]).into_iter().min().unwrap_or_default();
            ring.add(sub_window, u64::from(count) << unit_bits);
        }
        ring
    }

    fn raise(&mut self, window: Window, columns: [usize; ROWS], count: u32) {
        let cells = self.of_sub_window(self.newest, window);
        for column in columns {
            cells[column] = cells[column].max(count);
        }
    }

    fn of_sub_window(&mut self, sub_window: SubWindow, window: Window) -> &mut [u32] {
        let kept = kept_sub_windows(window);
        let len = self.cells.len() / kept;
        let index = usize::try_from(sub_window % kept as u64).unwrap_or_default();
        &mut self.cells[index * len..][..len]
    }
}

/// Returns the number of sub-windows whose counts matter: those of the window, and the one that it covers in part.
fn kept_sub_windows(window: Window) -> usize {
    window.sub_windows() as usize + 1
}

/// Maps 32 random bits to an index below `len`.
fn reduced(bits: u64, len: usize) -> usize {
    usize::try_from(((bits & u64::from(u32::MAX)) * len as u64) >> 32).unwrap_or_default()
}
