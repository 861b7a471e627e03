//! Bugs that a test plants, to see that the invariants find them.
//!
//! Each one alters an input or an effect on its way between a state machine and the rest of the simulation; the state
//! machines themselves are untouched. Observations show the altered facts.

use std::collections::HashMap;

use tollgate_core::clock::Timestamp;
use tollgate_core::counter::{Charge, ChargeMode, ChargeResults, CounterId, Partition};
use tollgate_core::messages::calls::{Batch, CounterEntry, Outcome, Row};
use tollgate_core::messages::presence::Presence;
use tollgate_core::messages::signals::Offset;
use tollgate_core::window::SubWindow;

use super::event::AgentShell;

/// A bug.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PlantedBug {
    /// A batch that arrives twice is counted twice.
    DuplicateCounted,
    /// The units of a counter's last sub-window are lost as soon as it reaches a new one.
    SubWindowLost,
    /// An owner revokes a partition before the new owner has restored it.
    RevokedBeforeRestored,
    /// An aggregator announces partitions that it neither owns nor restores.
    AnnouncedNeverRestored,
    /// A count is taken for restored before the log is read to its end.
    RestoredTooEarly,
    /// A lost batch is reported as delivered.
    LostReportedDelivered,
    /// With each report on a batch of signals, the same is reported on the batch after it.
    NextReported,
    /// Units that were admitted without the store are never entered.
    BackfillDropped,
    /// Units that were admitted without the store are entered twice.
    BackfillTwice,
    /// Refunded units stay charged.
    RefundDropped,
    /// Units are refunded twice.
    RefundTwice,
    /// A charge that the store denied is reported as admitted and charged.
    DenialReportedCharged,
    /// The first row of a batch does not wake the writer.
    WriterNotWoken,
    /// A store that becomes unavailable does not wake the maintenance.
    MaintenanceNotWoken,
    /// A state machine names no time for its next tick.
    NextTickLost,
}

/// The newest sub-window of each counter and its units, as one aggregator has seen them.
pub(super) type NewestUnits = HashMap<CounterId, (SubWindow, i64)>;

impl PlantedBug {
    /// All of them.
    pub const ALL: [Self; 15] = [
        Self::DuplicateCounted,
        Self::SubWindowLost,
        Self::RevokedBeforeRestored,
        Self::AnnouncedNeverRestored,
        Self::RestoredTooEarly,
        Self::LostReportedDelivered,
        Self::NextReported,
        Self::BackfillDropped,
        Self::BackfillTwice,
        Self::RefundDropped,
        Self::RefundTwice,
        Self::DenialReportedCharged,
        Self::WriterNotWoken,
        Self::MaintenanceNotWoken,
        Self::NextTickLost,
    ];

    /// Returns the charges that the store executes for a request, one request after the other.
    pub(super) fn executed(self, charges: Vec<Charge>) -> Vec<Vec<Charge>> {
        let of_mode = |charge: &Charge| match charge.mode {
            ChargeMode::Backfill { .. } => matches!(self, Self::BackfillDropped | Self::BackfillTwice),
            ChargeMode::Refund { .. } => matches!(self, Self::RefundDropped | Self::RefundTwice),
            _ => false,
        };
        if !charges.iter().any(of_mode) {
            return vec![charges];
        }
        if matches!(self, Self::BackfillTwice | Self::RefundTwice) {
            return vec![charges.clone(), charges];
        }
        let dropped = |charge: Charge| Charge { cost: if of_mode(&charge) { 0 } else { charge.cost }, ..charge };
        vec![charges.into_iter().map(dropped).collect()]
    }

    /// Alters the results that the store reports.
    pub(super) fn alter_results(self, results: &mut ChargeResults) {
        if self == Self::DenialReportedCharged {
            results.iter_mut().for_each(|result| (result.charged, result.verdict.admitted) = (true, true));
        }
    }

    /// Returns true if a shell of an agent does not see that its waker was called.
    pub(super) fn loses_wake_up(self, shell: AgentShell) -> bool {
        match shell {
            AgentShell::Exchange => self == Self::WriterNotWoken,
            AgentShell::Maintenance => self == Self::MaintenanceNotWoken,
        }
    }

    /// Returns the time until which a shell of an agent sleeps.
    pub(super) fn wake_at(self, wake_at: Timestamp) -> Timestamp {
        if self == Self::NextTickLost { Timestamp::from_ms(u64::MAX) } else { wake_at }
    }

    /// Returns the offset that a report on a batch tells.
    pub(super) fn reported(self, offset: Option<Offset>, end: Offset) -> Option<Offset> {
        if self == Self::LostReportedDelivered { offset.or(Some(end)) } else { offset }
    }

    /// Alters a peer's presence on its way to an aggregator.
    pub(super) fn alter_peer(self, presence: &mut Presence, partitions: u32) {
        if self == Self::RevokedBeforeRestored {
            presence.partitions = (0..partitions).collect();
        }
    }

    /// Alters the presence of the aggregator of this index on its way to the bus.
    pub(super) fn alter_own(self, presence: &mut Presence, aggregator: usize, partitions: u32) {
        if self.starves(aggregator) && !presence.leaving {
            presence.partitions = (0..partitions).collect();
        }
    }

    /// Returns true if the records of `calls` never reach the aggregator of this index.
    pub(super) fn starves(self, aggregator: usize) -> bool {
        self == Self::AnnouncedNeverRestored && aggregator == 1
    }

    /// Returns the end of a log that an aggregator is told.
    pub(super) fn log_end(self, end: Offset) -> Offset {
        if self == Self::RestoredTooEarly { 0 } else { end }
    }

    /// Alters a batch on its way to an aggregator.
    pub(super) fn alter_batch(self, newest: &mut NewestUnits, partition: Partition, offset: Offset, batch: &mut Batch) {
        match self {
            Self::DuplicateCounted => batch.name.sequence = offset + 1 + u64::from(partition),
            Self::SubWindowLost => {
                let rows = std::mem::take(&mut batch.rows);
                batch.rows = rows.into_iter().flat_map(|row| lose(newest, &batch.counters, row)).collect();
            }
            _ => {}
        }
    }
}

/// Returns a row, behind one that takes back the units of the counter's last sub-window if the row begins a new one.
fn lose(newest: &mut NewestUnits, counters: &[CounterEntry], row: Row) -> Vec<Row> {
    let Some(counter) = row.counter.filter(|_| row.outcome == Outcome::Admitted) else {
        return vec![row];
    };
    let last = newest.entry(counters[counter as usize].id).or_insert((row.sub_window, 0));
    if row.sub_window <= last.0 {
        last.1 += if row.sub_window == last.0 { row.cost } else { 0 };
        return vec![row];
    }
    let (sub_window, units) = std::mem::replace(last, (row.sub_window, row.cost));
    vec![Row { sub_window, cost: -units, home: None, ..row.clone() }, row]
}
