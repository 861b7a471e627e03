//! Checks of the invariant: the regions are within the quota, and all readers have one state.

use tollgate_core::messages::ledger::LedgerEntry;

use super::event::LedgerMember;
use super::state::{CHECKED_ALWAYS_MAX, RegionsWorld, counter_id, digest, rule_name};
use crate::regions::outcome::{BudgetSample, Violation};
use crate::regions::process::{Process, ProcessEngine};
use crate::regions::region_store::WriteOrigin;

impl RegionsWorld {
    /// Compares the state of a reader with that of the ledger at the same entry.
    pub(super) fn check_state(&mut self, member: LedgerMember) {
        if self.settings.counters > CHECKED_ALWAYS_MAX {
            return;
        }
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
            let (now, rules_floor) = (self.store_time(region).clock, self.rules_floor(region));
            BudgetSample { held, limit: self.regions[region].store.limit(counter, now, rules_floor) }
        };
        let samples = (0..self.regions.len()).map(sample).collect();
        self.outcome.budgets.push(samples);
    }

    /// Checks an entry, once it is applied: the regions hold no more than the quota as it was proposed, or than they held before. So what is
    /// left of a larger quota can only fall.
    pub(super) fn check_held(&mut self, entry: &LedgerEntry) {
        let rule = rule_name(&self.settings);
        let quota = self.terms_in_force().map_or(0, |terms| terms.quota);
        let numbers = match self.number_of(entry) {
            Some(number) => number..number + 1,
            None => 0..self.settings.counters,
        };
        for number in numbers {
            let held = self.truth.budget(&rule, counter_id(number)).map_or(0, |budget| budget.held_by_all());
            let known = &mut self.held[number as usize];
            let ceiling = quota.max(*known);
            if held > ceiling {
                let violation = Violation::HeldOverQuota { at_ms: self.now_ms, held, ceiling };
                self.outcome.violation.get_or_insert(violation);
            }
            *known = held;
        }
    }

    /// Returns the number of the counter of an entry; none if it is about all of them.
    pub(super) fn number_of(&self, entry: &LedgerEntry) -> Option<u32> {
        let counter = match entry {
            LedgerEntry::Request(request) => request.counter,
            LedgerEntry::Grant { counter, .. }
            | LedgerEntry::Renewal { counter, .. }
            | LedgerEntry::GiveBack { counter, .. }
            | LedgerEntry::Expiry { counter, .. } => *counter,
            LedgerEntry::Terms(_) | LedgerEntry::FloorGiveBack { .. } => return None,
        };
        self.numbers.get(&counter).copied()
    }

    /// Checks that the regions hold and have admitted no more than the quota, at every instant and by each store's own clock, which
    /// may err by hours: a window is one of that clock. So a step forward by `d` shortens a window and a term by `d`. A step back
    /// lengthens neither: units that a store admits after the true end of their term, because its clock stepped back, are overdue and
    /// do not count here. They must have ended once the process that wrote them has seen the step. A store that loses its data does not
    /// keep what it has acknowledged: its admissions count from the loss on.
    pub(super) fn check_quota(&mut self, number: u32) {
        let counter = counter_id(number);
        let (mut units, mut with_overdue) = (0, 0);
        for region in 0..self.regions.len() {
            let (now, rules_floor) = (self.store_time(region), self.rules_floor(region));
            let region = &mut self.regions[region];
            units += region.store.live(counter, now, rules_floor);
            if self.outcome.overdue > 0 {
                with_overdue += region.store.live_with_overdue(counter, now, rules_floor);
            }
            let Some(WriteOrigin { life, .. }) = region.store.overdue(counter, now) else { continue };
            let saw_step = |process: &Process| {
                process.life == life && process.saw_step_ms.is_some_and(|saw_ms| saw_ms < self.now_ms)
            };
            if region.processes.iter().any(saw_step) {
                self.outcome.violation.get_or_insert(Violation::Overdue { at_ms: self.now_ms });
            }
        }
        let quota = self.terms_in_force().map_or(0, |terms| terms.quota).max(self.held[number as usize]);
        self.outcome.overdue_excess = self.outcome.overdue_excess.max(with_overdue.saturating_sub(quota));
        if units > quota {
            self.outcome.violation.get_or_insert(Violation::QuotaExceeded { at_ms: self.now_ms, units, quota });
        }
    }
}
