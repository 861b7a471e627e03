//! Membership: an agent keeps a member that is alive. Without its heartbeats it may take the member for gone only if the
//! silence is the member's own; while nothing is heard of anybody, it is not.
//!
//! Excused: members that started or ended lately, or whose ways to the servers were cut.

use std::collections::{BTreeMap, BTreeSet};

use tollgate_core::clock::Timestamp;
use tollgate_core::messages::presence::GONE_AFTER_MS;
use tollgate_engine::AgentIds;
use tollgate_sim::{Cut, Observation, SimNode, Simulation};

/// Members by the knowledge of each agent.
#[derive(Default)]
pub(crate) struct Members {
    saved: BTreeMap<usize, AgentIds>,
    running: BTreeSet<usize>,
    /// Instant from which each agent runs and reaches the servers.
    alive_since: BTreeMap<usize, Timestamp>,
    /// Comparisons of a new membership with the one before.
    pub(crate) compared: usize,
}

impl Members {
    pub(crate) fn observe(&mut self, sim: &Simulation<'_>, observation: &Observation<'_>) -> Result<(), String> {
        let now = sim.now();
        match observation {
            Observation::Started(SimNode::Agent(agent)) => {
                self.running.insert(*agent);
                self.alive_since.insert(*agent, now);
            }
            Observation::Ended(SimNode::Agent(agent)) => {
                self.running.remove(agent);
                self.alive_since.remove(agent);
                self.saved.remove(agent);
            }
            Observation::AgentCut(agent, cut) => {
                self.alive_since.remove(agent);
                // A cut that is mended counts as a start.
                if *cut == Cut::default() && self.running.contains(agent) {
                    self.alive_since.insert(*agent, now);
                }
            }
            Observation::AgentsSaved(agent, ids) => return self.saved(now, *agent, ids),
            _ => {}
        }
        Ok(())
    }

    fn saved(&mut self, now: Timestamp, agent: usize, ids: &AgentIds) -> Result<(), String> {
        let Some(before) = self.saved.insert(agent, ids.clone()) else { return Ok(()) };
        self.compared += 1;
        for gone in before.iter().filter(|id| !ids.contains(id)) {
            let is_alive = |(_, since): &(&usize, &Timestamp)| now.ms_since(**since) > GONE_AFTER_MS;
            let member =
                self.alive_since.iter().filter(is_alive).find(|(index, _)| **gone == *format!("agent-{}", **index + 1));
            if let Some((member, since)) = member {
                return Err(format!(
                    "members: agent {agent} takes agent {member} for gone, which lives since {since:?}"
                ));
            }
        }
        Ok(())
    }
}
