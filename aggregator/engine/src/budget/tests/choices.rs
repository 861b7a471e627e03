//! Choices of the model: the steps that a state allows.

use tollgate_core::messages::ledger::LedgerEntry;

use super::bounds::{BudgetModel, EXPIRES_AT, ModelMistake, Pause, Step};
use super::place::TERM;
use super::state::{RULE, RegionState, State, counter_of};

impl BudgetModel {
    pub(super) fn region_steps(&self, state: &State, region: usize, steps: &mut Vec<Step>) {
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

    pub(super) fn coordinator_steps(&self, state: &State, steps: &mut Vec<Step>) {
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
}
