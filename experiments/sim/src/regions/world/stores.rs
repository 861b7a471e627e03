//! Stores of the regions: their times, the steps of their clocks, the suspensions of their machines, and the rules of their callers.

use tollgate_aggregator_engine::budget::counter_budget::floor_of;

use tollgate_core::messages::ledger::Terms;

use super::event::{Event, LedgerMember};
use super::state::{RegionsWorld, rule_name};
use crate::regions::process::drifted;
use crate::regions::region_store::{AgentRules, StoreTime};

impl RegionsWorld {
    pub(super) fn store_time(&self, region: usize) -> StoreTime {
        let sim = &self.regions[region];
        let (offset_ms, drift_ppm) = sim.settings.store_clock;
        let unstepped = drifted(self.now_ms, offset_ms, drift_ppm);
        let clock = if sim.stepped_ms < 0 {
            unstepped.minus_ms(sim.stepped_ms.unsigned_abs())
        } else {
            unstepped.plus_ms(sim.stepped_ms.unsigned_abs())
        };
        StoreTime { clock, steady: unstepped.plus_ms(sim.forward_ms) }
    }

    pub(super) fn step_clock(&mut self, region: usize, by_ms: i64) {
        let sim = &mut self.regions[region];
        sim.stepped_ms += by_ms;
        sim.forward_ms += u64::try_from(by_ms).unwrap_or(0);
        if by_ms < 0 {
            sim.processes.iter_mut().for_each(|process| process.saw_step_ms = None);
        }
    }

    /// Returns the end of a suspension of a region's machine.
    pub(super) fn paused_until(&self, region: usize) -> Option<u64> {
        self.regions[region].settings.machine_paused_until(self.now_ms)
    }

    /// Suspends the machine of a region with its store and all its processes. Coordinators run in the home region.
    pub(super) fn pause(&mut self, region: usize, until_ms: u64) {
        let for_ms = until_ms.saturating_sub(self.now_ms);
        let processes = (0..self.regions[region].processes.len()).map(|process| LedgerMember::Region(region, process));
        let coordinators = (0..self.coordinators.len()).filter(|_| region == 0).map(LedgerMember::Coordinator);
        for member in processes.chain(coordinators) {
            let now_ms = self.now_ms;
            let Some(process) = self.process_mut(member) else { continue };
            process.suspend(now_ms, for_ms);
            // Its writes wait for the store.
            process.saw_step_ms = None;
            process.writes_after_ms = process.writes_after_ms.max(until_ms);
            let resumes_ms = process.suspended_until_ms;
            self.queue.push(resumes_ms, Event::Resume(member));
        }
    }

    /// Returns the rules of a region's agents. Those of other terms come to them late.
    pub(super) fn agent_rules(&self, region: usize) -> AgentRules {
        let known_ms = self.now_ms.saturating_sub(self.regions[region].settings.rules_lag_ms);
        let known = self.settings.terms.iter().rev().find(|change| change.at_ms <= known_ms);
        let window_ms = known.or(self.settings.terms.first()).map_or(1, |change| change.terms.window_ms);
        AgentRules { floor: self.rules_floor(region), window_ms }
    }

    /// Returns the terms in the ledger, as they were proposed.
    pub(super) fn terms_in_force(&self) -> Option<&Terms> {
        let (_, known) = self.truth.terms(&rule_name(&self.settings))?;
        let proposed = self.settings.terms.iter().map(|change| &change.terms);
        proposed.into_iter().find(|terms| terms.generation == known.generation)
    }

    /// Returns the floor by the rules of the agents, which a store without a written floor enforces. Agents know the rules later than
    /// the ledger.
    pub(super) fn rules_floor(&self, region: usize) -> u64 {
        if self.regions[region].store.has_floor() {
            return 0;
        }
        let (rule, name) = (rule_name(&self.settings), self.regions[region].settings.name);
        let rules = self.truth.terms(&rule).map_or(0, |(_, terms)| floor_of(terms, name));
        rules.min(self.truth.floor_of_all(&rule, name))
    }
}
