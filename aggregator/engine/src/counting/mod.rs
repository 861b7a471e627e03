//! The count of one partition: a state machine over its log.
//!
//! The counts are a function of the log alone, so a replay from the start gives the same counts. `dedup` recognises
//! batches that were written twice, `table` holds the counters, and `signals` chooses the counters to signal and, with
//! `threshold`, the threshold in force. Reading the log is the task of [`crate::worker`].

mod tally;
mod dedup;
mod units_by_agent;
mod counted_counter;
mod table;
mod threshold;
mod signals;

use std::sync::Arc;

use tollgate_core::clock::{CLOCK_ERROR_MAX_MS, Timestamp};
use tollgate_core::counter::{CounterId, Partition};
use tollgate_core::messages::calls::{Batch, CounterEntry, Outcome, Row};
use tollgate_core::messages::rollups::{LimitUse, MINUTE_MS, Rollup, Subject};
use tollgate_core::messages::signals::{LogId, Offset};
use tollgate_core::window::Window;

use crate::analytics::{AnalyticsSettings, PartitionRollups};
use dedup::Dedup;
use signals::DueSignals;
use table::CounterTable;

pub use counted_counter::CountedCounter;
pub use signals::DueBatch;
pub use tally::CountingTally;
pub use threshold::WantedThreshold;

/// Time after the end of its window during which a counter is kept for late charges, in ms.
const GRACE_MS: u64 = 60_000;
/// Delay behind the watermark from which on a charge is tallied as late, in ms.
const LATE_AFTER_MS: u64 = 1_000;

/// The count of one partition.
#[derive(Clone, Debug)]
pub struct Counting {
    /// The identity of the log that is counted.
    pub log: LogId,
    /// The offset of the last record that was read, and its append time.
    pub read: Option<(Offset, Timestamp)>,
    /// The time up to which all live agents have published, as of the last call of [`Self::signals_due`].
    pub watermark: Option<Timestamp>,
    /// True once the count is complete: the log was read to the end that it had when reading began, and signals may be sent.
    pub restored: bool,
    dedup: Dedup,
    table: CounterTable,
    due: DueSignals,
    tally: CountingTally,
    rollups: Option<PartitionRollups>,
}

impl Counting {
    /// Returns an empty count of a log. It holds at most `counters_max` counters; the rows of further counters are only
    /// tallied.
    #[must_use]
    pub fn new(log: LogId, counters_max: usize, analytics: Option<AnalyticsSettings>) -> Self {
        Self {
            log,
            read: None,
            watermark: None,
            restored: false,
            dedup: Dedup::default(),
            table: CounterTable::new(counters_max),
            due: DueSignals::default(),
            tally: CountingTally::default(),
            rollups: analytics.map(PartitionRollups::new),
        }
    }

    /// Returns the number of counters.
    #[must_use]
    pub fn counters_len(&self) -> usize {
        self.table.counters.len()
    }

    /// Changes the number of counters that may be held; those that are held stay.
    pub fn set_counters_max(&mut self, counters_max: usize) {
        self.table.set_len_max(counters_max);
    }

    /// Counts the batch at an offset, unless that offset or that batch was counted before.
    pub fn count(&mut self, offset: Offset, appended: Timestamp, batch: &Batch) {
        if !self.advance(offset, appended) {
            return;
        }
        if !self.dedup.is_new(&batch.name, batch.complete_through, appended) {
            self.tally.duplicates += 1;
            return;
        }
        self.tally.batches += 1;
        if let Some(rollups) = &mut self.rollups {
            rollups.count(offset, appended, batch);
        }
        let latest = appended.plus_ms(CLOCK_ERROR_MAX_MS);
        let writer = self.dedup.writer(&batch.name);
        let mut slot = |counter| {
            let (slot, is_other) = self.table.slot(counter, appended)?;
            if is_other {
                // A smaller quota may have brought it to the threshold.
                self.due.changed(&mut self.table.counters[slot]);
            }
            Some(slot)
        };
        let slots: Vec<Option<usize>> = batch.counters.iter().map(&mut slot).collect();
        for row in &batch.rows {
            self.tally.rows += 1;
            let Some(index) = row.counter.map(|index| index as usize) else {
                continue;
            };
            match slots[index] {
                Some(slot) => self.count_row(slot, &writer, batch.counters[index].window, row, latest),
                None => self.tally.uncounted += 1,
            }
        }
    }

    /// Returns the reason for which no agent can have written a batch that the bus appended at this time, if there is one.
    #[must_use]
    pub fn absurdity(&self, partition: Partition, appended: Timestamp, batch: &Batch) -> Option<String> {
        let (name, latest) = (&batch.name, appended.plus_ms(CLOCK_ERROR_MAX_MS));
        let writer = &name.agent;
        if name.partition != partition {
            return Some(format!(
                "agent {writer} wrote a batch for partition {} to partition {partition}",
                name.partition
            ));
        }
        if self.dedup.is_absurd(name) {
            return Some(format!("the batches of agent {writer} jump to number {}", name.sequence));
        }
        let absurd = batch.counters.iter().find(|counter| self.table.is_absurd(counter, latest))?;
        let CounterEntry { rule, generation, .. } = absurd;
        Some(format!("agent {writer} reports generation {generation} of rule {rule}, which jumps"))
    }

    /// Passes over the dead letter at an offset; returns whether the offset was new.
    pub fn skip(&mut self, offset: Offset, appended: Timestamp) -> bool {
        let new = self.advance(offset, appended);
        self.tally.dead_letters += u64::from(new);
        new
    }

    /// Returns the signals that are due, with none for a heartbeat. Nothing is due before the count is restored.
    pub fn signals_due(&mut self, now: Timestamp, threshold: WantedThreshold) -> Option<DueBatch> {
        let (_, as_of_appended) = self.read?;
        self.watermark = self.dedup.watermark(as_of_appended);
        // Counters expire by the log's time, so that a replay drops the same ones.
        self.table.sweep(as_of_appended.minus_ms(GRACE_MS));
        if !self.restored {
            return None;
        }
        self.due.take(&mut self.table, now, threshold)
    }

    /// Takes the report on a batch that signalled these counters. If the batch is lost, a heartbeat and the counters are due
    /// again; counters that are below the threshold by now are not signalled.
    pub fn signals_reported(&mut self, counters: &[CounterId], is_lost: bool) {
        if !is_lost {
            self.tally.signals += counters.len() as u64;
            return;
        }
        for counter in counters {
            if let Some(counter) = self.table.counters.get_mut(counter) {
                self.due.changed(counter);
            }
        }
        self.due.lost();
    }

    /// Returns the rollups, unless analytics are off.
    pub(crate) fn rollups_mut(&mut self) -> Option<&mut PartitionRollups> {
        self.rollups.as_mut()
    }

    /// Takes the rollups for a page: the changed seconds, and the open minute with its callers, at most `len_max` of each kind. Callers
    /// that are near their limit are among them.
    pub(crate) fn take_live(&mut self, now: Timestamp, len_max: usize) -> Vec<Rollup> {
        let Some(rollups) = &mut self.rollups else { return Vec::new() };
        if !rollups.take_changed() && self.due.above_threshold.is_empty() {
            return Vec::new();
        }
        let mut taken = rollups.take_seconds(now);
        let Some((minute, names, mut callers)) = rollups.open_minute(now, len_max) else { return taken };
        taken.extend(names);
        callers.extend(self.table.fullest(&self.due.above_threshold, now, len_max));
        callers.sort_unstable();
        callers.dedup();
        let rollup = |id: CounterId| {
            let counter = self.table.counters.get(&id)?;
            let (rule, caller) = (counter.rule.clone(), counter.label.clone());
            let (totals, missing_max) = rollups.choose_caller(minute, id).unwrap_or_default();
            let limit = LimitUse {
                quota: counter.quota,
                window_ms: counter.admitted.window().width_ms(),
                used: Some(counter.used(now)),
                generation: counter.generation,
                missing_max,
                ..LimitUse::default()
            };
            Some(Rollup {
                start: minute,
                size_ms: MINUTE_MS,
                subject: Subject::Caller { rule, caller },
                totals,
                limit: Some(limit),
            })
        };
        taken.extend(callers.into_iter().filter_map(rollup));
        taken
    }

    /// Returns the events so far.
    #[must_use]
    pub fn tally(&self) -> CountingTally {
        let rollups = self.rollups.as_ref().map(PartitionRollups::tally).unwrap_or_default();
        CountingTally { counters: self.table.counters.len(), rollups, ..self.tally }
    }

    /// Returns a counter.
    #[must_use]
    pub fn counter(&self, id: CounterId) -> Option<&CountedCounter> {
        self.table.counters.get(&id)
    }

    /// Returns the counters.
    pub fn counters(&self) -> impl Iterator<Item = &CountedCounter> {
        self.table.counters.values()
    }

    /// Moves the reading position to a record; false if it was read before.
    fn advance(&mut self, offset: Offset, appended: Timestamp) -> bool {
        let new = self.read.is_none_or(|(read, _)| offset > read);
        if new {
            self.read = Some((offset, appended));
        }
        new
    }

    /// Counts one row of a batch that an agent wrote with the window `written_in`.
    fn count_row(&mut self, slot: usize, writer: &Arc<str>, written_in: Window, row: &Row, latest: Timestamp) {
        let credible = row.sub_window.min(written_in.sub_window(latest));
        self.tally.from_the_future += u64::from(credible < row.sub_window);
        let ended = written_in.end_of(credible).plus_ms(LATE_AFTER_MS);
        self.tally.late += u64::from(self.watermark.is_some_and(|watermark| ended < watermark));
        let counter = &mut self.table.counters[slot];
        // A batch of another generation may have other sub-windows; the end of its sub-window is never too early.
        let window = counter.admitted.window();
        let sub_window = if window == written_in { credible } else { window.sub_window(written_in.end_of(credible)) };
        if row.at <= latest {
            counter.charged(row, written_in);
        }
        let row = Row { sub_window, at: row.at.min(latest), ..row.clone() };
        if !counter.count(&row, writer) {
            self.tally.too_old += 1;
        } else if row.outcome != Outcome::Spared {
            self.due.changed(counter);
        }
    }
}
