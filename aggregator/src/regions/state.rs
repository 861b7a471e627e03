//! State of the budgets at an aggregator: the engines, and what was seen in the ledger. Queries read it between two rounds.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::Mutex;
use serde_json::{Value, json};
use tollgate_aggregator_engine::budget::coordinator::{Coordinator, expires_after_ms};
use tollgate_aggregator_engine::budget::counter_budget::CounterBudget;
use tollgate_aggregator_engine::budget::ledger::{COUNTERS_LEN_MAX, Ledger};
use tollgate_aggregator_engine::budget::region::{RegionBudgets, RegionInput};
use tollgate_core::clock::{Clock, Timestamp};
use tollgate_core::counter::CounterId;
use tollgate_core::messages::ledger::{LedgerEntry, LedgerRecord, Region, Terms};
use tollgate_core::messages::signals::Offset;

use super::agreement::Agreement;
use super::global_rules::GlobalRules;
use super::usage_state::UsageState;

/// Handle for queries about budgets; clones query the same aggregator.
#[derive(Clone)]
pub struct RegionQueries {
    pub(super) state: Arc<Mutex<RegionState>>,
    pub(super) usage: Arc<Mutex<UsageState>>,
    pub(super) clock: Arc<dyn Clock>,
}

/// Engines of an aggregator, and what they cannot tell.
pub(super) struct RegionState {
    pub(super) region: Region,
    pub(super) budgets: RegionBudgets,
    /// The coordinator; none at an aggregator that never is one.
    pub(super) coordinator: Option<Coordinator>,
    /// Name of the aggregator of this region's bus that coordinates.
    pub(super) coordinated_by: Option<Arc<str>>,
    pub(super) agreement: Agreement,
    pub(super) seen: BTreeMap<CounterId, SeenMoves>,
    /// Grants and give-backs that were read since the start.
    pub(super) moves: u64,
    pub(super) position: Option<Offset>,
    pub(super) is_complete: bool,
    pub(super) ledger_error: Option<String>,
    /// Error of a mirror whose entries are not those at home.
    pub(super) mirror_error: Option<&'static str>,
    pub(super) store_error: Option<String>,
}

/// Entries about a counter that were read since the start.
#[derive(Clone, Debug, Default)]
pub(super) struct SeenMoves {
    grants: u64,
    give_backs: u64,
    /// Own times at which the last grants and renewals were read.
    renewed_at: BTreeMap<Region, Timestamp>,
}

/// Budgets of the counters that hold more than their floors or wait for a grant, as JSON.
pub(crate) struct RegionsView {
    pub(crate) json: Value,
    /// Counters in the order of the JSON, for their labels.
    pub(crate) counters: Vec<CounterId>,
}

pub(crate) struct OwnBudget {
    /// Units of the floor and of the grants.
    pub(crate) units: u64,
    /// Grants and give-backs of all regions that were read since the start.
    pub(crate) moves: u64,
    /// Time since a grant or a renewal of the region was read; none if it has its floor only.
    pub(crate) age_ms: Option<u64>,
}

impl RegionQueries {
    /// Moves units of all counters to another region. For one term, this region wants none beside its floors, and the other one wants
    /// what both hold; then the demand decides again. Returns the number of counters.
    pub fn move_units(&self, to: &Self) -> usize {
        let other = to.state.lock().region.clone();
        let moves = self.state.lock().moves_to(&other);
        for (rule, counter, units) in &moves {
            for (region, units) in [(self, 0), (to, *units)] {
                let input = RegionInput::Wanted { rule, counter: *counter, units };
                region.state.lock().budgets.poll(region.clock.now(), input, &mut Vec::new());
            }
        }
        tracing::info!(to = %other, counters = moves.len(), "an operator moves units");
        moves.len()
    }

    /// Returns the budgets, the most wanted counters first, and the usage with the largest counters of each rule, up to a limit.
    pub(crate) fn view(&self, limit: usize) -> RegionsView {
        let now = self.clock.now();
        let mut view = self.state.lock().view(now, limit);
        view.json["usage"] = self.usage.lock().json(now, limit);
        view
    }

    pub(crate) fn budget(&self, rule: &str, counter: CounterId) -> Option<OwnBudget> {
        let (state, now) = (self.state.lock(), self.clock.now());
        let units = state.ledger().budget(rule, counter)?.held(&state.region);
        let seen = state.seen.get(&counter);
        let age_ms = seen.and_then(|seen| seen.renewed_at.get(&state.region)).map(|at| now.ms_since(*at));
        Some(OwnBudget { units, moves: state.moves_of(counter), age_ms })
    }
}

impl RegionState {
    pub(super) fn read(&mut self, now: Timestamp, record: &LedgerRecord) {
        let voids = self.budgets.voids();
        self.budgets.poll(now, RegionInput::Record(record), &mut Vec::new());
        if let Some(coordinator) = &mut self.coordinator {
            coordinator.read(now, record);
        }
        if self.budgets.voids() == voids {
            self.note(now, record);
        }
    }

    /// Returns the number of grants and give-backs of a counter that were read since the start.
    pub(super) fn moves_of(&self, counter: CounterId) -> u64 {
        self.seen.get(&counter).map_or(0, |seen| seen.grants + seen.give_backs)
    }

    /// Returns the units that the region holds beside its floors, by rule.
    pub(super) fn held(&self) -> BTreeMap<Arc<str>, u64> {
        let mut held: BTreeMap<_, u64> = self.ledger().rules().map(|terms| (terms.rule.clone(), 0)).collect();
        for (_, terms, budget) in self.ledger().counters() {
            let units: u64 = budget.grants_of(&self.region).map(|grant| grant.units).sum();
            *held.entry(terms.rule.clone()).or_default() += units;
        }
        held
    }

    /// Returns the largest time since a grant or a renewal of the region was read, by rule; 0 without grants.
    pub(super) fn ages_ms(&self, now: Timestamp) -> BTreeMap<Arc<str>, u64> {
        let mut ages: BTreeMap<_, u64> = self.ledger().rules().map(|terms| (terms.rule.clone(), 0)).collect();
        for (counter, terms, budget) in self.ledger().counters() {
            let is_held = budget.grants_of(&self.region).next().is_some();
            let renewed_at = self.seen.get(&counter).and_then(|seen| seen.renewed_at.get(&self.region));
            if let (true, Some(at), Some(age_ms)) = (is_held, renewed_at, ages.get_mut(&terms.rule)) {
                *age_ms = (*age_ms).max(now.ms_since(*at));
            }
        }
        ages
    }

    /// Returns the counters of which the region holds units beside its floor, with the units of this region and another one.
    fn moves_to(&self, other: &str) -> Vec<(Arc<str>, CounterId, u64)> {
        let held = self.ledger().counters().filter(|(_, _, budget)| budget.grants_of(&self.region).next().is_some());
        held.map(|(counter, terms, budget)| {
            (terms.rule.clone(), counter, budget.held(&self.region).saturating_add(budget.held(other)))
        })
        .collect()
    }

    /// Compares the rules of this region with the ledger. Missing terms count once it is read to its end.
    pub(super) fn compare(&mut self, now: Timestamp, rules: &GlobalRules, is_complete: bool) {
        self.agreement.check(now, &self.region, rules, self.budgets.ledger());
        if is_complete {
            self.agreement.await_terms(now, &self.region, rules, self.budgets.ledger());
        }
    }

    pub(super) fn allows(&self, record: &LedgerRecord) -> bool {
        self.agreement.allows(self.ledger(), record)
    }

    pub(super) fn ledger(&self) -> &Ledger {
        self.budgets.ledger()
    }

    /// Notes a valid entry that moves units or begins a term again.
    fn note(&mut self, now: Timestamp, record: &LedgerRecord) {
        let (LedgerEntry::Grant { counter, .. }
        | LedgerEntry::Renewal { counter, .. }
        | LedgerEntry::GiveBack { counter, .. }) = record.entry
        else {
            return;
        };
        let budget = self.budgets.ledger().counter(counter);
        let holder = budget.and_then(|budget| budget.grants().iter().find(|grant| grant.last == record.id));
        let grants = u64::from(matches!(record.entry, LedgerEntry::Grant { units: 1.., .. }));
        let give_backs = u64::from(matches!(record.entry, LedgerEntry::GiveBack { .. }));
        self.moves += grants + give_backs;
        let seen = self.seen.entry(counter).or_default();
        seen.grants += grants;
        seen.give_backs += give_backs;
        seen.renewed_at.extend(holder.map(|grant| (grant.region.clone(), now)));
    }

    /// Forgets the entries about counters that hold no more than their floors.
    pub(super) fn forget(&mut self) {
        let ledger = self.budgets.ledger();
        self.seen.retain(|counter, _| ledger.counter(*counter).is_some());
    }

    fn view(&self, now: Timestamp, limit: usize) -> RegionsView {
        let ledger = self.ledger();
        let wanted = |budget: &CounterBudget, terms: &Terms| {
            let regions = terms.floors.iter().map(|(region, _)| budget.wants(region).max(budget.held(region)));
            regions.fold(0, u64::saturating_add)
        };
        let mut counters: Vec<_> = ledger.counters().collect();
        counters.sort_by_cached_key(|(id, terms, budget)| (Reverse(wanted(budget, terms)), *id));
        let matched = counters.len();
        counters.truncate(limit);
        let view = |(counter, terms, budget): &(CounterId, &Terms, &CounterBudget)| {
            self.counter_view(now, *counter, terms, budget)
        };
        let json = json!({
            "region": *self.region,
            "coordinator": self.coordinated_by.as_deref(),
            "ledger": {
                "position": self.position,
                "entries": ledger.len(),
                "void": self.budgets.voids(),
                "read_to_end": self.is_complete,
                "error": self.mirror_error.or(self.ledger_error.as_deref()),
            },
            "store_error": self.store_error,
            "rules": ledger.rules().map(|terms| self.rule_view(terms)).collect::<Vec<_>>(),
            "matched": matched,
            "counters_max": COUNTERS_LEN_MAX,
            "counters": counters.iter().map(view).collect::<Vec<_>>(),
        });
        RegionsView { json, counters: counters.iter().map(|(id, ..)| *id).collect() }
    }

    /// Returns a counter as JSON, without its label, which the event loop knows. `held` contains the floor, and `age_ms` is the time
    /// since a grant or a renewal was read.
    fn counter_view(&self, now: Timestamp, counter: CounterId, terms: &Terms, budget: &CounterBudget) -> Value {
        let seen = self.seen.get(&counter).cloned().unwrap_or_default();
        let region = |(region, _): &(Region, u64)| {
            json!({
                "region": **region,
                "floor": budget.floor(region),
                "held": budget.held(region),
                "wants": budget.wants(region),
                "age_ms": seen.renewed_at.get(region).map(|at| now.ms_since(*at)),
            })
        };
        json!({
            "rule": *terms.rule,
            "id": counter.to_string(),
            "label": null,
            "quota": terms.quota,
            "free": budget.free(terms.quota),
            "grants": seen.grants,
            "give_backs": seen.give_backs,
            "regions": terms.floors.iter().map(region).collect::<Vec<_>>(),
        })
    }

    /// Returns a rule as JSON. With an `error`, this region asks for no units of it.
    fn rule_view(&self, terms: &Terms) -> Value {
        let ledger = self.ledger();
        let floor = |(region, _): &(Region, u64)| (region.to_string(), json!(ledger.floor_of_all(&terms.rule, region)));
        let removed = ledger.floors_of_removed(&terms.rule).into_iter();
        let removed = removed.map(|(region, units)| (region.to_string(), json!(units)));
        json!({
            "rule": *terms.rule,
            "generation": terms.generation,
            "quota": terms.quota,
            "window_ms": terms.window_ms,
            "term_ms": terms.term_ms,
            "lost_transfer_ms": expires_after_ms(terms.term_ms, terms.window_ms),
            "error": self.agreement.difference(&terms.rule),
            "floors": terms.floors.iter().map(floor).collect::<serde_json::Map<_, _>>(),
            "floors_of_removed": removed.collect::<serde_json::Map<_, _>>(),
        })
    }
}
