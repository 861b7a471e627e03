//! Backfill and refund: an agent's units reach the store once each.
//!
//! For each agent and counter, the units that its answers and corrections mean equal the units that the store executed for it,
//! whenever nothing of the agent is unsynced or waits for an answer. Excused: requests that timed out. A charge that timed
//! out is taken for made: for a call or a refund, neither side counts; for a backfill, both do. These count as the store
//! executed them: a call with a request id, one that a rule of `charge: each` denies after the other rules have charged it, and
//! several calls of one request that are not all admitted. Agents that crash take their unsynced units with them. Callers that
//! share an overflow counter and agents with their own table are not balanced.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use tollgate::Source;
use tollgate::store::StoreError;
use tollgate_core::counter::{Charge, ChargeMode, ChargeResults, CounterId};
use tollgate_core::decision::LimitStatus;
use tollgate_core::rules::ListMatch;
use tollgate_experiments::sim::{AnsweredCall, CorrectedCall, Observation, SimNode, Simulation, Ticket};

use super::facts::Facts;

/// Accounts of all agents.
#[derive(Default)]
pub(crate) struct Ledger {
    /// Units by request, as the store executed them.
    executed: HashMap<Ticket, Vec<(CounterId, i64)>>,
    /// Counters of the request for calls that was finished last.
    asked: BTreeSet<CounterId>,
    agents: BTreeMap<usize, Accounts>,
    pub(crate) balanced: usize,
}

/// Accounts of one agent.
#[derive(Default)]
struct Accounts {
    /// Units that the agent's answers mean, less those that the store executed.
    missing: BTreeMap<CounterId, i64>,
    changed: BTreeSet<CounterId>,
}

impl Ledger {
    pub(crate) fn observe(&mut self, facts: &Facts, sim: &Simulation<'_>, observation: &Observation<'_>) {
        match observation {
            Observation::Ended(SimNode::Agent(agent)) => {
                self.agents.remove(agent);
            }
            Observation::Executed { ticket, charges, answer: Ok(results) } => {
                self.executed.entry(*ticket).or_default().extend(effects_of(charges, results));
            }
            Observation::Finished { agent, ticket, charges, error } => self.finished(*agent, *ticket, charges, *error),
            Observation::Answered(answered) if !sim.agents()[answered.agent].settings.owns_table => {
                self.answered(facts, answered);
            }
            Observation::Corrected(corrected) if !sim.agents()[corrected.agent].settings.owns_table => {
                self.corrected(facts, corrected);
            }
            _ => {}
        }
    }

    fn finished(&mut self, agent: usize, ticket: Ticket, charges: &[Charge], error: Option<StoreError>) {
        if charges.iter().any(|charge| matches!(charge.mode, ChargeMode::Enforce { .. } | ChargeMode::CountOnly { .. }))
        {
            // The answers to its calls follow.
            self.asked = charges.iter().map(|charge| charge.counter).collect();
            return;
        }
        let executed = self.executed.remove(&ticket).unwrap_or_default();
        let accounts = self.agents.entry(agent).or_default();
        match error {
            None => accounts.subtract(executed),
            Some(StoreError::TimedOut) => {
                for charge in charges.iter().filter(|charge| matches!(charge.mode, ChargeMode::Backfill { .. })) {
                    accounts.enter(charge.counter, -signed(charge.cost));
                }
            }
            Some(_) => {}
        }
    }

    fn answered(&mut self, facts: &Facts, answered: &AnsweredCall<'_>) {
        let executed = answered.ticket.and_then(|ticket| self.executed.remove(&ticket)).unwrap_or_default();
        let accounts = self.agents.entry(answered.agent).or_default();
        let by_store = answered.decision.source == Source::Store;
        let applied = facts.applied(answered.generation, &answered.call);
        let denied_by = answered.decision.status.as_ref().filter(|_| !answered.decision.allowed);
        let is_counted_each = |denied_by: &LimitStatus| {
            applied.iter().any(|applied| *applied.rule.name == *denied_by.rule && applied.counts_denials())
        };
        let is_held_back = answered.is_joint && !answered.is_admitted;
        let as_executed = answered.call.id().is_some() || is_held_back || denied_by.is_some_and(is_counted_each);
        if by_store && as_executed {
            return;
        }
        if answered.error.is_none() && !is_held_back {
            accounts.subtract(executed);
        }
        // Of several calls, the store is asked only about those that have no unsynced counter.
        let was_asked = applied.iter().all(|applied| self.asked.contains(&applied.counter));
        let timed_out = answered.error == Some(StoreError::TimedOut) && was_asked;
        let is_backfilled = answered.decision.source != Source::Local && !timed_out;
        let is_listed = facts.list_match(answered.generation, &answered.call) != ListMatch::Unlisted;
        for applied in applied {
            let counts_always = applied.counts_denials() || is_listed;
            let counts = if answered.decision.allowed {
                (by_store || is_backfilled) && (!is_held_back || counts_always)
            } else {
                by_store && counts_always
            };
            if counts {
                accounts.enter(applied.counter, signed(applied.cost));
            }
        }
    }

    fn corrected(&mut self, facts: &Facts, corrected: &CorrectedCall<'_>) {
        let accounts = self.agents.entry(corrected.agent).or_default();
        for (applied, units) in facts.corrected(corrected) {
            let was_asked = corrected.charges.iter().any(|charge| charge.counter == applied.counter);
            // Units to give back are given back by the store, or at once if it was never told of them.
            if units > 0 || !was_asked || corrected.error.is_none() {
                accounts.enter(applied.counter, units);
            }
        }
    }

    pub(crate) fn check(&mut self, facts: &Facts, sim: &Simulation<'_>) -> Result<(), String> {
        if facts.overflows() {
            return Ok(());
        }
        for (index, accounts) in &mut self.agents {
            let agent = &sim.agents()[*index];
            let is_synced = |engine: &tollgate_engine::Engine| engine.held().unsynced_counters == 0;
            if accounts.changed.is_empty() || agent.pending() > 0 || !agent.engine().is_some_and(is_synced) {
                continue;
            }
            for counter in std::mem::take(&mut accounts.changed) {
                self.balanced += 1;
                let missing = accounts.missing.remove(&counter).unwrap_or_default();
                if missing != 0 {
                    return Err(format!(
                        "backfill and refund: {missing} units of {counter} of agent {index} lack in the store"
                    ));
                }
            }
        }
        Ok(())
    }

    /// Checks that nothing is left unsynced, unless the store had no room for it.
    pub(crate) fn finish(sim: &Simulation<'_>) -> Result<(), String> {
        for (index, agent) in sim.agents().iter().enumerate() {
            let unsynced = agent.engine().map_or(0, |engine| engine.held().unsynced_counters);
            let was_full = |engine: &tollgate_engine::Engine| {
                engine.metrics().store_errors().any(|(name, answers)| name == "full" && answers > 0)
            };
            if unsynced > 0 && !agent.engine().is_some_and(was_full) {
                return Err(format!("backfill: agent {index} has {unsynced} unsynced counters in the end"));
            }
        }
        Ok(())
    }
}

impl Accounts {
    fn subtract(&mut self, executed: Vec<(CounterId, i64)>) {
        for (counter, units) in executed {
            self.enter(counter, -units);
        }
    }

    fn enter(&mut self, counter: CounterId, units: i64) {
        *self.missing.entry(counter).or_default() += units;
        self.changed.insert(counter);
    }
}

/// Returns the units by which charges changed their counters.
fn effects_of(charges: &[Charge], results: &ChargeResults) -> Vec<(CounterId, i64)> {
    let made = charges.iter().zip(results).filter(|(_, result)| result.charged && !result.repeated);
    let units = |charge: &Charge| {
        let cost = signed(charge.cost);
        if matches!(charge.mode, ChargeMode::Refund { .. }) { -cost } else { cost }
    };
    made.map(|(charge, _)| (charge.counter, units(charge))).collect()
}

fn signed(units: u64) -> i64 {
    i64::try_from(units).unwrap_or(i64::MAX)
}
