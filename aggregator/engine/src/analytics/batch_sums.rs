//! Sums of the rows of one batch, by the indexes of its dictionaries.
//!
//! The rows of a batch lie in a few seconds and have few counters, so most work is done on small arrays, and the tables of a slice
//! are touched once for each counter of the batch.

use tollgate_core::messages::calls::{DenialCause, Home, Outcome, Row};
use tollgate_core::messages::rollups::Totals;

/// Sums of the rows of a batch that lie in one second. The memory is used for the next batch.
#[derive(Clone, Debug, Default)]
pub(super) struct BatchSums {
    /// All calls.
    pub(super) calls: Totals,
    pub(super) by_counter: IndexedSums,
    pub(super) by_descriptors: IndexedSums,
    /// By the index of a name in the texts, if no counter decided.
    pub(super) by_decider: IndexedSums,
}

/// Sums by index, and the indexes that have any.
#[derive(Clone, Debug, Default)]
pub(super) struct IndexedSums {
    sums: Vec<Totals>,
    used: Vec<u32>,
}

impl IndexedSums {
    fn at(&mut self, index: u32) -> &mut Totals {
        let place = index as usize;
        if place >= self.sums.len() {
            self.sums.resize(place + 1, Totals::default());
        }
        if self.sums[place].is_empty() {
            self.used.push(index);
        }
        &mut self.sums[place]
    }

    /// Removes and returns the sums.
    pub(super) fn drain(&mut self) -> impl Iterator<Item = (u32, Totals)> {
        let Self { sums, used } = self;
        used.sort_unstable();
        used.dedup();
        used.drain(..).map(|index| (index, std::mem::take(&mut sums[index as usize])))
    }
}

impl BatchSums {
    /// Adds a row.
    pub(super) fn add(&mut self, row: &Row) {
        if let Some(index) = row.counter {
            add_charge(self.by_counter.at(index), row);
        }
        let Some(home) = &row.home else { return };
        let of_call = call_totals(row, home);
        self.calls.add(&of_call);
        self.by_descriptors.at(home.descriptors).add(&of_call);
        // A list or a switch decides without a counter.
        let is_uncounted =
            row.counter.is_none() || matches!(home.denied, Some(DenialCause::List | DenialCause::Emergency));
        if let Some(decider) = home.decider.filter(|_| is_uncounted) {
            self.by_decider.at(decider).add(&of_call);
        }
    }

    /// Removes all sums and returns the number of calls on counters.
    pub(super) fn clear(&mut self) -> u64 {
        self.calls = Totals::default();
        self.by_descriptors.drain().for_each(drop);
        self.by_decider.drain().for_each(drop);
        self.by_counter.drain().map(|(_, totals)| totals.calls()).sum()
    }
}

fn add_charge(sums: &mut Totals, row: &Row) {
    match row.outcome {
        Outcome::Admitted | Outcome::Charged => {
            sums.admitted += 1;
            sums.by_source[row.source as usize] += 1;
            sums.units = sums.units.saturating_add(row.cost);
        }
        Outcome::Denied(cause) => {
            sums.denied[cause as usize] += 1;
            sums.by_source[row.source as usize] += 1;
        }
        Outcome::Corrected => sums.units = sums.units.saturating_add(row.cost),
        Outcome::Spared | Outcome::Reset => {}
    }
    sums.shadow_denied += u64::from(row.shadow_denied);
}

fn call_totals(row: &Row, home: &Home) -> Totals {
    let mut totals = Totals { shadow_denied: home.shadow_denied.into(), ..Totals::default() };
    totals.by_source[row.source as usize] = 1;
    match home.denied {
        // A call of a request is not charged if another call of the request is denied.
        None => (totals.admitted, totals.units) = (1, if row.outcome.is_admitted() { row.cost } else { 0 }),
        Some(cause) => totals.denied[cause as usize] = 1,
    }
    totals
}
