//! notices: the log and the state directory of an agent agree with its state.
//!
//! The store is unavailable and recovered in turns. It is recovered only once nothing is unsynced that the store has room for.
//! Excused: a backfill that lasts long, or in which the agent is paused, because the rest is then sent later. The agents of the
//! fleet are saved when they are others, at most each 10 s. A store that comes and goes is logged three times in 10 s at most,
//! and a change within 10 s. A loss of data is told only if the store has lost some.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use tollgate::store::StoreError;
use tollgate_engine::{AgentIds, Notice};
use tollgate_sim::{Observation, SimNode, Simulation};

use super::drift_ms;

/// Interval at which other agents are saved, in ms.
const SAVE_MS: u64 = 10_000;
/// Period of the throttle, in ms, and the most lines about the store in it.
const THROTTLE_MS: u64 = 10_000;
const LINES_MAX: usize = 3;

/// Time from the first answer to a backfill after which the rest may be sent later, in ms. The maintenance counts a second from the
/// ping before it.
const BACKFILL_MS: u64 = 500;

/// Notices and saved ids, by agent.
#[derive(Default)]
pub(crate) struct Notices {
    unavailable: BTreeSet<usize>,
    /// Agents whose last notice in this step was about the store.
    changed: BTreeSet<usize>,
    /// Agents with a counter that the store had no room for.
    refused: BTreeSet<usize>,
    /// Instants of the first answers to the backfills that go on, in ms.
    backfilling_since: BTreeMap<usize, u64>,
    /// Agents that were paused since they told that the store is unavailable.
    paused: BTreeSet<usize>,
    saved: BTreeMap<usize, (u64, AgentIds)>,
    has_stepped: bool,
    /// Number of losses of the store's data, and of them that each agent has told.
    losses: usize,
    told: BTreeMap<usize, usize>,
    /// Instants of the last lines about the store, in ms.
    lines: BTreeMap<usize, VecDeque<u64>>,
    /// Instants since which the state differs from the last line, in ms.
    untold_since: BTreeMap<usize, u64>,
    /// Instants at which each agent was last seen with the store and without it, in ms.
    seen: BTreeMap<(usize, bool), u64>,
    /// Agents whose next line follows others that were held back.
    held_back: BTreeSet<usize>,
}

impl Notices {
    pub(crate) fn observe(&mut self, sim: &Simulation<'_>, observation: &Observation<'_>) -> Result<(), String> {
        match observation {
            Observation::Ended(SimNode::Agent(agent)) => {
                self.unavailable.remove(agent);
                self.changed.remove(agent);
                self.refused.remove(agent);
                self.backfilling_since.remove(agent);
                self.paused.remove(agent);
                self.saved.remove(agent);
                self.lines.remove(agent);
                self.held_back.remove(agent);
            }
            Observation::Finished { agent, charges, error: Some(StoreError::Full), .. }
                if charges.iter().all(|charge| charge.counter == charges[0].counter) =>
            {
                self.refused.insert(*agent);
            }
            Observation::Finished { agent, is_backfill: true, error: None, .. } if self.unavailable.contains(agent) => {
                self.backfilling_since.entry(*agent).or_insert(sim.now().as_ms());
            }
            Observation::Finished { agent, is_backfill: true, .. } => {
                self.backfilling_since.remove(agent);
            }
            Observation::AgentPaused(agent, _) if self.unavailable.contains(agent) => {
                self.paused.insert(*agent);
            }
            Observation::StoreClockStepped { .. } => self.has_stepped = true,
            Observation::StoreLost(_) => self.losses += 1,
            Observation::Notified(agent, notice) => {
                let is_in_turn = match notice {
                    Notice::StoreUnavailable(_) => self.unavailable.insert(*agent),
                    Notice::StoreRecovered => self.unavailable.remove(agent),
                    Notice::HeldBack { .. } => {
                        self.held_back.insert(*agent);
                        return Ok(());
                    }
                    // A counter expires while the store's clock is ahead, and the clock steps back.
                    Notice::CountersLost if self.has_stepped || self.losses > 0 => return Ok(()),
                    Notice::StoreLost if self.tells_loss(*agent) => return Ok(()),
                    Notice::StoreLost | Notice::CountersLost => {
                        return Err(format!("notices: agent {agent}: {notice}; the store has lost nothing"));
                    }
                    _ => {
                        self.held_back.remove(agent);
                        return Ok(());
                    }
                };
                self.count_line(*agent, sim.now().as_ms())?;
                self.changed.insert(*agent);
                let engine = sim.agents()[*agent].engine();
                let has_unsynced = engine.is_some_and(tollgate_engine::Engine::has_unsynced);
                let may_be_unsynced =
                    *notice != Notice::StoreRecovered || self.may_be_unsynced(*agent, sim.now().as_ms());
                // A notice that was held back is late: it may repeat the state that was told last.
                let is_in_time = !self.held_back.remove(agent);
                if is_in_time && (!is_in_turn || (has_unsynced && !may_be_unsynced)) {
                    return Err(format!("notices: agent {agent}: {notice}; unsynced units: {has_unsynced}"));
                }
            }
            Observation::AgentsSaved(agent, agents) => {
                let now = sim.now().as_ms();
                // An agent that ended in the same step knows nothing.
                let engine = sim.agents()[*agent].engine();
                let known = engine.map_or(Some(agents.clone()), tollgate_engine::Engine::known_agents);
                let before = self.saved.insert(*agent, (now, agents.clone()));
                let is_due = before
                    .as_ref()
                    .is_none_or(|(at, before)| now + drift_ms(SAVE_MS) >= at + SAVE_MS && before != agents);
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

    /// Returns true if units of an agent that has found the store again may be unsynced.
    fn may_be_unsynced(&mut self, agent: usize, now: u64) -> bool {
        let (is_refused, was_paused) = (self.refused.remove(&agent), self.paused.remove(&agent));
        let was_long = self.backfilling_since.remove(&agent).is_some_and(|since| now >= since + BACKFILL_MS);
        is_refused || was_paused || was_long
    }

    /// Counts a notice about a loss of the whole store. Returns true if there were so many losses.
    fn tells_loss(&mut self, agent: usize) -> bool {
        let told = self.told.entry(agent).or_default();
        *told += 1;
        *told <= self.losses
    }

    fn count_line(&mut self, agent: usize, now: u64) -> Result<(), String> {
        let lines = self.lines.entry(agent).or_default();
        lines.retain(|at| *at + THROTTLE_MS > now + drift_ms(THROTTLE_MS));
        lines.push_back(now);
        if lines.len() > LINES_MAX {
            return Err(format!("notices: agent {agent} logs the store {} times within 10 s: {lines:?}", lines.len()));
        }
        Ok(())
    }

    /// Checks that the last notice about the store is true, and that no change is told later than the throttle allows.
    pub(crate) fn check(&mut self, sim: &Simulation<'_>) -> Result<(), String> {
        let now = sim.now().as_ms();
        for (index, agent) in sim.agents().iter().enumerate() {
            let is_degraded = agent.engine().is_some_and(tollgate_engine::Engine::is_degraded);
            self.seen.insert((index, is_degraded), now);
            let was_told = self.changed.remove(&index);
            if is_degraded == self.unavailable.contains(&index) {
                self.untold_since.remove(&index);
                continue;
            }
            let since = *self.untold_since.entry(index).or_insert(now);
            // The state that was told may have ended at the same instant, and its end may be held back.
            let is_stale = was_told && self.seen.get(&(index, !is_degraded)) != Some(&now);
            // A shell sleeps for at least 1 ms.
            if is_stale || now > since + THROTTLE_MS + 1 + drift_ms(THROTTLE_MS) {
                return Err(format!("notices: agent {index} does not decide as its log tells: {is_degraded}"));
            }
        }
        Ok(())
    }
}
