//! The ledger of a world of regions, in the home cluster: its records in their order, and the state that they mean.

use tollgate_aggregator_engine::budget::counter_budget::CounterBudget;
use tollgate_aggregator_engine::budget::ledger::Ledger;
use tollgate_core::clock::Timestamp;
use tollgate_core::messages::ledger::{LedgerEntry, LedgerRecord};
use tollgate_wire::Record;

use super::region_mistake::RegionMistake;

/// The ledger as it was appended.
#[derive(Debug, Default)]
pub struct LedgerLog {
    state: Ledger,
    records: Vec<(Timestamp, LedgerRecord)>,
    void: u64,
}

impl LedgerLog {
    /// Returns the state after all records.
    #[must_use]
    pub fn state(&self) -> &Ledger {
        &self.state
    }

    /// Returns the records in their order, with the instants of true time at which they were appended.
    #[must_use]
    pub fn records(&self) -> &[(Timestamp, LedgerRecord)] {
        &self.records
    }

    /// Returns the number of records that changed nothing.
    #[must_use]
    pub fn void(&self) -> u64 {
        self.void
    }

    pub(super) fn append(&mut self, now: Timestamp, record: &LedgerRecord, mistake: Option<RegionMistake>) {
        let mut record = LedgerRecord::decode(&record.encode()).expect("an honest record");
        match (&mut record.entry, mistake) {
            (LedgerEntry::Expiry { counter, grant, last }, Some(RegionMistake::RenewalOverlooked)) => {
                let grants = self.state.counter(*counter).into_iter().flat_map(CounterBudget::grants);
                *last = grants.into_iter().find(|held| held.id == *grant).map_or(*last, |held| held.last);
            }
            (LedgerEntry::Terms(terms), Some(RegionMistake::GrantNotFree)) => terms.quota *= 2,
            _ => {}
        }
        self.void += u64::from(self.state.apply(&record).is_err());
        self.records.push((now, record));
    }
}
