//! Bugs that a test plants, to see that the invariants find them.
//!
//! Each one alters an input or an effect on its way between a state machine and the rest of the simulation; the state
//! machines themselves are untouched. Observations show the altered facts. A shell asks for a bug where it strikes; the
//! longer alterations are here.

use std::collections::HashMap;

use strum::VariantArray;
use tollgate_core::counter::{Charge, ChargeMode, CounterId, Partition};
use tollgate_core::messages::calls::{Batch, CounterEntry, Row};
use tollgate_core::messages::signals::Offset;
use tollgate_core::window::SubWindow;

/// A bug.
#[derive(Clone, Copy, Debug, PartialEq, Eq, VariantArray)]
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
    /// Units of a call that the agent has admitted by its part are entered before the late answer to it, which may have charged them.
    ResentBeforeAnswer,
    /// The units of late calls are not subtracted from the agent's part.
    PartCountedTwice,
    /// An agent drops the view of a counter after each call, and has its part again.
    PartAfterDroppedView,
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
    /// The last charge of a batch comes in the next batch of its partition, as if it had missed its round.
    RowLate,
    /// Mutant: a lease ends by the instant at which its answer arrived, and not by that of its request.
    LeaseCountedFromReceipt,
    /// Mutant: a cached denial holds for calls that cost less than the denied one.
    DenialOfAnyCost,
    /// Mutant: an aggregator takes the lives of an agent for one writer.
    WriterWithoutEpoch,
    /// Mutant: an agent takes its own heartbeat for heard when it sends it.
    OwnHeartbeatWhenSent,
}

/// Charges that come in the next batch of their partition, with their counters.
pub(super) type LateRows = HashMap<Partition, (Row, CounterEntry)>;

/// The newest sub-window of each counter and its units, as one aggregator has seen them.
pub(super) type NewestUnits = HashMap<CounterId, (SubWindow, i64)>;

impl PlantedBug {
    /// The mistakes that were chosen before any check was read; `experiments/mutants.md` tells the source of each.
    pub const MUTANTS: [Self; 4] =
        [Self::LeaseCountedFromReceipt, Self::DenialOfAnyCost, Self::WriterWithoutEpoch, Self::OwnHeartbeatWhenSent];

    /// Returns the charges that the store executes for a request, one request after the other.
    pub(super) fn executed(self, charges: &[Charge]) -> Vec<Vec<Charge>> {
        let of_mode = |charge: &Charge| match charge.mode {
            ChargeMode::Backfill { .. } => matches!(self, Self::BackfillDropped | Self::BackfillTwice),
            ChargeMode::Refund { .. } => matches!(self, Self::RefundDropped | Self::RefundTwice),
            _ => false,
        };
        if !charges.iter().any(of_mode) {
            return vec![charges.to_vec()];
        }
        if matches!(self, Self::BackfillTwice | Self::RefundTwice) {
            let again = charges.iter().map(|charge| Charge { request: None, ..charge.clone() });
            return vec![charges.to_vec(), again.collect()];
        }
        let dropped =
            |charge: &Charge| Charge { cost: if of_mode(charge) { 0 } else { charge.cost }, ..charge.clone() };
        vec![charges.iter().map(dropped).collect()]
    }

    /// Alters a batch on its way to the bus.
    pub(super) fn written(self, late_rows: &mut LateRows, mut batch: Batch) -> Batch {
        if self != Self::RowLate {
            return batch;
        }
        let partition = batch.name.partition;
        let late = late_rows.remove(&partition);
        if let Some(row) = batch.rows.pop_if(|row| row.counter.is_some())
            && let Some(counter) = row.counter.and_then(|index| batch.counters.get(index as usize))
        {
            late_rows.insert(partition, (Row { home: None, ..row }, counter.clone()));
        }
        if let Some((row, counter)) = late {
            let index = u32::try_from(batch.counters.len()).expect("few counters");
            batch.counters.push(counter);
            batch.rows.push(Row { counter: Some(index), ..row });
        }
        batch
    }

    /// Returns true if the records of `calls` never reach the aggregator of this index.
    pub(super) fn starves(self, aggregator: usize) -> bool {
        self == Self::AnnouncedNeverRestored && aggregator == 1
    }

    /// Alters a batch on its way to an aggregator.
    pub(super) fn alter_batch(self, newest: &mut NewestUnits, partition: Partition, offset: Offset, batch: &mut Batch) {
        match self {
            Self::DuplicateCounted => batch.name.sequence = offset + 1 + u64::from(partition),
            Self::WriterWithoutEpoch => batch.name.epoch = 0,
            Self::SubWindowLost => {
                let rows = std::mem::take(&mut batch.rows);
                batch.rows = rows.into_iter().flat_map(|row| lose(newest, &batch.counters, row)).collect();
            }
            _ => {}
        }
    }
}

/// Returns a row. If the row begins a new sub-window, it follows a row that takes back the units of the counter's last
/// sub-window.
fn lose(newest: &mut NewestUnits, counters: &[CounterEntry], row: Row) -> Vec<Row> {
    let Some(counter) = row.counter.filter(|_| row.outcome.is_admitted()) else {
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
