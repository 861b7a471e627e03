//! The world of simulated regions: events, and the check of the invariant after each of them.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use fastrand::Rng;
use tollgate_aggregator_engine::budget::coordinator::Coordinator;
use tollgate_aggregator_engine::budget::ledger::Ledger;
use tollgate_aggregator_engine::budget::region::{RegionBudgets, RegionEffect, RegionInput, RegionMember};
use tollgate_aggregator_engine::budget::stored_limit::{LimitAnswer, LimitWrite, StoredLimit};
use tollgate_core::clock::Timestamp;
use tollgate_core::counter::CounterId;
use tollgate_core::messages::ledger::{EntryId, LedgerEntry, LedgerRecord, Terms};

use super::mistake::RegionMistake;
use super::process::{Process, ProcessEngine, drifted};
use super::queue::EventQueue;
use super::region_store::RegionStore;
use super::settings::{RegionSettings, RegionsSettings};

/// Longest time from a process to its store, in ms.
const STORE_MS_MAX: u64 = 5;
/// Number of records that a mirror repeats at most.
const REPEATED_LEN_MAX: usize = 12;
/// Fingerprint of the digest key of all regions.
const FINGERPRINT: u64 = 42;

/// A run of simulated regions.
pub struct RegionsWorld {
    settings: RegionsSettings,
    mistake: Option<RegionMistake>,
    rng: Rng,
    now_ms: u64,
    queue: EventQueue<Event>,
    log: Vec<LedgerRecord>,
    /// The ledger as appended, and the digests of its states by their lengths.
    truth: Ledger,
    digests: Vec<u64>,
    regions: Vec<RegionSim>,
    coordinators: Vec<Process>,
    /// Instants at which the records of the ledger arrive at each coordinator, in ms.
    arrivals: Vec<Vec<u64>>,
    lives: u64,
    outcome: RegionsOutcome,
}

/// Numbers of a run.
#[derive(Clone, Debug, Default)]
pub struct RegionsOutcome {
    /// First violation; none if the invariant held.
    pub violation: Option<Violation>,
    /// Calls and admissions, by region and second.
    pub seconds: Vec<Vec<(u64, u64)>>,
    /// Largest number of units of a counter in a window of true time over all regions.
    pub fullest_window: u64,
    /// Entries in the ledger.
    pub entries: u64,
    /// Entries that were void.
    pub void: u64,
    /// Units that regions hold beyond the quota at the end.
    pub beyond_at_end: u64,
    /// Admissions by counter, as true time in ms and region.
    pub admitted: Vec<Vec<(u64, usize)>>,
    /// Calls by counter, as true time in ms.
    pub calls: Vec<Vec<u64>>,
}

/// A state that must not be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Violation {
    /// The regions hold or have admitted more than the largest quota.
    QuotaExceeded {
        /// Instant, in ms.
        at_ms: u64,
        /// Sum over the regions of the larger of limit and units of the last window.
        units: u64,
        /// The quota; after it was lowered, the units that regions still hold by the ledger.
        quota: u64,
    },
    /// Two readers of the same entries have different states.
    StatesDiffer {
        /// Instant, in ms.
        at_ms: u64,
        /// Number of entries.
        len: u64,
    },
}

#[derive(Debug)]
struct RegionSim {
    settings: RegionSettings,
    store: RegionStore,
    processes: Vec<Process>,
    /// Records of its mirror.
    mirror: Vec<LedgerRecord>,
    /// Instant at which the last record arrives at the mirror, in ms.
    mirrored_ms: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Member {
    Region(usize, usize),
    Coordinator(usize),
}

#[derive(Clone, Debug)]
enum Event {
    Call { region: usize, plan: usize },
    Tick(Member),
    Appended(LedgerRecord),
    Mirrored { region: usize, record: LedgerRecord },
    Write { region: usize, process: usize, life: u64, counter: Option<CounterId>, write: LimitWrite },
    Written { region: usize, process: usize, life: u64, answer: StoreAnswer, store: Timestamp },
    Restart(Member),
    Resume(Member),
}

#[derive(Clone, Copy, Debug)]
enum StoreAnswer {
    Counter(CounterId, LimitAnswer),
    Floor(StoredLimit),
}

impl RegionsWorld {
    /// Creates a run.
    #[must_use]
    pub fn new(settings: RegionsSettings, mistake: Option<RegionMistake>) -> Self {
        let window_ms = settings.terms.first().map_or(1, |change| change.terms.window_ms);
        let regions = (settings.regions.iter())
            .map(|region| RegionSim {
                settings: region.clone(),
                store: RegionStore::new(window_ms),
                processes: Vec::new(),
                mirror: Vec::new(),
                mirrored_ms: 0,
            })
            .collect();
        let counters = settings.counters as usize;
        let outcome = RegionsOutcome {
            seconds: vec![Vec::new(); settings.regions.len()],
            admitted: vec![Vec::new(); counters],
            calls: vec![Vec::new(); counters],
            ..RegionsOutcome::default()
        };
        let mut world = Self {
            rng: Rng::with_seed(settings.seed),
            mistake,
            now_ms: 0,
            queue: EventQueue::new(),
            log: Vec::new(),
            truth: Ledger::default(),
            digests: vec![digest(&Ledger::default())],
            regions,
            coordinators: Vec::new(),
            arrivals: vec![Vec::new(); settings.coordinators],
            lives: 0,
            outcome,
            settings,
        };
        world.start();
        world
    }

    /// Runs to the end, or to the first violation.
    #[must_use]
    pub fn run(mut self) -> RegionsOutcome {
        while let Some((at_ms, event)) = self.queue.pop() {
            if at_ms > self.settings.run_ms || self.outcome.violation.is_some() {
                break;
            }
            self.now_ms = at_ms;
            self.handle(event);
            self.check_quota();
        }
        self.outcome.entries = self.truth.len();
        let beyond = self.truth.counters().map(|(_, terms, budget)| budget.held_by_all().saturating_sub(terms.quota));
        self.outcome.beyond_at_end = beyond.max().unwrap_or(0);
        self.outcome
    }

    fn start(&mut self) {
        for number in 0..self.settings.coordinators {
            let process = self.new_process(None);
            self.coordinators.push(process);
            self.queue.push(1 + number as u64 * 7, Event::Tick(Member::Coordinator(number)));
        }
        for region in 0..self.regions.len() {
            for process in 0..self.regions[region].settings.processes {
                let new = self.new_process(Some(region));
                self.regions[region].processes.push(new);
                let member = Member::Region(region, process);
                let first_ms = self.rng.u64(1..=self.settings.tick_ms);
                self.queue.push(first_ms, Event::Tick(member));
                let every_ms = self.regions[region].settings.faults.restart_every_ms;
                if every_ms > 0 {
                    let at_ms = self.rng.u64(1..=2 * every_ms);
                    self.queue.push(at_ms, Event::Restart(member));
                }
            }
            for plan in 0..self.regions[region].settings.callers.len() {
                let from_ms = self.regions[region].settings.callers[plan].from_ms;
                self.schedule_call(region, plan, from_ms);
            }
        }
    }

    fn new_process(&mut self, region: Option<usize>) -> Process {
        self.lives += 1;
        let writer = self.rng.u64(..);
        let (engine, drift_ppm_max) = match region {
            Some(region) => {
                let settings = &self.regions[region].settings;
                let member = RegionMember { region: settings.name.into(), writer, key_fingerprint: FINGERPRINT };
                (ProcessEngine::Region(Box::new(RegionBudgets::new(member))), settings.drift_ppm_max)
            }
            None => {
                let drift_ppm_max = self.regions[0].settings.drift_ppm_max;
                (ProcessEngine::Coordinator(Box::new(Coordinator::new(writer))), drift_ppm_max)
            }
        };
        Process::new(engine, self.lives, drift_ppm_max, &mut self.rng)
    }

    fn handle(&mut self, event: Event) {
        match event {
            Event::Call { region, plan } => self.call(region, plan),
            Event::Tick(member) => self.tick(member),
            Event::Appended(record) => self.append(record),
            Event::Mirrored { region, record } => {
                self.mirror(region, record);
                for process in 0..self.regions[region].processes.len() {
                    self.catch_up(Member::Region(region, process));
                }
            }
            Event::Write { region, process, life, counter, write } => {
                let store_now = self.store_time(region);
                if self.mistake == Some(RegionMistake::LimitDies) {
                    self.regions[region].store.forget_ended(store_now);
                }
                let is_fenced = self.mistake != Some(RegionMistake::FenceIgnored);
                let store = &mut self.regions[region].store;
                let answer = match counter {
                    Some(counter) => {
                        let mut answer = store.write(counter, store_now, &write, is_fenced);
                        if self.mistake == Some(RegionMistake::GiveBackUnseen) {
                            answer.used = 0;
                        }
                        StoreAnswer::Counter(counter, answer)
                    }
                    None => StoreAnswer::Floor(store.write_floor(&write)),
                };
                let at_ms = self.now_ms + self.rng.u64(0..=STORE_MS_MAX);
                self.queue.push(at_ms, Event::Written { region, process, life, answer, store: store_now });
            }
            Event::Written { region, process, life, .. } => {
                let member = Member::Region(region, process);
                let Some(known) = self.process(member) else { return };
                if known.life != life {
                    return;
                }
                let suspended_ms = known.suspended_until_ms;
                if suspended_ms > self.now_ms {
                    self.queue.push(suspended_ms, event);
                    return;
                }
                self.written(member, &event);
            }
            Event::Restart(member) => self.restart(member),
            Event::Resume(member) => self.catch_up(member),
        }
    }

    fn restart(&mut self, member: Member) {
        let Member::Region(region, process) = member else { return };
        self.regions[region].processes[process] = self.new_process(Some(region));
        if self.now_ms < self.settings.calm_from_ms {
            let every_ms = self.regions[region].settings.faults.restart_every_ms;
            let next_ms = self.now_ms + self.rng.u64(1..=2 * every_ms);
            self.queue.push(next_ms, Event::Restart(member));
        }
        self.catch_up(member);
    }

    fn call(&mut self, region: usize, plan: usize) {
        let caller = self.regions[region].settings.callers[plan];
        self.schedule_call(region, plan, self.now_ms);
        let (counter, store_now) = (counter_id(caller.counter), self.store_time(region));
        let is_admitted = self.regions[region].store.charge(counter, store_now);
        let second = usize::try_from(self.now_ms / 1_000).unwrap_or(usize::MAX);
        let seconds = &mut self.outcome.seconds[region];
        seconds.resize(seconds.len().max(second + 1), (0, 0));
        seconds[second].0 += 1;
        seconds[second].1 += u64::from(is_admitted);
        self.outcome.calls[caller.counter as usize].push(self.now_ms);
        if is_admitted {
            self.outcome.admitted[caller.counter as usize].push((self.now_ms, region));
        }
        let rule = rule_name(&self.settings);
        for process in 0..self.regions[region].processes.len() {
            let input = RegionInput::Offered { rule: &rule, counter, units: 1 };
            self.poll(Member::Region(region, process), input);
        }
    }

    fn schedule_call(&mut self, region: usize, plan: usize, after_ms: u64) {
        let caller = self.regions[region].settings.callers[plan];
        if caller.per_minute == 0 {
            return;
        }
        #[expect(clippy::cast_precision_loss, reason = "a rate")]
        let mean_ms = 60_000.0 / caller.per_minute as f64;
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a time in ms")]
        let gap_ms = (-(1.0 - self.rng.f64()).ln() * mean_ms).round() as u64;
        if after_ms + gap_ms < caller.until_ms {
            self.queue.push(after_ms + gap_ms, Event::Call { region, plan });
        }
    }

    fn tick(&mut self, member: Member) {
        self.queue.push(self.now_ms + self.settings.tick_ms, Event::Tick(member));
        let Some(process) = self.process(member) else { return };
        if process.suspended_until_ms > self.now_ms {
            return;
        }
        match member {
            Member::Region(region, _) => {
                self.poll(member, RegionInput::StoreTime(self.store_time(region)));
                self.poll(member, RegionInput::Tick);
            }
            Member::Coordinator(number) => {
                let now_ms = self.now_ms;
                let proposed = self.settings.terms.iter().rev().find(|change| change.at_ms <= now_ms).cloned();
                let process = &mut self.coordinators[number];
                let now = process.time(now_ms);
                let ProcessEngine::Coordinator(coordinator) = &mut process.engine else { return };
                let mut entries = coordinator.tick(now);
                entries.extend(proposed.and_then(|change| coordinator.propose_terms(&change.terms)));
                for record in entries {
                    self.send(member, record);
                }
            }
        }
    }

    fn poll(&mut self, member: Member, input: RegionInput<'_>) {
        let now_ms = self.now_ms;
        let Some(process) = self.process_mut(member) else { return };
        let now = process.time(now_ms);
        let ProcessEngine::Region(budgets) = &mut process.engine else { return };
        let mut effects = Vec::new();
        budgets.poll(now, input, &mut effects);
        for effect in effects {
            self.execute(member, effect);
        }
    }

    /// Executes an effect, perhaps after a suspension that begins between the decision and the effect.
    fn execute(&mut self, member: Member, effect: RegionEffect) {
        let Member::Region(region, process) = member else { return };
        let (counter, write) = match effect {
            RegionEffect::Append(record) => return self.send(member, record),
            RegionEffect::Write { counter, write } => (Some(counter), write),
            RegionEffect::WriteFloor { write, .. } => (None, write),
        };
        let from_ms = self.suspended_until(member);
        let at_ms = from_ms + self.rng.u64(0..=STORE_MS_MAX);
        let life = self.regions[region].processes[process].life;
        self.queue.push(at_ms, Event::Write { region, process, life, counter, write });
    }

    /// Returns the instant from which a member executes its next effect.
    fn suspended_until(&mut self, member: Member) -> u64 {
        let now_ms = self.now_ms;
        let faults = match member {
            Member::Region(region, _) => self.regions[region].settings.faults.clone(),
            Member::Coordinator(_) => self.settings.coordinator_faults.clone(),
        };
        let is_suspended = now_ms < self.settings.calm_from_ms && self.rng.u64(0..1_000) < faults.suspended_permille;
        let calm_ms = self.settings.calm_from_ms.saturating_sub(now_ms);
        let for_ms = self.rng.u64(0..=faults.suspended_ms_max).min(calm_ms);
        let Some(process) = self.process_mut(member) else { return now_ms };
        if is_suspended && process.suspended_until_ms <= now_ms {
            process.suspended_until_ms = now_ms + for_ms;
            self.queue.push(now_ms + for_ms, Event::Resume(member));
        }
        self.process(member).map_or(now_ms, |process| process.suspended_until_ms.max(now_ms))
    }

    /// Sends a record to the home cluster.
    fn send(&mut self, member: Member, record: LedgerRecord) {
        let from_ms = self.suspended_until(member);
        let link = match member {
            Member::Region(region, _) => self.regions[region].settings.link.clone(),
            Member::Coordinator(_) => self.regions[0].settings.link.clone(),
        };
        let is_calm = self.now_ms >= self.settings.calm_from_ms;
        let is_lost = !is_calm && self.rng.u64(0..1_000) < link.lost_permille;
        let is_doubled = !is_calm && self.rng.u64(0..1_000) < link.doubled_permille;
        if is_lost || link.is_cut(from_ms) {
            return;
        }
        let jitter_ms = if is_calm { 0 } else { self.rng.u64(0..=link.jitter_ms) };
        let Some(process) = self.process_mut(member) else { return };
        let at_ms = (from_ms + link.delay_ms + jitter_ms).max(process.arrives_after_ms);
        process.arrives_after_ms = at_ms;
        if is_doubled {
            let again_ms = at_ms + jitter_ms;
            self.queue.push(again_ms, Event::Appended(record.clone()));
        }
        self.queue.push(at_ms, Event::Appended(record));
    }

    fn append(&mut self, mut record: LedgerRecord) {
        if self.mistake == Some(RegionMistake::RenewalOverlooked)
            && let LedgerEntry::Expiry { counter, grant, last } = &mut record.entry
        {
            let current = self.truth.budget(&rule_name(&self.settings), *counter);
            let held = current.and_then(|budget| budget.grants().iter().find(|held| held.id == *grant).map(|held| held.last));
            *last = held.unwrap_or(*last);
        }
        let len = self.truth.len();
        self.outcome.void += u64::from(self.truth.apply(&record).is_err());
        if self.truth.len() > len {
            self.digests.push(digest(&self.truth));
        }
        self.log.push(record.clone());
        let is_calm = self.now_ms >= self.settings.calm_from_ms;
        for number in 0..self.coordinators.len() {
            let jitter_ms = if is_calm { 0 } else { self.rng.u64(0..=self.regions[0].settings.link.jitter_ms) };
            let arrivals = &mut self.arrivals[number];
            let at_ms = (self.now_ms + jitter_ms).max(arrivals.last().copied().unwrap_or(0));
            arrivals.push(at_ms);
            self.queue.push(at_ms, Event::Resume(Member::Coordinator(number)));
        }
        for region in 0..self.regions.len() {
            let link = &self.regions[region].settings.link;
            let jitter_ms = if is_calm { 0 } else { self.rng.u64(0..=link.jitter_ms) };
            let mut at_ms = self.now_ms + link.delay_ms + jitter_ms;
            while let Some((_, until)) = link.cuts.iter().find(|(from, until)| (*from..*until).contains(&at_ms)) {
                at_ms = *until;
            }
            at_ms = at_ms.max(self.regions[region].mirrored_ms);
            self.regions[region].mirrored_ms = at_ms;
            self.queue.push(at_ms, Event::Mirrored { region, record: record.clone() });
        }
    }

    /// Adds a record to the mirror of a region.
    fn mirror(&mut self, region: usize, record: LedgerRecord) {
        let is_calm = self.now_ms >= self.settings.calm_from_ms;
        let draw = self.rng.u64(0..1_000);
        let swaps = self.mistake == Some(RegionMistake::MirrorOutOfOrder) && self.rng.u64(0..4) == 0;
        let repeated = self.rng.usize(1..=REPEATED_LEN_MAX);
        let region = &mut self.regions[region];
        region.mirror.push(record);
        let len = region.mirror.len();
        let is_read = region.processes.iter().any(|process| process.read + 1 >= len);
        if swaps && len >= 2 && !is_read {
            region.mirror.swap(len - 1, len - 2);
        }
        if !is_calm && draw < region.settings.link.repeated_permille {
            region.mirror.extend_from_within(len.saturating_sub(repeated)..);
        }
    }

    /// Lets a member read all records that have arrived.
    fn catch_up(&mut self, member: Member) {
        while let Some(process) = self.process(member) {
            if process.suspended_until_ms > self.now_ms {
                return;
            }
            let record = match member {
                Member::Region(region, _) => self.regions[region].mirror.get(process.read).cloned(),
                Member::Coordinator(number) => {
                    let has_arrived = self.arrivals[number].get(process.read).is_some_and(|at_ms| *at_ms <= self.now_ms);
                    self.log.get(process.read).filter(|_| has_arrived).cloned()
                }
            };
            let Some(record) = record else { return };
            if let Some(process) = self.process_mut(member) {
                process.read += 1;
            }
            self.read(member, record);
        }
    }

    fn read(&mut self, member: Member, record: LedgerRecord) {
        let (now_ms, mistake) = (self.now_ms, self.mistake);
        match member {
            Member::Coordinator(number) => {
                let process = &mut self.coordinators[number];
                let mut now = process.time(now_ms);
                let ProcessEngine::Coordinator(coordinator) = &mut process.engine else { return };
                if mistake == Some(RegionMistake::WaitFromWrongInstant) && matches!(record.entry, LedgerEntry::Renewal { .. }) {
                    let term_ms = coordinator.ledger().rules().map(|terms| terms.term_ms).max().unwrap_or(0);
                    now = now.minus_ms(term_ms);
                }
                coordinator.read(now, &record);
            }
            Member::Region(region, _) => {
                let is_second = region == 1;
                let altered = match (&record.entry, mistake) {
                    (LedgerEntry::Terms(terms), Some(RegionMistake::OtherTerms)) if is_second => {
                        let floors = terms.floors.iter().map(|(name, units)| (name.clone(), units + terms.quota / 10)).collect();
                        Some(LedgerRecord { id: record.id, entry: LedgerEntry::Terms(Terms { quota: 2 * terms.quota, floors, ..terms.clone() }) })
                    }
                    _ => None,
                };
                self.poll(member, RegionInput::Record(altered.as_ref().unwrap_or(&record)));
                if let (LedgerEntry::Grant { .. }, Some(RegionMistake::GrantTwice), true) = (&record.entry, mistake, is_second) {
                    self.grant_again(member, &record);
                }
                self.check_state(member);
            }
        }
    }

    /// Makes a region read a grant once more, as the answer to a request of its own.
    fn grant_again(&mut self, member: Member, record: &LedgerRecord) {
        let LedgerEntry::Grant { counter, request, units } = record.entry else { return };
        let rule = rule_name(&self.settings);
        let Some((terms, _)) = self.truth.terms(&rule).map(|(id, terms)| (id, terms.clone())) else { return };
        let region = match member {
            Member::Region(region, _) => self.regions[region].settings.name.into(),
            Member::Coordinator(_) => return,
        };
        let held = self.truth.budget(&rule, counter);
        if !held.is_some_and(|budget| budget.grants().iter().any(|grant| grant.request == request && grant.region == region)) {
            return;
        }
        let again = |sequence| EntryId { writer: record.id.writer ^ record.id.sequence.rotate_left(40), sequence };
        let asked = LedgerEntry::Request(tollgate_core::messages::ledger::BudgetRequest { terms, counter, region, wants: units });
        let asked = LedgerRecord { id: again(1), entry: asked };
        self.poll(member, RegionInput::Record(&asked));
        let granted = LedgerRecord { id: again(2), entry: LedgerEntry::Grant { counter, request: again(1), units } };
        self.poll(member, RegionInput::Record(&granted));
    }

    fn written(&mut self, member: Member, event: &Event) {
        let Event::Written { answer, store, .. } = event else { return };
        self.poll(member, RegionInput::StoreTime(*store));
        match *answer {
            StoreAnswer::Counter(counter, answer) => self.poll(member, RegionInput::Written { counter, answer }),
            StoreAnswer::Floor(limit) => {
                let rule = rule_name(&self.settings);
                self.poll(member, RegionInput::FloorWritten { rule: &rule, limit });
            }
        }
    }

    /// Compares the state of a reader with that of the ledger at the same entry.
    fn check_state(&mut self, member: Member) {
        let Some(Process { engine: ProcessEngine::Region(budgets), .. }) = self.process(member) else { return };
        let len = budgets.ledger().len();
        let expected = usize::try_from(len).ok().and_then(|len| self.digests.get(len));
        if expected != Some(&digest(budgets.ledger())) && self.outcome.violation.is_none() {
            self.outcome.violation = Some(Violation::StatesDiffer { at_ms: self.now_ms, len });
        }
    }

    fn check_quota(&mut self) {
        let rule = rule_name(&self.settings);
        for counter in 0..self.settings.counters {
            let counter = counter_id(counter);
            let mut units = 0;
            for region in 0..self.regions.len() {
                let now = self.store_time(region);
                let store = &mut self.regions[region].store;
                units += store.used(counter, now).max(store.limit(counter, now));
            }
            let quota = self.truth.terms(&rule).map_or(0, |(_, terms)| terms.quota);
            let quota = self.truth.budget(&rule, counter).map_or(quota, |budget| budget.held_by_all().max(quota));
            if units > quota && self.outcome.violation.is_none() {
                self.outcome.violation = Some(Violation::QuotaExceeded { at_ms: self.now_ms, units, quota });
            }
        }
    }

    fn store_time(&self, region: usize) -> Timestamp {
        let (offset_ms, drift_ppm) = self.regions[region].settings.store_clock;
        drifted(self.now_ms, offset_ms, drift_ppm)
    }

    fn process(&self, member: Member) -> Option<&Process> {
        match member {
            Member::Region(region, process) => self.regions[region].processes.get(process),
            Member::Coordinator(number) => self.coordinators.get(number),
        }
    }

    fn process_mut(&mut self, member: Member) -> Option<&mut Process> {
        match member {
            Member::Region(region, process) => self.regions[region].processes.get_mut(process),
            Member::Coordinator(number) => self.coordinators.get_mut(number),
        }
    }
}

/// Returns the identifier of a counter by its number.
fn counter_id(number: u32) -> CounterId {
    CounterId::from_u128(u128::from(number) + 1)
}

fn rule_name(settings: &RegionsSettings) -> Arc<str> {
    settings.terms.first().map_or_else(|| "".into(), |change| change.terms.rule.clone())
}

fn digest(ledger: &Ledger) -> u64 {
    let mut hasher = DefaultHasher::new();
    ledger.hash(&mut hasher);
    hasher.finish()
}
