//! The count of one partition: a state machine over its log.
//!
//! [`Counting::step`] takes records and ticks and puts signals into an [`Outbox`]; it does no input or output, takes no lock
//! and reads no clock. Its counts are a function of the log alone: replayed from the start they are the same.

mod dedup;
mod table;
mod push;

use std::sync::Arc;

use tollgate_core::clock::{CLOCK_ERROR_MAX_MS, Timestamp};
use tollgate_core::counter::Partition;
use tollgate_core::messages::calls::{Batch, Outcome, Row};
use tollgate_core::messages::signals::{LogId, Offset, SignalBatch};

use dedup::Dedup;
use push::Push;
use table::Table;

pub use table::Entry;

/// How much later than its window has passed a charge still finds its counter as it was, in ms.
const GRACE_MS: u64 = 60_000;
/// How much later than the watermark a charge may come and not be called late, in ms.
const LATE_AFTER_MS: u64 = 1_000;

/// What one step takes in.
#[derive(Clone, Copy, Debug)]
pub enum Input<'a> {
    /// A record of the partition.
    Batch {
        /// Its place in the log.
        offset: Offset,
        /// When it was appended.
        appended: Timestamp,
        /// What it says.
        batch: &'a Batch,
    },
    /// A record of the partition that cannot be read; it is counted and passed over.
    Poison {
        /// Its place in the log.
        offset: Offset,
        /// When it was appended.
        appended: Timestamp,
    },
    /// The end of the log was reached for the first time: from here on agents may rely on what is said.
    Restored,
    /// Time to say what changed.
    Tick,
}

/// What steps put out: records of `signals`.
pub type Outbox = Vec<SignalBatch>;

/// What a partition's count is about, and its caps.
#[derive(Clone, Debug)]
pub struct Scope {
    /// Who counts.
    pub aggregator: Arc<str>,
    /// Which partition of `calls`.
    pub partition: Partition,
    /// Of which log.
    pub log: LogId,
    /// From which part of its quota on a counter is signalled, in thousandths.
    pub threshold_permille: u32,
    /// How many counters are held at most; the rows of further ones are counted as lost.
    pub counters_max: usize,
}

/// What happened so far; only ever grows, but for `counters`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Batches counted.
    pub batches: u64,
    /// Rows counted.
    pub rows: u64,
    /// Batches that had been counted before.
    pub duplicates: u64,
    /// Records that could not be read.
    pub poisoned: u64,
    /// Rows that came after the watermark had passed their sub-window.
    pub late: u64,
    /// Rows whose sub-window had left the window; they count nowhere.
    pub too_old: u64,
    /// Rows of a time after that of their record, counted at the latest credible one.
    pub from_the_future: u64,
    /// Rows of counters past the cap.
    pub uncounted: u64,
    /// Signals put out.
    pub signals: u64,
    /// Counters held.
    pub counters: usize,
}

/// The count of one partition.
#[derive(Clone, Debug)]
pub struct Counting {
    scope: Scope,
    dedup: Dedup,
    table: Table,
    push: Push,
    read: Option<(Offset, Timestamp)>,
    watermark: Option<Timestamp>,
    restored: bool,
    tally: Tally,
}

impl Counting {
    /// A count of nothing yet.
    #[must_use]
    pub fn new(scope: Scope) -> Self {
        Self {
            dedup: Dedup::default(),
            table: Table::new(scope.counters_max),
            push: Push::default(),
            read: None,
            watermark: None,
            restored: false,
            tally: Tally::default(),
            scope,
        }
    }

    /// Takes something in.
    pub fn step(&mut self, now: Timestamp, input: Input<'_>, out: &mut Outbox) {
        match input {
            Input::Batch { offset, appended, batch } => {
                if self.advance(offset, appended) {
                    self.count(appended, batch);
                }
            }
            Input::Poison { offset, appended } => {
                if self.advance(offset, appended) {
                    self.tally.poisoned += 1;
                }
            }
            Input::Restored => self.restored = true,
            Input::Tick => self.tick(now, out),
        }
    }

    /// What happened so far.
    #[must_use]
    pub fn tally(&self) -> Tally {
        Tally { counters: self.table.len(), ..self.tally }
    }

    /// The counters that are held.
    pub fn counters(&self) -> impl Iterator<Item = &Entry> {
        self.table.iter()
    }

    /// The last record that was read, and when it was appended.
    #[must_use]
    pub fn read(&self) -> Option<(Offset, Timestamp)> {
        self.read
    }

    /// The time up to which all live agents have told all, as of the last tick.
    #[must_use]
    pub fn watermark(&self) -> Option<Timestamp> {
        self.watermark
    }

    /// Whether what it says may be relied on.
    #[must_use]
    pub fn is_restored(&self) -> bool {
        self.restored
    }

    /// Whether a record is the next one; what was read before is not read again.
    fn advance(&mut self, offset: Offset, appended: Timestamp) -> bool {
        let new = self.read.is_none_or(|(read, _)| offset > read);
        if new {
            self.read = Some((offset, appended));
        }
        new
    }

    fn count(&mut self, appended: Timestamp, batch: &Batch) {
        if !self.dedup.is_new(&batch.name, batch.complete_through, appended) {
            self.tally.duplicates += 1;
            return;
        }
        self.tally.batches += 1;
        let latest = appended.plus_ms(CLOCK_ERROR_MAX_MS);
        let places: Vec<Option<usize>> = batch.counters.iter().map(|counter| self.table.place(counter)).collect();
        for row in &batch.rows {
            self.tally.rows += 1;
            let Some(index) = row.counter.map(|index| index as usize) else {
                continue;
            };
            let Some(place) = places[index] else {
                self.tally.uncounted += 1;
                continue;
            };
            let written_in = batch.counters[index].window;
            let credible = row.sub_window.min(written_in.sub_window(latest));
            self.tally.from_the_future += u64::from(credible < row.sub_window);
            let ended = written_in.end_of(credible).plus_ms(LATE_AFTER_MS);
            self.tally.late += u64::from(self.watermark.is_some_and(|watermark| ended < watermark));
            let entry = self.table.entry_mut(place);
            // A batch of another generation may cut time otherwise; the end of its sub-window is never too early.
            let window = entry.admitted.window();
            let sub_window =
                if window == written_in { credible } else { window.sub_window(written_in.end_of(credible)) };
            let row = Row { sub_window, at: row.at.min(latest), ..row.clone() };
            if !entry.count(&row) {
                self.tally.too_old += 1;
            } else if row.outcome != Outcome::Spared {
                self.push.changed(place, entry);
            }
        }
    }

    fn tick(&mut self, now: Timestamp, out: &mut Outbox) {
        let Some((as_of, as_of_appended)) = self.read else {
            return;
        };
        self.watermark = self.dedup.watermark(as_of_appended);
        // By the log's time, so that a replay drops what the first reading dropped. A place that is given up goes to the
        // last entry, which is pushed from its new place.
        for (gone, moved) in self.table.sweep(as_of_appended.minus_ms(GRACE_MS)) {
            self.push.moved(gone, moved);
        }
        if !self.restored {
            return;
        }
        let Some((signals, threshold_permille)) = self.push.due(&mut self.table, now, self.scope.threshold_permille)
        else {
            return;
        };
        self.tally.signals += signals.len() as u64;
        out.push(SignalBatch {
            aggregator: self.scope.aggregator.clone(),
            partition: self.scope.partition,
            log: self.scope.log,
            as_of,
            as_of_appended,
            threshold_permille,
            signals,
        });
    }
}
