//! Checks of the invariant: the regions are within the quota, and all readers have one state.

use std::hash::{DefaultHasher, Hash, Hasher};

use tollgate_aggregator_engine::budget::ledger::Ledger;

use super::{LedgerMember, RegionsWorld, counter_id, rule_name};
use crate::regions::outcome::{BudgetSample, Violation};
use crate::regions::process::{Process, ProcessEngine};

impl RegionsWorld {
    /// Compares the state of a reader with that of the ledger at the same entry.
    pub(super) fn check_state(&mut self, member: LedgerMember) {
        let Some(Process { engine: ProcessEngine::Region(budgets), .. }) = self.process(member) else { return };
        let len = budgets.ledger().len();
        let expected = usize::try_from(len).ok().and_then(|len| self.digests.get(len));
        if expected != Some(&digest(budgets.ledger())) && self.outcome.violation.is_none() {
            self.outcome.violation = Some(Violation::StatesDiffer { at_ms: self.now_ms, len });
        }
    }

    /// Notes the units of the first counter.
    pub(super) fn sample(&mut self) {
        let (rule, counter) = (rule_name(&self.settings), counter_id(0));
        let budget = self.truth.budget(&rule, counter);
        let sample = |region: usize| {
            let held = budget.as_ref().map_or(0, |budget| budget.held(self.regions[region].settings.name));
            BudgetSample { held, limit: self.regions[region].store.limit(counter, self.store_time(region)) }
        };
        let samples = (0..self.regions.len()).map(sample).collect();
        self.outcome.budgets.push(samples);
    }

    pub(super) fn check_quota(&mut self) {
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
}

/// Returns a digest of the state of a ledger.
pub(super) fn digest(ledger: &Ledger) -> u64 {
    let mut hasher = DefaultHasher::new();
    ledger.hash(&mut hasher);
    hasher.finish()
}
