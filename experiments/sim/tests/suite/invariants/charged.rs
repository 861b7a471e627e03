//! never-over, the other half: a call that an agent admits is charged by the shared store, by each rule that enforces
//! it, whoever decided it and however late the store is.
//!
//! [`super::never_over`] counts the charges that the store made; an agent that admitted calls without them would pass it. So
//! while the breaker of an agent is closed, it admits no call before the store has charged it, except a late one within its part
//! under `bounded`. A request id that was charged before counts as charged. Excused: rules in shadow or with `on_failure: open`, callers on a list, callers that
//! the sketch counts, calls of an agent that takes the store for down, and those of an agent with unsynced units:
//! a counter with more units than a call carries is decided without the store until they are sent.
//!
//! The store is never charged by a rule under `consistency: eventual`.

use std::collections::{BTreeMap, BTreeSet};

use tollgate::store::StoreError;
use tollgate::{LocalAnswer, Source};
use tollgate_core::clock::Timestamp;
use tollgate_core::counter::CounterId;
use tollgate_core::rules::{Consistency, ListMatch, OnFailure};
use tollgate_engine::Engine;
use tollgate_sim::{AnsweredCall, Observation, Simulation, Ticket};

use super::facts::{Applied, Facts, is_by_store};

/// Maximum number of requests that are kept; late ones are executed after their calls were answered without the store.
const REQUESTS_LEN_MAX: usize = 1_000;

/// Counters that the store charged, by request.
#[derive(Default)]
pub(crate) struct Charged {
    requests: BTreeMap<Ticket, BTreeSet<CounterId>>,
    /// All counters of which the store was asked to charge one.
    asked: BTreeSet<CounterId>,
    /// Number of rules whose charges were found.
    pub(crate) compared: usize,
    /// Calls whose charge was a part of one for several.
    pub(crate) coalesced: usize,
    /// Number of calls that were decided before a late answer.
    pub(crate) late: usize,
    /// Last instant at which the breaker of each agent was seen open.
    open_at: Vec<Timestamp>,
    /// Agents with unsynced units.
    unsynced: BTreeSet<usize>,
}

impl Charged {
    /// Notes which breakers are open. It is called after each step, because a call may be decided without the store in
    /// a step that nothing is observed of.
    pub(crate) fn note_breakers(&mut self, sim: &Simulation<'_>) {
        self.open_at.resize(sim.agents().len(), Timestamp::default());
        for (index, (agent, open_at)) in sim.agents().iter().zip(&mut self.open_at).enumerate() {
            if agent.engine().is_none_or(Engine::is_degraded) {
                *open_at = sim.now();
            }
            if agent.engine().is_some_and(Engine::has_unsynced) {
                self.unsynced.insert(index);
            } else {
                self.unsynced.remove(&index);
            }
        }
    }

    pub(crate) fn observe(
        &mut self,
        facts: &Facts,
        sim: &Simulation<'_>,
        observation: &Observation<'_>,
    ) -> Result<(), String> {
        if let Observation::Executed { charges, .. } = observation {
            self.asked.extend(charges.iter().map(|charge| charge.counter));
        }
        match observation {
            Observation::Executed { ticket, charges, answer: Ok(results), is_part, .. } => {
                self.coalesced += usize::from(*is_part);
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
        let (eventual, applied): (Vec<_>, Vec<_>) =
            facts.applied(answered.generation, &answered.call).into_iter().partition(Applied::is_eventual);
        if let Some(applied) = eventual.iter().find(|applied| self.asked.contains(&applied.counter)) {
            return Err(format!("charged: the store was asked about `{}`, which is eventual", applied.rule.name));
        }
        self.late += usize::from(answered.error == Some(StoreError::TimedOut));
        if !answered.is_admitted || answered.decision.source == Source::Local || applied.is_empty() {
            return Ok(());
        }
        if !is_by_store(answered) {
            return self.decided_without_store(facts, answered);
        }
        let charged = answered.ticket.and_then(|ticket| self.requests.get(&ticket));
        let is_asked = |applied: &Applied| !applied.rule.shadow && answered.asked(applied.counter, 1) > 0;
        for applied in applied.into_iter().filter(is_asked) {
            if !charged.is_some_and(|charged| charged.contains(&applied.counter)) {
                let (rule, agent) = (&applied.rule.name, answered.agent);
                return Err(format!("never-over: agent {agent} admits by the store, which `{rule}` did not charge"));
            }
            self.compared += 1;
        }
        Ok(())
    }

    /// Checks a call that was admitted by signals or by `on_failure`: while the store is only late, no rule but an eventual one
    /// and one with `on_failure: open` admits it so.
    fn decided_without_store(&self, facts: &Facts, answered: &AnsweredCall<'_>) -> Result<(), String> {
        // A call of a joint request may be decided while the breaker is open for its deadline, and answered after
        // another call of the request, when the breaker has closed.
        let is_down = self.open_at[answered.agent] >= answered.arrived;
        let is_excused = is_down || self.unsynced.contains(&answered.agent);
        if is_excused || facts.list_match(answered.generation, &answered.call) != ListMatch::Unlisted {
            return Ok(());
        }
        let applied = facts.applied(answered.generation, &answered.call);
        let needs_charge = |applied: &&Applied| {
            let by = answered.decided_by(applied.counter).1;
            let is_bounded = applied.policy.consistency == Consistency::Bounded;
            let may_admit = by == Some(LocalAnswer::Lease) || by == Some(LocalAnswer::Part) && is_bounded;
            let is_open = applied.policy.on_failure == OnFailure::Open;
            !(applied.rule.shadow || applied.is_eventual() || is_open || may_admit)
        };
        if let Some(applied) = applied.iter().find(needs_charge) {
            let (rule, agent, error) = (&applied.rule.name, answered.agent, answered.error);
            return Err(format!("never-over: agent {agent} admits without a charge under `{rule}`, {error:?}"));
        }
        Ok(())
    }
}
