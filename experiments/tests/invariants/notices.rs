//! notices: the log and the state directory of an agent agree with its state. The store is unavailable and recovered in turns,
//! and recovered only once nothing is unsynced that the store has room for; the agents of the fleet are saved when they are others,
//! at most each 10 s.

use std::collections::{BTreeMap, BTreeSet};

use tollgate::store::StoreError;
use tollgate_engine::{AgentIds, Notice};
use tollgate_experiments::sim::{Observation, SimNode, Simulation};

/// Interval at which other agents are saved, in ms.
const SAVE_MS: u64 = 10_000;

/// Notices and saved ids, by agent.
#[derive(Default)]
pub(crate) struct Notices {
    unavailable: BTreeSet<usize>,
    /// Agents whose last notice in this step was about the store.
    changed: BTreeSet<usize>,
    /// Agents with a counter that the store had no room for.
    refused: BTreeSet<usize>,
    saved: BTreeMap<usize, (u64, AgentIds)>,
}

impl Notices {
    pub(crate) fn observe(&mut self, sim: &Simulation<'_>, observation: &Observation<'_>) -> Result<(), String> {
        match observation {
            Observation::Ended(SimNode::Agent(agent)) => {
                self.unavailable.remove(agent);
                self.changed.remove(agent);
                self.refused.remove(agent);
                self.saved.remove(agent);
            }
            Observation::Finished { agent, charges, error: Some(StoreError::Full), .. }
                if charges.iter().all(|charge| charge.counter == charges[0].counter) =>
            {
                self.refused.insert(*agent);
            }
            Observation::Notified(agent, notice) => {
                let is_in_turn = match notice {
                    Notice::StoreUnavailable(_) => self.unavailable.insert(*agent),
                    Notice::StoreRecovered => self.unavailable.remove(agent),
                    _ => return Ok(()),
                };
                self.changed.insert(*agent);
                let engine = sim.agents()[*agent].engine();
                let has_unsynced = engine.is_some_and(tollgate_engine::Engine::has_unsynced);
                let may_be_unsynced = *notice != Notice::StoreRecovered || self.refused.remove(agent);
                if !is_in_turn || (has_unsynced && !may_be_unsynced) {
                    return Err(format!("notices: agent {agent}: {notice}; unsynced units: {has_unsynced}"));
                }
            }
            Observation::AgentsSaved(agent, agents) => {
                let now = sim.now().as_ms();
                let known = sim.agents()[*agent].engine().and_then(tollgate_engine::Engine::known_agents);
                let before = self.saved.insert(*agent, (now, agents.clone()));
                let is_due = before.as_ref().is_none_or(|(at, before)| now >= at + SAVE_MS && before != agents);
                if !is_due || known.as_ref() != Some(agents) || agents.len() > sim.agents().len() {
                    return Err(format!(
                        "notices: agent {agent} saves {agents:?} after {before:?}, and knows {known:?}"
                    ));
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// Checks that the last notice about the store is true.
    pub(crate) fn check(&mut self, sim: &Simulation<'_>) -> Result<(), String> {
        for agent in std::mem::take(&mut self.changed) {
            let is_degraded = sim.agents()[agent].engine().is_some_and(tollgate_engine::Engine::is_degraded);
            if is_degraded != self.unavailable.contains(&agent) {
                return Err(format!("notices: agent {agent} does not decide as its log tells: {is_degraded}"));
            }
        }
        Ok(())
    }
}
