//! The thread of the budgets: reads the ledger, drives the engines, and executes their effects.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use tollgate_aggregator_engine::budget::region::{RegionEffect, RegionInput};
use tollgate_bus::{Bus, BusRecord};
use tollgate_core::clock::{Clock, Timestamp};
use tollgate_core::counter::CounterId;
use tollgate_core::messages::ledger::LedgerRecord;
use tollgate_core::regions::limit_store::LimitStore;
use tollgate_core::regions::stored_limit::LimitAnswer;
use tollgate_wire::Record;

use super::dead_entries::DeadEntries;
use super::feed::RegionFeed;
use super::global_rules::{GlobalRules, differ};
use super::ledger_link::LedgerLink;
use super::limit_writer::{LimitWriteAnswer, LimitWriter, StoreWrite};
use super::metrics::RegionMetrics;
use super::role_settings::RegionRoleSettings;
use super::state::RegionState;
use crate::queries::Queries;

/// Interval of ticks, in ms. A transfer needs several of them: the demand, the give-back, and the rise of the limit.
const TICK_MS: u64 = 200;
/// Minimum time between two looks of the coordinator at all counters, in ms.
const ANSWER_MS: u64 = 50;
/// Age of the store's time that is asked for again, in ms.
const STORE_TIME_MS: u64 = 1_000;
/// Interval at which terms are proposed again until they are in the ledger, in ms.
const TERMS_MS: u64 = 2_000;
/// Error of a mirror that goes on in one topic with the entries of two ledgers.
const MIXED: &str = "the ledger was deleted and created again, and its mirror still has the entries of the one before: stop the mirror, delete the mirrored topic, and let the mirror copy the ledger from its beginning";
/// Maximum time for which the last entries are awaited at the end.
const FLUSH_WAIT: Duration = Duration::from_secs(2);

pub(super) struct RegionLoop<B: Bus, S> {
    pub(super) settings: RegionRoleSettings,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) link: LedgerLink<B>,
    /// Writer of the limits; none at an aggregator that only coordinates.
    pub(super) limits: Option<LimitWriter<S>>,
    pub(super) feed: RegionFeed,
    pub(super) rules: GlobalRules,
    pub(super) queries: Queries,
    pub(super) state: Arc<Mutex<RegionState>>,
    pub(super) metrics: RegionMetrics,
    pub(super) dead_entries: DeadEntries,
    pub(super) ticked_at: Timestamp,
    pub(super) coordinated_at: Timestamp,
    /// True if records were read that the coordinator has not looked at.
    pub(super) has_news: bool,
    pub(super) store_time_at: Option<Timestamp>,
    pub(super) terms_at: Option<Timestamp>,
    /// True once a reason for which this aggregator takes no part is logged.
    pub(super) is_excluded: bool,
}

impl<B: Bus, S: LimitStore> RegionLoop<B, S> {
    pub(super) fn run(&mut self, stop: &AtomicBool) {
        while !stop.load(Ordering::Relaxed) {
            let now = self.clock.now();
            let due_ms = TICK_MS.saturating_sub(now.ms_since(self.ticked_at));
            let answer_ms = ANSWER_MS.saturating_sub(now.ms_since(self.coordinated_at));
            let wait_ms = if self.has_news { due_ms.min(answer_ms) } else { due_ms }.max(1);
            let records = self.link.poll(Duration::from_millis(wait_ms));
            let now = self.clock.now();
            self.read(now, &records);
            let is_due = now.ms_since(self.ticked_at) >= TICK_MS;
            let may_act = self.link.may_act(now);
            self.state.lock().is_complete = may_act;
            self.has_news |= !records.is_empty();
            let may_answer = self.has_news && now.ms_since(self.coordinated_at) >= ANSWER_MS;
            if may_act && (is_due || may_answer) {
                (self.has_news, self.coordinated_at) = (false, now);
                self.coordinate(now);
            }
            if is_due {
                let before = std::mem::replace(&mut self.ticked_at, now);
                self.check(now);
                if self.link.may_act(now) {
                    self.tick(before, now);
                }
            }
        }
        self.link.flush(FLUSH_WAIT);
    }

    fn read(&mut self, now: Timestamp, records: &[BusRecord]) {
        let mut state = self.state.lock();
        let (voids, moves) = (state.budgets.voids(), state.moves);
        for record in records {
            match LedgerRecord::decode(&record.payload) {
                Ok(entry) => state.read(now, &entry),
                Err(error) => self.dead_entries.keep(now, record, error.to_string()),
            }
        }
        self.metrics.voids.inc_by(state.budgets.voids() - voids);
        self.metrics.moves.inc_by(state.moves - moves);
        state.position = self.link.position();
    }

    /// Begins again if the ledger is another one, and logs why this aggregator takes no part.
    fn check(&mut self, now: Timestamp) {
        if self.link.is_recreated() {
            tracing::error!(
                "the topic of the ledger was deleted and created again: this region falls to its floors until it has read the new one; before you delete it, stop the aggregators of all regions until a term and a window have passed"
            );
            self.settings.begin_again();
            let (budgets, coordinator) = self.settings.engines(&self.rules);
            let mut state = self.state.lock();
            (state.budgets, state.coordinator) = (budgets, coordinator);
            state.seen.clear();
            self.link.begin_again();
        }
        self.note_mirror();
        let may_act = self.link.may_act(now);
        self.state.lock().compare(now, &self.rules, may_act);
        if self.is_excluded {
            return;
        }
        let fingerprint = self.rules.key_fingerprint();
        let other = self.state.lock().ledger().rules().find(|terms| terms.key_fingerprint != fingerprint).cloned();
        if let Some(terms) = other {
            self.is_excluded = true;
            tracing::error!(
                rule = %terms.rule,
                "this region asks for no units: its digest key is another one than that of the coordinator; give all agents and aggregators of all regions the same --digest-key-file"
            );
        }
        if self.link.has_lost_records() {
            self.is_excluded = true;
            tracing::error!(
                "this region takes no part any more: entries of the ledger were deleted before they were read; check the retention of its topic, let no mirror write it in transactions (exactly.once.source.support), and restart this aggregator"
            );
        }
    }

    /// Logs a mirror with the entries of two ledgers, and shows it until the mirror was created again.
    fn note_mirror(&mut self) {
        let error = self.link.is_mixed().then_some(MIXED);
        let before = std::mem::replace(&mut self.state.lock().mirror_error, error);
        if let (Some(error), None) = (error, before) {
            tracing::error!("this region takes no part, and falls to its floors: {error}");
        }
    }

    /// Proposes terms, grants and expiries, if this aggregator is the coordinator.
    fn coordinate(&mut self, now: Timestamp) {
        let coordinator = self.feed.coordinator();
        let is_own = coordinator.as_deref() == Some(&*self.settings.id);
        let mut state = self.state.lock();
        if state.coordinated_by != coordinator {
            tracing::info!(coordinator = coordinator.as_deref().unwrap_or("none"), "the coordinator has changed");
            state.coordinated_by = coordinator;
        }
        let Some(engine) = state.coordinator.as_mut().filter(|_| is_own) else { return };
        let mut entries = Vec::new();
        if self.terms_at.is_none_or(|at| now.ms_since(at) >= TERMS_MS) {
            self.terms_at = Some(now);
            for terms in &*self.rules.terms() {
                if engine.ledger().terms(&terms.rule).is_none_or(|(_, known)| differ(terms, known)) {
                    entries.extend(engine.propose_terms(terms));
                }
            }
        }
        entries.extend(engine.tick(now));
        drop(state);
        for entry in &entries {
            self.append(now, entry);
        }
    }

    /// Ends an interval of the demand that began with the tick before.
    fn tick(&mut self, before: Timestamp, now: Timestamp) {
        let (offered, part) = self.feed.take();
        let mut effects = Vec::new();
        {
            let mut state = self.state.lock();
            self.feed.follow(state.ledger().rules().map(|terms| terms.rule.clone()).collect());
            self.metrics.hold(&state.held(), &state.ages_ms(now));
            state.forget();
            let (Some(part), Some(_)) = (&part, &self.limits) else { return };
            state.budgets.poll(now, RegionInput::Assigned(part), &mut effects);
            for (counter, (rule, units)) in &offered {
                let input = RegionInput::Offered { rule, counter: *counter, units: *units };
                state.budgets.poll(before, input, &mut effects);
            }
        }
        self.ask_time(now);
        self.state.lock().budgets.poll(now, RegionInput::Tick, &mut effects);
        let writes = self.execute(now, effects);
        self.write(&writes);
    }

    /// Asks the store for its time. Without it, the end of a term is unknown.
    fn ask_time(&mut self, now: Timestamp) {
        let Some(limits) = &mut self.limits else { return };
        if self.store_time_at.is_some_and(|at| now.ms_since(at) < STORE_TIME_MS) {
            return;
        }
        if let Some(time) = limits.time() {
            // The answer arrives after the store has read its clock.
            let now = self.clock.now();
            self.store_time_at = Some(now);
            self.state.lock().budgets.poll(now, RegionInput::StoreTime(time), &mut Vec::new());
        }
        self.state.lock().store_error.clone_from(&limits.error);
    }

    /// Appends entries, and returns the writes to the store.
    fn execute(&mut self, now: Timestamp, effects: Vec<RegionEffect>) -> Vec<StoreWrite> {
        let mut writes = Vec::new();
        for effect in effects {
            match effect {
                RegionEffect::Append(entry) => {
                    if self.state.lock().allows(&entry) {
                        self.append(now, &entry);
                    }
                }
                RegionEffect::Write { rule, counter, mut write } => {
                    write.shown.moves = self.state.lock().moves_of(counter);
                    writes.push(StoreWrite { rule, counter: Some(counter), write });
                }
                RegionEffect::WriteFloor { rule, write } => writes.push(StoreWrite { rule, counter: None, write }),
            }
        }
        writes
    }

    fn write(&mut self, writes: &[StoreWrite]) {
        let Some(limits) = self.limits.as_mut().filter(|_| !writes.is_empty()) else { return };
        let answers = limits.write(writes);
        let answered_at = self.clock.now();
        let runtime = limits.runtime.clone();
        let error = limits.error.clone();
        let counters: Vec<CounterId> = answers.iter().filter_map(|(_, answer)| answer.counter()).collect();
        let own = runtime.block_on(self.queries.ask(move |aggregator| {
            let used = |counter: &CounterId| aggregator.worker.used(aggregator.now, *counter);
            counters.iter().map(used).collect::<Vec<_>>()
        }));
        let mut own = own.unwrap_or_default().into_iter();
        let (now, mut effects) = (self.clock.now(), Vec::new());
        let mut state = self.state.lock();
        state.store_error = error;
        // The newest time is the least late.
        if let Some(time) = answers.iter().map(|(time, _)| *time).max() {
            state.budgets.poll(answered_at, RegionInput::StoreTime(time), &mut effects);
            self.store_time_at = Some(answered_at);
        }
        for (_, answer) in answers {
            match answer {
                LimitWriteAnswer::Limit(counter, answer) => {
                    let used = answer.used.max(own.next().flatten().unwrap_or(0));
                    let answer = LimitAnswer { used, ..answer };
                    state.budgets.poll(now, RegionInput::Written { counter, answer }, &mut effects);
                }
                LimitWriteAnswer::Floor(rule, limit) => {
                    state.budgets.poll(now, RegionInput::FloorWritten { rule: &rule, limit }, &mut effects);
                }
            }
        }
        drop(state);
        self.execute(now, effects);
    }

    fn append(&mut self, now: Timestamp, entry: &LedgerRecord) {
        if self.link.append(now, entry) {
            self.metrics.appended.inc();
        }
    }
}
