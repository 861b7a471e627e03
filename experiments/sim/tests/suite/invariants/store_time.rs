//! one-truth-of-time: the store's time lies in the interval in which each agent believes it.
//!
//! Excused: an agent whose interval a step of the store's clock made wrong, until the interval is right again. It may become
//! wrong once more as long as answers tell the old time: those on their way, and those of counters that ignore a small step
//! back and stand still until the clock has caught up.

use std::collections::BTreeSet;

use tollgate_core::clock::Timestamp;
use tollgate_sim::{Observation, SimNode, Simulation};

/// Maximum time for which an answer of the store is on its way, in ms.
const ANSWER_MS_MAX: u64 = 100;

/// Distance from both ends of an interval at which it stays right, in ms. A step of the store's clock may leave the truth
/// exactly at an end, and the drift of the agent's clock moves that end when it is rounded to the next ms.
const ROUNDING_MS: u64 = 1;

/// Agents that a step of the store's clock excuses.
#[derive(Default)]
pub(crate) struct StoreTime {
    has_stepped: bool,
    stepped_at: Timestamp,
    /// Newest time that the store's clock ever showed.
    newest: Timestamp,
    excused: BTreeSet<usize>,
}

impl StoreTime {
    pub(crate) fn observe(&mut self, observation: &Observation<'_>) {
        match observation {
            Observation::StoreClockStepped { .. } => self.has_stepped = true,
            Observation::Started(SimNode::Agent(agent)) if self.stepped_at > Timestamp::default() => {
                self.excused.insert(*agent);
            }
            _ => {}
        }
    }

    pub(crate) fn check(&mut self, sim: &Simulation<'_>) -> Result<(), String> {
        if std::mem::take(&mut self.has_stepped) {
            self.excused.extend(0..sim.agents().len());
            self.stepped_at = sim.now();
        }
        let store_now = sim.store().time(sim.now());
        let is_settled = store_now >= self.newest && sim.now().ms_since(self.stepped_at) > ANSWER_MS_MAX;
        self.newest = self.newest.max(store_now);
        for (index, agent) in sim.agents().iter().enumerate() {
            let Some(engine) = agent.engine() else { continue };
            let own_now = agent.time(sim.now());
            let truth = if agent.settings.owns_table { own_now } else { store_now };
            let bounds = engine.store_time(own_now);
            if bounds.earliest <= truth && truth <= bounds.latest {
                let is_inside =
                    bounds.earliest.plus_ms(ROUNDING_MS) <= truth && truth.plus_ms(ROUNDING_MS) <= bounds.latest;
                if is_settled && is_inside {
                    self.excused.remove(&index);
                }
            } else if !self.excused.contains(&index) {
                return Err(format!("one-truth-of-time: {truth:?} is not in {bounds:?} of agent {index}"));
            }
        }
        Ok(())
    }
}
