//! State of the model: the ledger as appended, the regions' replicas, counters and suspended effects.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use tollgate_core::counter::CounterId;
use tollgate_core::messages::ledger::{EntryId, LedgerEntry, LedgerRecord, Region};

use super::super::counter_budget::BudgetGrant;
use super::super::ledger::Ledger;
use super::place::Place;
use tollgate_core::regions::stored_limit::LimitWrite;

pub(super) const RULE: &str = "rule";

/// The ledger as appended.
#[derive(Clone, Debug)]
pub(super) struct Log {
    pub(super) records: Vec<LedgerRecord>,
    pub(super) truth: Ledger,
    pub(super) void: usize,
    /// Digests of its states by their lengths.
    pub(super) digests: Vec<u64>,
    /// Digests of the records, by their places.
    hashes: Vec<u64>,
}

#[derive(Clone, Debug)]
pub(super) struct State {
    pub(super) log: Arc<Log>,
    /// Ages of the grants and renewals in the log, by their places.
    pub(super) ages: Vec<u8>,
    pub(super) regions: Vec<RegionState>,
    pub(super) ticks: u8,
    pub(super) restarts: u8,
    pub(super) suspensions: u8,
    /// Numbers of requests, renewals and give-backs.
    pub(super) begun: [u8; 3],
}

#[derive(Clone, Debug)]
pub(super) struct RegionState {
    pub(super) name: Region,
    pub(super) ledger: Arc<Ledger>,
    pub(super) digest: u64,
    /// Number of records that it has read.
    pub(super) read: usize,
    pub(super) life: u64,
    pub(super) sequence: u64,
    pub(super) places: Vec<Place>,
    /// The region has asked for units of a counter.
    pub(super) has_asked: Vec<bool>,
    /// Effect before which a process was suspended, and the life of the process.
    pub(super) suspended: Option<(Effect, u64)>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Effect {
    Append(LedgerRecord),
    Write(usize, LimitWrite),
}

impl Log {
    pub(super) fn new() -> Self {
        let truth = Ledger::default();
        let digests = vec![digest(&truth)];
        Self { records: Vec::new(), truth, void: 0, digests, hashes: Vec::new() }
    }

    pub(super) fn with(&self, record: LedgerRecord) -> Self {
        let mut log = self.clone();
        log.void += usize::from(log.truth.apply(&record).is_err());
        log.digests.push(digest(&log.truth));
        log.hashes.push(digest(&record));
        log.records.push(record);
        log
    }
}

impl RegionState {
    pub(super) fn new(name: &str, counters: usize) -> Self {
        let ledger = Ledger::default();
        let digest = digest(&ledger);
        let places = vec![Place::default(); counters];
        let (name, ledger) = (name.into(), Arc::new(ledger));
        let has_asked = vec![false; counters];
        Self { name, ledger, digest, read: 0, life: 0, sequence: 0, places, has_asked, suspended: None }
    }

    /// Returns true if a record is about a grant of the region.
    pub(super) fn is_concerned(&self, record: &LedgerRecord) -> bool {
        let is_own = |counter, of: &dyn Fn(&BudgetGrant) -> bool| {
            let budget = self.ledger.budget(RULE, counter);
            budget.is_some_and(|budget| budget.grants_of(&self.name).any(of))
        };
        match &record.entry {
            LedgerEntry::Grant { counter, request, .. } => {
                let budget = self.ledger.budget(RULE, *counter);
                budget.is_some_and(|budget| budget.pending().any(|(name, id)| *name == self.name && id == *request))
            }
            LedgerEntry::Renewal { counter, grant, .. }
            | LedgerEntry::GiveBack { counter, grant, .. }
            | LedgerEntry::Expiry { counter, grant, .. } => is_own(*counter, &|held| held.id == *grant),
            LedgerEntry::Terms(_) | LedgerEntry::Request(_) | LedgerEntry::FloorGiveBack { .. } => false,
        }
    }

    pub(super) fn read(&mut self, record: &LedgerRecord) {
        let mut ledger = Ledger::clone(&self.ledger);
        let is_valid = ledger.apply(record).is_ok();
        self.digest = digest(&ledger);
        self.ledger = Arc::new(ledger);
        let (counter, asked, grant) = match &record.entry {
            LedgerEntry::Grant { counter, request, .. } => (*counter, *request, record.id),
            LedgerEntry::Renewal { counter, grant, .. } => (*counter, record.id, *grant),
            _ => return self.forget(),
        };
        if is_valid {
            self.places[place_of(counter)].read(asked, grant);
        }
        self.forget();
    }

    /// Forgets grants that have ended and give-backs that are read.
    fn forget(&mut self) {
        for (place, counter) in self.places.iter_mut().zip(0..) {
            let budget = self.ledger.budget(RULE, counter_of(counter));
            let is_held = |id| budget.as_ref().is_some_and(|budget| budget.grants().iter().any(|grant| grant.id == id));
            place.held.retain(|(grant, _)| is_held(*grant));
            place.giving.take_if(|(fence, _)| self.ledger.contains(fence.id));
        }
    }

    pub(super) fn next_id(&mut self, region: usize) -> EntryId {
        self.sequence += 1;
        EntryId { writer: 1 + region as u64 + 10 * self.life, sequence: self.sequence }
    }
}

pub(super) fn counter_of(place: usize) -> CounterId {
    CounterId::from_u128(place as u128 + 1)
}

pub(super) fn place_of(counter: CounterId) -> usize {
    (0..usize::MAX).find(|place| counter_of(*place) == counter).unwrap_or(0)
}

pub(super) fn digest(value: &impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    hasher.finish()
}

/// A state is what happens next: what the ledger and its replicas say, and the records that are not read. Two orders of entries that
/// lead to the same state are one.
impl Hash for State {
    fn hash<H: Hasher>(&self, state: &mut H) {
        let unread = self.regions.iter().map(|region| region.read).min().unwrap_or(0);
        self.log.hashes[unread..].hash(state);
        (self.log.records.len(), self.log.void, self.ticks, self.restarts, self.suspensions, self.begun).hash(state);
        self.hash_ledger(&self.log.truth, state);
        let mut ages: Vec<(EntryId, u8)> =
            self.log.records.iter().zip(&self.ages).map(|(record, age)| (record.id, *age)).collect();
        ages.sort_unstable();
        ages.hash(state);
        for (number, region) in self.regions.iter().enumerate() {
            let RegionState { read, life, sequence, places, has_asked, suspended, .. } = region;
            (number, read, life, sequence, places, has_asked, suspended).hash(state);
            self.hash_ledger(&region.ledger, state);
            (self.log.digests[*read] == region.digest).hash(state);
        }
    }
}

impl State {
    fn hash_ledger(&self, ledger: &Ledger, state: &mut impl Hasher) {
        ledger.len().hash(state);
        ledger.counters().for_each(|(counter, _, budget)| (counter, budget).hash(state));
        (0..=self.begun[2]).for_each(|number| ledger.contains(give_back_id(number)).hash(state));
    }
}

pub(super) fn give_back_id(number: u8) -> EntryId {
    EntryId { writer: 100 + u64::from(number), sequence: 1 }
}

impl PartialEq for State {
    fn eq(&self, other: &Self) -> bool {
        digest(self) == digest(other)
    }
}
