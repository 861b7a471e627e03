//! no-wait and stand-alone: every call is answered, within the deadline of its rules, whatever is missing.
//!
//! Excused: calls that wait for the store while their agent crashes or is not scheduled.

use std::collections::BTreeMap;

use tollgate::Source;
use tollgate_core::clock::Timestamp;
use tollgate_sim::{Observation, SimNode, Simulation};

use super::facts::Facts;

/// Longest deadline of the rules in use, in ms.
const DEADLINE_MS_MAX: u128 = 15;

/// Calls by agent.
#[derive(Default)]
pub(crate) struct Answers {
    open: BTreeMap<usize, usize>,
    answered: usize,
    lost_in_crashes: usize,
    by_source: BTreeMap<Source, usize>,
    paused_until: BTreeMap<usize, Timestamp>,
}

impl Answers {
    pub(crate) fn arrive(&mut self, agent: usize, calls: usize) {
        *self.open.entry(agent).or_default() += calls;
    }

    pub(crate) fn observe(&mut self, facts: &Facts, observation: &Observation<'_>) -> Result<(), String> {
        let answered = match observation {
            Observation::Ended(SimNode::Agent(agent)) => {
                self.lost_in_crashes += self.open.remove(agent).unwrap_or_default();
                return Ok(());
            }
            Observation::AgentPaused(agent, until) => {
                let known = self.paused_until.entry(*agent).or_default();
                *known = until.max(known).to_owned();
                return Ok(());
            }
            Observation::Answered(answered) => answered,
            _ => return Ok(()),
        };
        self.answered += 1;
        *self.by_source.entry(answered.decision.source).or_default() += 1;
        let open = self.open.entry(answered.agent).or_default();
        *open = open.checked_sub(1).ok_or("stand-alone: a call was answered twice")?;
        let applied = facts.applied(answered.generation, &answered.call);
        let shortest = applied.iter().map(|applied| applied.policy.deadline).min().unwrap_or_default();
        // Calls of one request wait for each other.
        let deadline_ms = if answered.is_joint { DEADLINE_MS_MAX } else { shortest.as_millis() };
        let took_ms = answered.answered.ms_since(answered.arrived);
        let was_paused = self.paused_until.get(&answered.agent).is_some_and(|until| *until >= answered.arrived);
        if u128::from(took_ms) > deadline_ms && !was_paused {
            return Err(format!("no-wait: a call took {took_ms} ms, its deadline is {deadline_ms} ms"));
        }
        Ok(())
    }

    /// Checks that every call has an answer and every request has ended. Excused: backfills that a full store refuses, which
    /// agents repeat.
    pub(crate) fn finish(&self, facts: &Facts, sim: &Simulation<'_>) -> Result<(), String> {
        let open: usize = self.open.values().sum();
        let pending: usize = sim.agents().iter().map(tollgate_sim::SimAgent::pending).sum();
        let is_full = sim.store().counters() >= facts.counters_max();
        if open > 0 || pending > 0 && !is_full {
            return Err(format!("stand-alone: {open} calls have no answer, {pending} requests no end"));
        }
        Ok(())
    }

    pub(crate) fn answered(&self) -> usize {
        self.answered
    }

    pub(crate) fn lost_in_crashes(&self) -> usize {
        self.lost_in_crashes
    }

    pub(crate) fn by_source(&self) -> &BTreeMap<Source, usize> {
        &self.by_source
    }
}
