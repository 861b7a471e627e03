//! Numbers of events while a partition is counted; the shell shows them as metrics.

use crate::analytics::AnalyticsTally;

/// Events since the partition was assigned. All numbers except `counters` only grow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CountingTally {
    /// Batches counted.
    pub batches: u64,
    /// Rows counted.
    pub rows: u64,
    /// Batches that were counted before.
    pub duplicates: u64,
    /// Records that were passed over: undecodable ones, and those that report what cannot be.
    pub dead_letters: u64,
    /// Rows that came after the watermark had passed their sub-window.
    pub late: u64,
    /// Rows whose sub-window had left the window; they are not counted.
    pub too_old: u64,
    /// Rows of a time after that of their record; they are counted at the latest credible time.
    pub from_the_future: u64,
    /// Rows of counters past the cap; they are not counted.
    pub uncounted: u64,
    /// Signals that reached the log.
    pub signals: u64,
    /// Events of the analytics.
    pub rollups: AnalyticsTally,
    /// Counters in the table.
    pub counters: usize,
}
