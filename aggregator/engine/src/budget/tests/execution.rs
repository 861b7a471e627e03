//! Execution of the model's steps: entries, readings, and the effects of regions, which may be suspended.

use std::sync::Arc;

use tollgate_core::counter::CounterId;
use tollgate_core::messages::ledger::{BudgetRequest, EntryId, LedgerEntry, LedgerRecord};
use tollgate_core::regions::stored_limit::{Fence, LimitWrite};

use super::bounds::{BudgetModel, COORDINATOR, EXPIRES_AT, ModelMistake, Pause, Step, with_facts};
use super::place::{Ages, Place, earlier};
use super::state::{Effect, RULE, RegionState, State, counter_of, give_back_id, place_of};

impl BudgetModel {
    /// Appends a record, if the bounds allow it.
    fn append(&self, state: &mut State, mut record: LedgerRecord) -> Option<()> {
        if state.log.records.len() > self.entries_max {
            return None;
        }
        if let LedgerEntry::Expiry { counter, grant, last } = &mut record.entry
            && self.has(ModelMistake::RenewalOverlooked)
        {
            let budget = state.log.truth.budget(RULE, *counter)?;
            *last = budget.grants().iter().find(|held| held.id == *grant)?.last;
        }
        let log = state.log.with(record);
        if log.void > self.void_max {
            return None;
        }
        state.log = Arc::new(log);
        state.ages.push(0);
        (0..self.regions).for_each(|region| self.read_foreign(state, region));
        Some(())
    }

    pub(super) fn read(&self, state: &mut State, region: usize, place: usize) {
        let mut record = state.log.records[place].clone();
        if let LedgerEntry::Terms(terms) = &mut record.entry
            && self.has(ModelMistake::OtherTerms)
            && region == 1
        {
            terms.quota += 1;
        }
        state.regions[region].read(&record);
        if self.has(ModelMistake::GrantTwice) && region == 1 {
            record.id.writer += 1;
            state.regions[region].read(&record);
        }
    }

    /// Reads the records up to the next one that concerns a region: they change no more of what it does than its `as_of`.
    fn read_foreign(&self, state: &mut State, region: usize) {
        while let Some(record) = state.log.records.get(state.regions[region].read)
            && !state.regions[region].is_concerned(record)
        {
            let place = state.regions[region].read;
            state.regions[region].read += 1;
            self.read(state, region, place);
        }
    }

    fn execute(&self, state: &mut State, region: usize, effect: Effect, life: u64, pause: Pause) -> Option<()> {
        let (place, write) = match effect {
            Effect::Append(record) => return self.append(state, record),
            Effect::Write(place, write) => (place, write),
        };
        let own = &mut state.regions[region];
        let known = &mut own.places[place];
        if self.has(ModelMistake::LimitDies) {
            known.forget_ended();
        }
        known.store = if self.has(ModelMistake::FenceIgnored) { write.limit } else { known.store.after(&write) };
        if life != own.life {
            return (pause == Pause::Never).then_some(());
        }
        let used = if self.has(ModelMistake::GiveBackUnseen) { 0 } else { known.admitted };
        let ledger = own.ledger.clone();
        let name = own.name.clone();
        let fence = with_facts(&ledger, &name, place, |facts| known.answered(facts, used, |id| ledger.contains(id)))?;
        let Some(Fence { id, grant, keeps }) = fence else { return (pause == Pause::Never).then_some(()) };
        let record = LedgerRecord { id, entry: LedgerEntry::GiveBack { counter: counter_of(place), grant, keeps } };
        if pause == Pause::Never {
            return self.append(state, record);
        }
        own.suspended = Some((Effect::Append(record), life));
        state.suspensions += 1;
        Some(())
    }

    /// Executes an effect now, or suspends the process before it.
    fn begin(&self, state: &mut State, region: usize, effect: Effect, pause: Pause) -> Option<()> {
        let life = state.regions[region].life;
        if pause == Pause::BeforeFirst {
            state.regions[region].suspended = Some((effect, life));
            state.suspensions += 1;
            return Some(());
        }
        self.execute(state, region, effect, life, pause)
    }

    fn write(&self, state: &mut State, region: usize, place: usize, pause: Pause) -> Option<()> {
        let RegionState { ledger, name, places, .. } = &state.regions[region];
        let write: LimitWrite = with_facts(ledger, name, place, |facts| {
            places[place].write(facts, ledger.len(), |id| ledger.contains(id))
        })?;
        self.begin(state, region, Effect::Write(place, write), pause)
    }

    /// Takes a step. Returns none if the bounds do not allow it.
    pub(super) fn step(&self, state: &mut State, step: Step) -> Option<()> {
        match step {
            Step::Ask(region, place, pause) => {
                let own = &mut state.regions[region];
                let id = own.next_id(region);
                own.places[place].askings.push((id, Ages::default()));
                state.begun[0] += 1;
                own.has_asked[place] = true;
                let (terms, name) = (state.log.records[0].id, own.name.clone());
                let request = BudgetRequest { terms, counter: counter_of(place), region: name, wants: self.quota };
                let record = LedgerRecord { id, entry: LedgerEntry::Request(request) };
                self.begin(state, region, Effect::Append(record), pause)
            }
            Step::Renew(region, place, grant, pause) => {
                let own = &mut state.regions[region];
                let id = own.next_id(region);
                own.places[place].askings.push((id, Ages::default()));
                state.begun[1] += 1;
                let entry = LedgerEntry::Renewal { counter: counter_of(place), grant, wants: self.quota };
                self.begin(state, region, Effect::Append(LedgerRecord { id, entry }), pause)
            }
            Step::Lower(region, place, keeps, pause) => {
                let own = &mut state.regions[region];
                let name = own.name.clone();
                let grant = own.ledger.budget(RULE, counter_of(place))?.grants_of(&name).last()?.granted;
                state.begun[2] += 1;
                let id = give_back_id(state.begun[2]);
                own.places[place].giving = Some((Fence { id, grant, keeps }, false));
                self.write(state, region, place, pause)
            }
            Step::Write(region, place, pause) => self.write(state, region, place, pause),
            Step::Resume(region) => {
                let (effect, life) = state.regions[region].suspended.take()?;
                self.execute(state, region, effect, life, Pause::Never)
            }
            Step::Admit(region, place) => {
                state.regions[region].places[place].admitted = self.live(&state.regions[region], place);
                Some(())
            }
            Step::Read(region, pause) => {
                let place = state.regions[region].read;
                state.regions[region].read += 1;
                self.read(state, region, place);
                self.read_foreign(state, region);
                let counter = counter_of_entry(&state.log.records[place].entry)?;
                self.write(state, region, place_of(counter), pause)
            }
            Step::ReadAgain(region, from) => {
                (from..state.regions[region].read).for_each(|place| self.read(state, region, place));
                Some(())
            }
            Step::ReadSwapped(region) => {
                let place = state.regions[region].read;
                state.regions[region].read += 2;
                for place in [place + 1, place] {
                    self.read(state, region, place);
                }
                self.read_foreign(state, region);
                Some(())
            }
            Step::Restart(region) => {
                let own = &mut state.regions[region];
                (own.life, own.sequence) = (own.life + 1, 0);
                own.places.iter_mut().for_each(Place::restart);
                state.restarts += 1;
                Some(())
            }
            Step::Grant(request, units) => {
                let counter = state.log.records.iter().find_map(|record| match &record.entry {
                    LedgerEntry::Request(asked) if record.id == request => Some(asked.counter),
                    _ => None,
                })?;
                self.coordinate(state, request, LedgerEntry::Grant { counter, request, units })
            }
            Step::Expire(grant, last) => {
                let counter = state.log.records.iter().find_map(|record| match &record.entry {
                    LedgerEntry::Grant { counter, .. } if record.id == grant => Some(*counter),
                    _ => None,
                })?;
                self.coordinate(state, last, LedgerEntry::Expiry { counter, grant, last })
            }
            Step::Tick { stopped } => {
                state.ticks += 1;
                for (record, age) in state.log.records.iter().zip(&mut state.ages) {
                    *age = if self.may_expire(&state.log, record) { (*age + 1).min(EXPIRES_AT) } else { 0 };
                }
                for (number, region) in state.regions.iter_mut().enumerate() {
                    region.places.iter_mut().for_each(|place| place.tick(stopped != Some(number)));
                    if let Some((Effect::Write(_, write), _)) = &mut region.suspended {
                        write.limit = earlier(write.limit);
                    }
                }
                Some(())
            }
        }
    }

    /// Appends an entry of a coordinator about a request or the last entry of a grant.
    fn coordinate(&self, state: &mut State, about: EntryId, entry: LedgerEntry) -> Option<()> {
        let is_known = |writer: &u64| state.log.records.iter().any(|record| record.id.writer == *writer);
        let first = COORDINATOR + 100_000 * about.writer + 1_000 * about.sequence;
        let writer = (first..u64::MAX).find(|writer| !is_known(writer))?;
        self.append(state, LedgerRecord { id: EntryId { writer, sequence: 1 }, entry })
    }
}

fn counter_of_entry(entry: &LedgerEntry) -> Option<CounterId> {
    match entry {
        LedgerEntry::Request(request) => Some(request.counter),
        LedgerEntry::Grant { counter, .. }
        | LedgerEntry::Renewal { counter, .. }
        | LedgerEntry::GiveBack { counter, .. }
        | LedgerEntry::Expiry { counter, .. } => Some(*counter),
        LedgerEntry::Terms(_) | LedgerEntry::FloorGiveBack { .. } => None,
    }
}
