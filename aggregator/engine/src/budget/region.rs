//! The budgets of one region: its aggregator asks for units where the demand is, renews them, gives them back, and writes the
//! limits into the region's store.
//!
//! A process knows when it asked, and nothing about the askings of its predecessor. It uses a grant only after it has asked for its
//! renewal. Two processes of one region at a time are harmless: the store accepts limits of both, and each is within what the
//! ledger says that the region holds.

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::Arc;

use tollgate_core::clock::{CLOCK_ERROR_MAX_MS, Timestamp};
use tollgate_core::counter::CounterId;
use tollgate_core::messages::ledger::{BudgetRequest, EntryId, LedgerEntry, LedgerRecord, Terms};

use super::coordinator::DRIFT_PPM;
use super::give_back::GiveBack;
use super::held_grants::{Asking, HeldGrants};
use super::ledger::Ledger;
use super::region_counter::{LedgerFacts, Need, RegionCounter};
pub use super::region_events::{RegionEffect, RegionInput, RegionMember, RegionPartitions};
use super::region_floor::RegionFloor;
use tollgate_core::regions::stored_limit::{Fence, LimitAnswer, LimitWrite, ShownBudget, StoredLimit};

/// Budgets of one region, at one process.
#[derive(Clone, Debug)]
pub struct RegionBudgets {
    member: RegionMember,
    sequence: u64,
    give_backs: u64,
    ledger: Ledger,
    /// Last time that the store's clock has shown, and the own time at which the answer with it arrived.
    store_clock: Option<(Timestamp, Timestamp)>,
    askings: BTreeMap<EntryId, Asking>,
    counters: BTreeMap<CounterId, (Arc<str>, RegionCounter)>,
    floors: BTreeMap<Arc<str>, RegionFloor>,
    /// Partitions of the counters that this process takes care of; nothing if those are all.
    part: Option<RegionPartitions>,
    voids: u64,
}

impl RegionBudgets {
    /// Creates the budgets of a process that has read nothing.
    #[must_use]
    pub fn new(member: RegionMember) -> Self {
        Self {
            member,
            sequence: 0,
            give_backs: 0,
            ledger: Ledger::default(),
            store_clock: None,
            askings: BTreeMap::new(),
            counters: BTreeMap::new(),
            floors: BTreeMap::new(),
            part: None,
            voids: 0,
        }
    }

    /// Returns the ledger as read.
    #[must_use]
    pub fn ledger(&self) -> &Ledger {
        &self.ledger
    }

    /// Returns the number of entries that were void.
    #[must_use]
    pub fn voids(&self) -> u64 {
        self.voids
    }

    /// Takes an event. `now` is the time of a clock that counts suspended time.
    pub fn poll(&mut self, now: Timestamp, input: RegionInput<'_>, effects: &mut Vec<RegionEffect>) {
        match input {
            RegionInput::Record(record) => self.read(record),
            RegionInput::Offered { rule, counter, units } => {
                let new = || (rule.clone(), RegionCounter::new(now));
                self.counters.entry(counter).or_insert_with(new).1.demand.offer(now, units);
            }
            RegionInput::Wanted { rule, counter, units } => {
                let new = || (rule.clone(), RegionCounter::new(now));
                self.counters.entry(counter).or_insert_with(new).1.wanted = Some((units, now));
            }
            RegionInput::Assigned(part) => self.part = Some(part.clone()),
            RegionInput::StoreTime(store) => self.store_time(now, store),
            RegionInput::Written { counter, answer } => self.written(now, counter, &answer, effects),
            RegionInput::FloorWritten { rule, limit } => self.floor_written(now, rule, limit, effects),
            RegionInput::Tick => self.tick(now, effects),
        }
    }

    /// Takes the store's time. If its clock has stepped back, the ends of terms step back with it, and all limits are written anew.
    fn store_time(&mut self, now: Timestamp, store: Timestamp) {
        let before = self.store_clock.replace((store, now));
        let behind_ms = before.map_or(0, |clock| asking(now, clock).store.ms_since(store));
        // Answers are late, and clocks err.
        if behind_ms <= CLOCK_ERROR_MAX_MS {
            return;
        }
        self.askings.values_mut().for_each(|asking| *asking = asking.stepped_back(behind_ms));
        for (_, state) in self.counters.values_mut() {
            state.held.step_back(behind_ms);
            state.stored = None;
        }
    }

    fn read(&mut self, record: &LedgerRecord) {
        let is_valid = self.ledger.apply(record).is_ok();
        self.voids += u64::from(!is_valid);
        let (counter, asking) = match &record.entry {
            LedgerEntry::Request(request) => return self.read_request(record.id, request.counter, is_valid),
            LedgerEntry::Grant { counter, request, .. } => (*counter, self.askings.get(request)),
            LedgerEntry::Renewal { counter, .. } => (*counter, self.askings.get(&record.id)),
            _ => return,
        };
        let (true, Some(asking), Some((rule, state))) = (is_valid, asking, self.counters.get_mut(&counter)) else {
            return;
        };
        // Units that were granted to a holder renew its grant.
        let budget = self.ledger.budget(rule, counter);
        let grant =
            budget.and_then(|budget| budget.grants().iter().find(|held| held.last == record.id).map(|held| held.id));
        if let Some(grant) = grant {
            state.held.answered(grant, *asking);
        }
    }

    fn read_request(&mut self, id: EntryId, counter: CounterId, is_valid: bool) {
        let Some((rule, state)) = self.counters.get_mut(&counter).filter(|_| id.writer == self.member.writer) else {
            return;
        };
        let (Some((_, terms)), Some(budget)) = (self.ledger.terms(rule), self.ledger.budget(rule, counter)) else {
            return;
        };
        state.read_request(id, &LedgerFacts { terms, budget: &budget, region: &self.member.region }, is_valid);
    }

    fn written(&mut self, now: Timestamp, counter: CounterId, answer: &LimitAnswer, effects: &mut Vec<RegionEffect>) {
        let Some((rule, state)) = self.counters.get_mut(&counter) else { return };
        let (Some((_, terms)), Some(budget)) = (self.ledger.terms(rule), self.ledger.budget(rule, counter)) else {
            return;
        };
        let facts = LedgerFacts { terms, budget: &budget, region: &self.member.region };
        let is_read = |id| self.ledger.contains(id);
        if let Some(Fence { id, grant, keeps }) = state.written(now, &facts, answer, is_read) {
            let entry = LedgerEntry::GiveBack { counter, grant, keeps };
            effects.push(RegionEffect::Append(LedgerRecord { id, entry }));
        }
    }

    fn floor_written(&mut self, now: Timestamp, rule: &Arc<str>, limit: StoredLimit, effects: &mut Vec<RegionEffect>) {
        if self.floors.get(rule).is_some_and(|floor| floor.is_lost(limit)) {
            self.forget_askings();
        }
        let Some((_, terms)) = self.ledger.terms(rule) else { return };
        let floor = self.floors.entry(rule.clone()).or_default();
        if let Some(Fence { id, grant, .. }) = floor.written(now, terms, limit, |id| self.ledger.contains(id)) {
            let entry = LedgerEntry::FloorGiveBack { terms: grant, region: self.member.region.clone() };
            effects.push(RegionEffect::Append(LedgerRecord { id, entry }));
        }
    }

    /// Takes note that the store has lost its data, and perhaps with it a give-back that is not read yet. The region
    /// has its floors until it has read renewals that it asks for from now on, and so the ledger to its end.
    fn forget_askings(&mut self) {
        self.askings.clear();
        for (_, state) in self.counters.values_mut() {
            (state.held, state.stored) = (HeldGrants::default(), None);
        }
    }

    fn tick(&mut self, now: Timestamp, effects: &mut Vec<RegionEffect>) {
        let region = self.member.region.clone();
        let has_floors = self.part.as_ref().is_none_or(|part| part.own.contains(&0));
        for rule in self.ledger.rules().map(|terms| terms.rule.clone()).filter(|_| has_floors).collect::<Vec<_>>() {
            self.tick_floor(now, &rule, effects);
        }
        let part = self.part.as_ref();
        let is_own =
            |counter: &CounterId| part.is_none_or(|part| part.own.contains(&counter.partition(part.partitions)));
        self.counters.retain(|counter, _| is_own(counter));
        let held = self.ledger.counters().filter(|(counter, ..)| is_own(counter));
        let held = held.filter(|(_, _, budget)| budget.grants_of(&region).next().is_some());
        for (counter, terms, _) in held {
            self.counters.entry(counter).or_insert_with(|| (terms.rule.clone(), RegionCounter::new(now)));
        }
        let of_rule = |terms: &Terms| (terms.rule.clone(), self.ledger.floor_of_all(&terms.rule, &region));
        let enforced: BTreeMap<Arc<str>, u64> = self.ledger.rules().map(of_rule).collect();
        for (counter, (rule, mut state)) in std::mem::take(&mut self.counters) {
            let floor_of_all = enforced.get(&rule).copied().unwrap_or(0);
            if self.tick_counter(now, (counter, &rule, floor_of_all), &mut state, effects) {
                self.counters.insert(counter, (rule, state));
            }
        }
        let oldest_ms = self.ledger.rules().map(|terms| terms.term_ms).max().unwrap_or(0);
        self.askings.retain(|_, asking| now.ms_since(asking.own) < oldest_ms);
    }

    /// Looks at one counter of a rule with a floor for all its counters. Returns false if nothing is left to know about it.
    fn tick_counter(
        &mut self,
        now: Timestamp,
        (counter, rule, floor_of_all): (CounterId, &Arc<str>, u64),
        state: &mut RegionCounter,
        effects: &mut Vec<RegionEffect>,
    ) -> bool {
        let (Some((terms_id, terms)), Some(budget)) = (self.ledger.terms(rule), self.ledger.budget(rule, counter))
        else {
            return true;
        };
        let terms = terms.clone();
        let region = self.member.region.clone();
        let facts = LedgerFacts { terms: &terms, budget: &budget, region: &region };
        state.held.retain(budget.grants_of(&region));
        state.gave_back(|id| self.ledger.contains(id));
        let asking = self.store_clock.map(|clock| asking(now, clock));
        let is_counted = |part: &RegionPartitions| part.counted.contains(&counter.partition(part.partitions));
        let counts_all = self.part.as_ref().is_none_or(is_counted);
        for need in state.needs(now, &facts, floor_of_all, counts_all, |id| self.ledger.contains(id)) {
            let is_refused = terms.key_fingerprint != self.member.key_fingerprint;
            match need {
                Need::GiveBack { grant, keeps } => {
                    let fence = Fence { id: self.give_back_id(), grant, keeps };
                    state.giving = Some(GiveBack { fence, appended_at: None });
                }
                // Without the store's time the end of a term is unknown.
                Need::Request { .. } | Need::Renewals { .. } if is_refused || asking.is_none() => {}
                Need::Request { wants } => {
                    let request = BudgetRequest { terms: terms_id, counter, region: region.clone(), wants };
                    let id = self.ask(LedgerEntry::Request(request), asking, effects);
                    state.asked = Some((id, now, wants));
                }
                Need::Renewals { grants, wants } => {
                    for grant in grants {
                        self.ask(LedgerEntry::Renewal { counter, grant, wants }, asking, effects);
                    }
                }
            }
        }
        let limit = StoredLimit { ledger: self.ledger.number(), ..state.limit(now, &facts, self.ledger.len()) };
        let is_known = state.stored.is_some_and(|stored| StoredLimit { as_of: stored.as_of, ..limit } == stored);
        let lowers = state.stored.is_none_or(|stored| stored != StoredLimit::default());
        let is_due = !is_known && (limit.units > 0 || lowers && !state.awaits_renewal(now, &facts));
        if is_due || state.gives_back(now) {
            let fence = state.stored.and_then(|stored| stored.fence).map(|fence| fence.id);
            let seen = fence.filter(|id| self.ledger.contains(*id));
            let shown = ShownBudget { wants: state.wants, moves: 0 };
            effects.push(RegionEffect::Write { rule: rule.clone(), counter, write: LimitWrite { limit, seen, shown } });
        }
        !state.is_idle(&facts)
    }

    fn tick_floor(&mut self, now: Timestamp, rule: &Arc<str>, effects: &mut Vec<RegionEffect>) {
        let Some((terms_id, terms)) = self.ledger.terms(rule).map(|(id, terms)| (id, terms.clone())) else { return };
        let region = &self.member.region;
        let reserved = self.ledger.floor_of_all(rule, region)..=self.ledger.floor_of_any(rule, region);
        let mut floor = self.floors.remove(rule).unwrap_or_default();
        let id = self.give_back_id();
        let is_read = |id| self.ledger.contains(id);
        let as_of = (self.ledger.number(), self.ledger.len());
        let write = floor.write(now, (terms_id, &terms), (&self.member.region, reserved), id, as_of, is_read);
        effects.extend(write.map(|write| RegionEffect::WriteFloor { rule: rule.clone(), write }));
        self.floors.insert(rule.clone(), floor);
    }

    fn ask(&mut self, entry: LedgerEntry, asking: Option<Asking>, effects: &mut Vec<RegionEffect>) -> EntryId {
        self.sequence += 1;
        let id = EntryId { writer: self.member.writer, sequence: self.sequence };
        self.askings.extend(asking.map(|asking| (id, asking)));
        effects.push(RegionEffect::Append(LedgerRecord { id, entry }));
        id
    }

    /// Returns the identity of a give-back. It is the first of a writer of its own, because it is appended after entries that were
    /// written later, and perhaps by a successor.
    fn give_back_id(&mut self) -> EntryId {
        self.give_backs += 1;
        let writer = self.member.writer.rotate_left(32) ^ self.give_backs.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        EntryId { writer, sequence: 1 }
    }
}

/// Returns the instant of an asking: the store's clock has gone on at least so far since it was seen.
fn asking(now: Timestamp, (store, received): (Timestamp, Timestamp)) -> Asking {
    let passed_ms = now.ms_since(received);
    let drift_ms = passed_ms.saturating_mul(DRIFT_PPM).div_ceil(1_000_000);
    Asking { own: now, store: store.plus_ms(passed_ms - drift_ms) }
}
