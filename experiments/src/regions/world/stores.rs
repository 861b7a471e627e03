//! Stores of the regions: their times, the steps of their clocks, and the floors by the rules of their callers.

use tollgate_aggregator_engine::budget::counter_budget::floor_of;

use super::{RegionsWorld, rule_name};
use crate::regions::process::drifted;
use crate::regions::region_store::StoreTime;

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
