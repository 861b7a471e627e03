//! never-over, by leases: an agent spends no unit that the store has not charged to it, and spends each in the sub-window of
//! its charge.
//!
//! Of each agent, counter and sub-window, the units of calls that leases admitted are at most those that the store
//! leased to this life of the agent, and those that it charged for calls which were not admitted by the store. A
//! sub-window is that of the store's true time. Excused: a step of the store's clock, after which the agent believes
//! the old time until it gets an answer; and agents that keep their own table, which have no leases.

use std::collections::HashMap;

use tollgate::{LocalAnswer, Source};
use tollgate_core::clock::Timestamp;
use tollgate_core::counter::CounterId;
use tollgate_core::rules::ListMatch;
use tollgate_core::window::{SubWindow, Window};
use tollgate_experiments::sim::{AnsweredCall, Observation, SimNode, Simulation};

use super::facts::Facts;

/// Time after which an agent has noticed a step of the store's clock, in ms: it asks the store each second.
const NOTICED_MS: u64 = 3_000;

/// Units that the store charged to an agent for its calls, less those of calls that the store decided.
#[derive(Default)]
pub(crate) struct Leases {
    free: HashMap<(usize, CounterId, Window, SubWindow), i64>,
    lives: HashMap<usize, u64>,
    /// Number of admissions by leases.
    pub(crate) compared: usize,
    stepped: Timestamp,
}

impl Leases {
    pub(crate) fn observe(
        &mut self,
        facts: &Facts,
        sim: &Simulation<'_>,
        observation: &Observation<'_>,
    ) -> Result<(), String> {
        match observation {
            Observation::Started(SimNode::Agent(agent)) => *self.lives.entry(*agent).or_default() += 1,
            Observation::Ended(SimNode::Agent(agent)) => self.free.retain(|(of, ..), _| of != agent),
            Observation::StoreClockStepped { .. } => self.stepped = sim.now(),
            Observation::Executed { agent, life, charges, answer: Ok(results), .. }
                if self.lives.get(agent).is_none_or(|current| current == life) =>
            {
                let charged = charges.iter().zip(results).filter(|(_, result)| result.charged && !result.repeated);
                for (charge, result) in charged.filter(|(charge, _)| charge.mode.is_enforced()) {
                    let window = charge.limit.window;
                    let key = (*agent, charge.counter, window, window.sub_window(result.at));
                    *self.free.entry(key).or_default() += signed(charge.cost.saturating_add(result.leased));
                }
            }
            Observation::Answered(answered) => return self.answered(facts, sim, answered),
            _ => {}
        }
        Ok(())
    }

    fn answered(&mut self, facts: &Facts, sim: &Simulation<'_>, answered: &AnsweredCall<'_>) -> Result<(), String> {
        let decision = &answered.decision;
        let by_lease = decision.by == Some(LocalAnswer::Lease);
        if !answered.is_admitted || !by_lease && decision.source != Source::Store || answered.call.id().is_some() {
            return Ok(());
        }
        if facts.list_match(answered.generation, &answered.call) != ListMatch::Unlisted {
            return Ok(());
        }
        let now = sim.store().time(sim.now());
        let applied = facts.applied(answered.generation, &answered.call);
        // The others are counted in any case.
        for applied in applied.into_iter().filter(|applied| !applied.counts_denials()) {
            let (window, agent, rule) = (applied.policy.window, answered.agent, &applied.rule.name);
            let mut key = (agent, applied.counter, window, window.sub_window(decision.at));
            if !by_lease {
                // A counter that was re-based after a step of the clock is charged in an earlier sub-window than others of the call.
                let enough =
                    |newest: &SubWindow| self.free.get(&(key.0, key.1, key.2, *newest)) >= Some(&signed(applied.cost));
                let earliest = key.3.saturating_sub(window.parts().into());
                key.3 = (earliest..=key.3).rev().find(enough).unwrap_or(key.3);
            }
            let free = self.free.entry(key).or_default();
            *free -= signed(applied.cost);
            if !by_lease {
                continue;
            }
            self.compared += 1;
            if *free < 0 {
                return Err(format!(
                    "never-over: agent {agent} spends {} leased units too much under `{rule}`",
                    -*free
                ));
            }
            let is_noticed = sim.now().ms_since(self.stepped) > NOTICED_MS;
            if is_noticed && window.sub_window(now) != key.3 {
                return Err(format!(
                    "never-over: agent {agent} admits by a lease at {:?} under `{rule}`, but it is {now:?}",
                    decision.at
                ));
            }
        }
        Ok(())
    }
}

fn signed(units: u64) -> i64 {
    i64::try_from(units).unwrap_or(i64::MAX)
}
