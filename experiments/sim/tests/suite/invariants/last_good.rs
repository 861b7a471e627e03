//! last-good: the rules in force at an agent are the newest that it accepted.

use std::collections::BTreeMap;

use tollgate_core::rules::Generation;
use tollgate_sim::{Observation, SimNode, Simulation};

/// Generations by agent.
pub(crate) struct LastGood {
    at_start: Generation,
    accepted: BTreeMap<usize, Generation>,
}

impl LastGood {
    pub(crate) fn new(at_start: Generation) -> Self {
        Self { at_start, accepted: BTreeMap::new() }
    }

    pub(crate) fn observe(&mut self, observation: &Observation<'_>) {
        match observation {
            Observation::Ended(SimNode::Agent(agent)) => {
                self.accepted.remove(agent);
            }
            Observation::RulesAccepted(agent, generation) => {
                self.accepted.insert(*agent, *generation);
            }
            _ => {}
        }
    }

    pub(crate) fn check(&self, sim: &Simulation<'_>) -> Result<(), String> {
        for (index, agent) in sim.agents().iter().enumerate() {
            let Some(engine) = agent.engine() else { continue };
            let (in_force, expected) =
                (engine.with_rules(|rules| rules.generation), self.accepted.get(&index).unwrap_or(&self.at_start));
            if in_force != *expected {
                return Err(format!("last-good: generation {in_force} is in force at agent {index}, not {expected}"));
            }
        }
        Ok(())
    }
}
