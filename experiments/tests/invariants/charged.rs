//! never-over, the other half: a call that an agent admits by the shared store is charged there, by each rule that enforces it.
//!
//! [`super::never_over`] counts the charges that the store made; an agent that admitted calls without them would pass it.
//! A request id that was charged before counts as charged. Excused: rules in shadow, and callers that share an overflow counter.

use std::collections::{BTreeMap, BTreeSet};

use tollgate::Source;
use tollgate_core::counter::CounterId;
use tollgate_experiments::sim::{AnsweredCall, Observation, Simulation, Ticket};

use super::facts::Facts;

/// Maximum number of requests that are kept; late ones are executed after their calls were answered without the store.
const REQUESTS_LEN_MAX: usize = 1_000;

/// Counters that the store charged, by request.
#[derive(Default)]
pub(crate) struct Charged {
    requests: BTreeMap<Ticket, BTreeSet<CounterId>>,
    /// Number of rules whose charges were found.
    pub(crate) compared: usize,
}

impl Charged {
    pub(crate) fn observe(
        &mut self,
        facts: &Facts,
        sim: &Simulation<'_>,
        observation: &Observation<'_>,
    ) -> Result<(), String> {
        match observation {
            Observation::Executed { ticket, charges, answer: Ok(results), .. } => {
                let made = charges.iter().zip(results).filter(|(_, result)| result.charged || result.repeated);
                let counters = made.map(|(charge, _)| charge.counter);
                self.requests.entry(*ticket).or_default().extend(counters);
                if self.requests.len() > REQUESTS_LEN_MAX {
                    self.requests.pop_first();
                }
                Ok(())
            }
            Observation::Answered(answered)
                if !sim.agents()[answered.agent].settings.owns_table && !facts.overflows() =>
            {
                self.answered(facts, answered)
            }
            _ => Ok(()),
        }
    }

    fn answered(&mut self, facts: &Facts, answered: &AnsweredCall<'_>) -> Result<(), String> {
        if !answered.is_admitted || answered.decision.source != Source::Store {
            return Ok(());
        }
        let charged = answered.ticket.and_then(|ticket| self.requests.get(&ticket));
        let applied = facts.applied(answered.generation, &answered.call);
        for applied in applied.into_iter().filter(|applied| !applied.rule.shadow) {
            if !charged.is_some_and(|charged| charged.contains(&applied.counter)) {
                let (rule, agent) = (&applied.rule.name, answered.agent);
                return Err(format!("never-over: agent {agent} admits by the store, which `{rule}` did not charge"));
            }
            self.compared += 1;
        }
        Ok(())
    }
}
