//! The model: the steps of regions, coordinators and time, and the properties of every state.
//!
//! Coordinators have no state: one may append any grant of a request in the log, however old its view is, and the expiry of any
//! grant or renewal that has been in the log for a term and a window. This covers every number of coordinators, their
//! suspensions and their delays. The margin of an expiry is left out: the model's clocks do not drift.

use std::sync::Arc;

use stateright::{Model, Property};
use tollgate_core::counter::CounterId;
use tollgate_core::messages::ledger::{BudgetRequest, EntryId, LedgerEntry, LedgerRecord, Terms};

use super::super::ledger::Ledger;
use super::super::region_counter::LedgerFacts;
use super::place::{Ages, Place, TERM, TICK_MS, earlier};
use super::state::{Effect, Log, RULE, RegionState, State, counter_of, give_back_id, place_of};
use tollgate_core::regions::stored_limit::{Fence, LimitWrite};

/// The regions hold and admit no more than the quota.
pub(super) const QUOTA: &str = "grants-within-quota";
/// Readers of the same entries have equal states.
pub(super) const STATE: &str = "equal states";
/// Names of the regions.
const NAMES: [&str; 3] = ["a", "b", "c"];
/// Age of the last renewal at which a grant may expire, in ticks: the term and a window of one tick.
const EXPIRES_AT: u8 = TERM + 1;
/// Writer of the coordinators' entries.
const COORDINATOR: u64 = 1_000;

/// Mistake of a shell or an engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ModelMistake {
    GiveBackUnseen,
    FenceIgnored,
    GrantTwice,
    RenewalOverlooked,
    WaitFromWrongInstant,
    LimitDies,
    OtherTerms,
    MirrorOutOfOrder,
    /// A holder's own clock stands still while it is suspended.
    ClockStops,
}

/// Bounds of a world.
#[derive(Clone, Debug)]
pub(super) struct BudgetModel {
    pub(super) regions: usize,
    pub(super) counters: usize,
    pub(super) quota: u64,
    /// Entries after the terms.
    pub(super) entries_max: usize,
    /// Entries that are void, repetitions aside.
    pub(super) void_max: usize,
    /// Requests, renewals and give-backs of all regions.
    pub(super) begun_max: [u8; 3],
    /// Suspensions and restarts of all processes.
    pub(super) suspensions_max: u8,
    pub(super) restarts_max: u8,
    pub(super) ticks_max: u8,
    /// The store ends terms by its own clock, too. If not, a holder's own clock alone ends them.
    pub(super) store_ends_terms: bool,
    pub(super) mistake: Option<ModelMistake>,
}

/// Place of a suspension within a step of a region.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Pause {
    Never,
    BeforeFirst,
    /// Between the store's answer and the give-back.
    BeforeGiveBack,
}

/// Step of the model. The numbers are those of a region and a counter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    Ask(usize, usize, Pause),
    Renew(usize, usize, EntryId, Pause),
    Lower(usize, usize, u64, Pause),
    Write(usize, usize, Pause),
    Resume(usize),
    /// Calls use the limit up. Any fewer units are no more than the limit even once it is lowered, or hold a give-back up as well.
    Admit(usize, usize),
    /// A region reads an entry of its own, and writes its limit.
    Read(usize, Pause),
    /// The mirror repeats the last records.
    ReadAgain(usize, usize),
    /// The mirror exchanges two records.
    ReadSwapped(usize),
    Restart(usize),
    Grant(EntryId, u64),
    Expire(EntryId, EntryId),
    Tick {
        stopped: Option<usize>,
    },
}

impl ModelMistake {
    /// All mistakes.
    pub(super) const ALL: [Self; 9] = [
        Self::GiveBackUnseen,
        Self::FenceIgnored,
        Self::GrantTwice,
        Self::RenewalOverlooked,
        Self::WaitFromWrongInstant,
        Self::LimitDies,
        Self::OtherTerms,
        Self::MirrorOutOfOrder,
        Self::ClockStops,
    ];
}

impl BudgetModel {
    fn has(&self, mistake: ModelMistake) -> bool {
        self.mistake == Some(mistake)
    }

    fn terms(&self) -> LedgerRecord {
        let floors = NAMES[..self.regions].iter().map(|name| ((*name).into(), 0)).collect();
        let (term_ms, window_ms) = (u64::from(TERM) * TICK_MS, TICK_MS);
        let (rule, quota) = (RULE.into(), self.quota);
        let terms = Terms { rule, generation: 1, quota, window_ms, term_ms, key_fingerprint: 42, floors };
        LedgerRecord { id: EntryId { writer: COORDINATOR, sequence: 1 }, entry: LedgerEntry::Terms(terms) }
    }

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

    /// Reads the record at a place of the mirror.
    fn read(&self, state: &mut State, region: usize, place: usize) {
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

    /// Executes an effect of a region's process.
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
    fn step(&self, state: &mut State, step: Step) -> Option<()> {
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

    /// Adds the steps of a region.
    fn region_steps(&self, state: &State, region: usize, steps: &mut Vec<Step>) {
        let own = &state.regions[region];
        let may_suspend = own.suspended.is_none() && state.suspensions < self.suspensions_max;
        let pauses = |number: usize| {
            let all = [Pause::Never, Pause::BeforeFirst, Pause::BeforeGiveBack];
            all.into_iter().take(if may_suspend { number } else { 1 })
        };
        let begins = |kind: usize| state.begun[kind] < self.begun_max[kind];
        let has_asked = |region: &RegionState| region.has_asked.contains(&true);
        for place in 0..self.counters {
            let known = &own.places[place];
            let budget = own.ledger.budget(RULE, counter_of(place));
            let grants = budget.iter().flat_map(|budget| budget.grants_of(&own.name));
            // Regions and counters are alike: they are asked for in the order of their numbers.
            let is_turn = (region == 0 || has_asked(&state.regions[region - 1]))
                && (place == 0 || state.regions.iter().any(|region| region.has_asked[place - 1]));
            if is_turn && begins(0) {
                steps.extend(pauses(2).map(|pause| Step::Ask(region, place, pause)));
            }
            for grant in grants.clone().filter(|_| begins(1)) {
                steps.extend(pauses(2).map(|pause| Step::Renew(region, place, grant.id, pause)));
            }
            if let Some(newest) = grants.last().filter(|_| known.giving.is_none() && begins(2)) {
                for keeps in 0..newest.units {
                    steps.extend(pauses(3).map(|pause| Step::Lower(region, place, keeps, pause)));
                }
            }
            if own.life > 0 || known.giving.is_some_and(|(_, is_appended)| !is_appended) {
                steps.extend(pauses(3).map(|pause| Step::Write(region, place, pause)));
            }
            if known.admitted < self.live(own, place) {
                steps.push(Step::Admit(region, place));
            }
        }
        if own.suspended.is_some() {
            steps.push(Step::Resume(region));
        }
        // A region that has not asked does nothing, so that it may as well read later.
        if own.read < state.log.records.len() && has_asked(own) {
            steps.extend(pauses(3).map(|pause| Step::Read(region, pause)));
        }
        if self.has(ModelMistake::MirrorOutOfOrder) && own.read + 2 <= state.log.records.len() {
            steps.push(Step::ReadSwapped(region));
        }
        steps.extend((own.read.saturating_sub(2)..own.read).map(|from| Step::ReadAgain(region, from)));
        if state.restarts < self.restarts_max && has_asked(own) {
            steps.push(Step::Restart(region));
        }
    }

    fn coordinator_steps(&self, state: &State, steps: &mut Vec<Step>) {
        for (record, age) in state.log.records.iter().zip(&state.ages) {
            let (grant, is_renewal) = match &record.entry {
                LedgerEntry::Request(_) => {
                    steps.extend((1..=self.quota).map(|units| Step::Grant(record.id, units)));
                    continue;
                }
                LedgerEntry::Grant { .. } => (record.id, false),
                LedgerEntry::Renewal { grant, .. } => (*grant, true),
                _ => continue,
            };
            if !self.may_expire(&state.log, record) {
                continue;
            }
            let is_early = is_renewal && self.has(ModelMistake::WaitFromWrongInstant);
            if *age >= if is_early { EXPIRES_AT - TERM } else { EXPIRES_AT } {
                steps.push(Step::Expire(grant, record.id));
            }
        }
    }

    /// Returns true if an expiry may name a record: the last one of a grant. Others are void, and their ages make no difference.
    fn may_expire(&self, log: &Log, record: &LedgerRecord) -> bool {
        let is_last =
            log.truth.counters().any(|(_, _, budget)| budget.grants().iter().any(|held| held.last == record.id));
        let is_timed = matches!(record.entry, LedgerEntry::Grant { .. } | LedgerEntry::Renewal { .. });
        is_last || (is_timed && (self.void_max > 0 || self.has(ModelMistake::RenewalOverlooked)))
    }

    fn live(&self, region: &RegionState, place: usize) -> u64 {
        let known = &region.places[place];
        with_facts(&region.ledger, &region.name, place, |facts| known.live(self.store_ends_terms, facts)).unwrap_or(0)
    }

    fn is_within_quota(&self, state: &State) -> bool {
        (0..self.counters).all(|place| {
            let units = |region: &RegionState| self.live(region, place).max(region.places[place].admitted);
            state.regions.iter().map(units).sum::<u64>() <= self.quota
        })
    }
}

/// Returns true if a region admits units of a grant that stands behind such an entry.
fn makes_room(state: &State, is_such: impl Fn(&LedgerEntry) -> bool) -> bool {
    let Some(from) = state.log.records.iter().position(|record| is_such(&record.entry)) else { return false };
    let granted = state.log.records[from..].iter().filter(|record| matches!(record.entry, LedgerEntry::Grant { .. }));
    let places = || state.regions.iter().flat_map(|region| &region.places);
    granted
        .into_iter()
        .any(|grant| places().any(|place| place.admitted > 0 && place.held.iter().any(|(held, _)| *held == grant.id)))
}

/// Returns the counter of an entry.
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

/// Calls a function with what a replica says about a counter.
fn with_facts<T>(ledger: &Ledger, region: &str, place: usize, then: impl FnOnce(&LedgerFacts<'_>) -> T) -> Option<T> {
    let (_, terms) = ledger.terms(RULE)?;
    let budget = ledger.budget(RULE, counter_of(place))?;
    Some(then(&LedgerFacts { terms, budget: &budget, region }))
}

impl Model for BudgetModel {
    type State = State;
    type Action = Step;

    fn init_states(&self) -> Vec<State> {
        let regions = NAMES[..self.regions].iter().map(|name| RegionState::new(name, self.counters)).collect();
        let log = Arc::new(Log::new().with(self.terms()));
        let mut state = State { log, ages: vec![0], regions, ticks: 0, restarts: 0, suspensions: 0, begun: [0; 3] };
        for region in 0..self.regions {
            state.regions[region].read = 1;
            self.read(&mut state, region, 0);
        }
        vec![state]
    }

    fn actions(&self, state: &State, steps: &mut Vec<Step>) {
        for region in 0..self.regions {
            self.region_steps(state, region, steps);
        }
        self.coordinator_steps(state, steps);
        if state.ticks == self.ticks_max {
            return;
        }
        steps.push(Step::Tick { stopped: None });
        if self.has(ModelMistake::ClockStops) {
            steps.extend((0..self.regions).map(|region| Step::Tick { stopped: Some(region) }));
        }
    }

    fn next_state(&self, last: &State, step: Step) -> Option<State> {
        let mut state = last.clone();
        self.step(&mut state, step)?;
        Some(state)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always(QUOTA, |model: &Self, state| model.is_within_quota(state)),
            Property::always(STATE, |_, state: &State| {
                state.regions.iter().all(|region| state.log.digests.get(region.read) == Some(&region.digest))
            }),
            Property::sometimes("a give-back makes room for a grant", |_, state: &State| {
                makes_room(state, |entry| matches!(entry, LedgerEntry::GiveBack { .. }))
            }),
            Property::sometimes("an expiry makes room for a grant", |_, state: &State| {
                makes_room(state, |entry| matches!(entry, LedgerEntry::Expiry { .. }))
            }),
            Property::sometimes("the ledger is full", |model: &Self, state: &State| {
                state.log.records.len() > model.entries_max
            }),
        ]
    }
}
