//! one-truth-of-time: the store's time lies in the interval in which each agent believes it.
//!
//! Excused: an agent whose interval a step of the store's clock made wrong, until the interval is right again.

use std::collections::BTreeSet;

use tollgate_experiments::sim::{Observation, Simulation};

/// Agents that a step of the store's clock excuses.
#[derive(Default)]
pub(crate) struct StoreTime {
    has_stepped: bool,
    excused: BTreeSet<usize>,
}

impl StoreTime {
    pub(crate) fn observe(&mut self, observation: &Observation<'_>) {
        self.has_stepped |= matches!(observation, Observation::StoreClockStepped(_));
    }

    pub(crate) fn check(&mut self, sim: &Simulation<'_>) -> Result<(), String> {
        if std::mem::take(&mut self.has_stepped) {
            self.excused.extend(0..sim.agents().len());
        }
        for (index, agent) in sim.agents().iter().enumerate() {
            let Some(engine) = agent.engine() else { continue };
            let own_now = agent.time(sim.now());
            let truth = if agent.owns_table() { own_now } else { sim.store().time(sim.now()) };
            let bounds = engine.store_time(own_now);
            if bounds.earliest <= truth && truth <= bounds.latest {
                self.excused.remove(&index);
            } else if !self.excused.contains(&index) {
                return Err(format!("one-truth-of-time: {truth:?} is not in {bounds:?} of agent {index}"));
            }
        }
        Ok(())
    }
}
