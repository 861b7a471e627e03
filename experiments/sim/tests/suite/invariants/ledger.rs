//! Backfill and refund: an agent's units reach the store once each.
//!
//! For each agent and counter, the units that its answers and corrections mean equal the units that the store executed
//! for it, whenever nothing of the agent is unsynced or waits for an answer, in time or late. If the answer to a
//! request is lost, the agent backfills what it admitted, so what the store executed for that request does not count.
//! Leased units are left to [`super::leases`], and so are those of a late charge that stands for no call: where the
//! agent may lease, it spends or refunds them, and else it refunds them. Such a refund is sent once; if its answer is
//! lost, it counts as made. These count as the store executed them: a call with a request id, which the store charges
//! once however the agent learns of it; one that a rule of `charge: each` denies after the other rules have charged it;
//! and several calls of one request that are not all admitted. After a release that failed, the slots of its counter
//! are not balanced, nor are they after a call that was denied or held back: what it was charged is given back, at a
//! time that the agent chooses. Agents that crash take their unsynced units with them. Callers that the sketch
//! counts and agents with their own table are not balanced.

use std::collections::{BTreeMap, HashMap, HashSet};

use tollgate::store::StoreError;
use tollgate::{LocalAnswer, Source};
use tollgate_core::algorithm::Algorithm;
use tollgate_core::clock::Timestamp;
use tollgate_core::counter::{Charge, ChargeMode, ChargeResults, CounterId, DigestKey, RequestId};
use tollgate_core::decision::LimitStatus;
use tollgate_core::rules::ListMatch;
use tollgate_sim::{AnsweredCall, CorrectedCall, Observation, SimNode, Simulation, Ticket};

use super::accounts::{Accounts, Effect, effect_of, signed, take};
use super::facts::{Facts, is_by_store};

/// Accounts of all agents.
#[derive(Default)]
pub(crate) struct Ledger {
    /// Effects of the requests that the store executed.
    executed: HashMap<Ticket, Vec<Effect>>,
    /// Units of calls that were decided while their request was late, by request and counter.
    decided_late: HashMap<Ticket, BTreeMap<CounterId, i64>>,
    /// Backfill requests that the agent has given up, which the store may execute later.
    given_up: HashSet<Ticket>,
    /// Ids of calls.
    named: HashSet<RequestId>,
    /// Ids of the units that were backfilled, and the last charge of them.
    backfilled: HashMap<(CounterId, RequestId), Known>,
    leasing: HashSet<CounterId>,
    /// Ids of refunds, and the last time that they were made.
    refunded: HashMap<(CounterId, RequestId), Known>,
    losses: usize,
    /// Number of starts of each agent, and the last start whose life has ended.
    lives: BTreeMap<usize, u64>,
    ended: BTreeMap<usize, u64>,
    agents: BTreeMap<usize, Accounts>,
    pub(crate) balanced: usize,
}

/// Instant at which the store executed a charge with an id, and the number of losses before it.
type Known = (Timestamp, usize);

impl Ledger {
    pub(crate) fn observe(&mut self, facts: &Facts, sim: &Simulation<'_>, observation: &Observation<'_>) {
        match observation {
            Observation::Ended(SimNode::Agent(agent)) => {
                self.agents.remove(agent);
                self.ended.insert(*agent, self.lives.get(agent).copied().unwrap_or_default());
            }
            Observation::Started(SimNode::Agent(agent)) => *self.lives.entry(*agent).or_default() += 1,
            Observation::Executed { agent, life, ticket, charges, answer: Ok(results), .. }
                if self.ended.get(agent).is_none_or(|ended| life > ended) =>
            {
                self.executed(*agent, *ticket, charges, results);
            }
            // Charges without an id are made again, and count as made once.
            Observation::Renewed(ticket) => {
                let executed = self.executed.entry(*ticket).or_default();
                executed.retain(|effect| effect.charge.request.is_some());
            }
            Observation::Finished { agent, ticket, charges, is_backfill, error } => {
                self.finished(*agent, *ticket, charges, *is_backfill, *error);
            }
            Observation::StoreLost(_) => self.losses += 1,
            Observation::LateAnswer { agent, ticket, error } => self.answered_late(*agent, *ticket, *error),
            Observation::Answered(answered) if !sim.agents()[answered.agent].settings.owns_table => {
                self.answered(facts, answered);
            }
            Observation::Corrected(corrected) if !sim.agents()[corrected.agent].settings.owns_table => {
                self.corrected(facts, corrected);
            }
            _ => {}
        }
    }

    /// Enters executed charges: units that are backfilled under an id at once, because the store executes them once; other
    /// units, and refunds, when the agent learns of them.
    fn executed(&mut self, agent: usize, ticket: Ticket, charges: &[Charge], results: &ChargeResults) {
        // Units that are opened again were executed before.
        let is_entered = |charge: &Charge| !matches!(charge.mode, ChargeMode::Reopen { .. });
        for effect in charges.iter().zip(results).filter(|(charge, _)| is_entered(charge)).filter_map(effect_of) {
            let (counter, width_ms) = (effect.charge.counter, effect.charge.limit.window.width_ms());
            // The store forgets an id with the window of its units, at once if its clock steps forward, and with a loss. The window may
            // be a shorter one, of other rules.
            let (at, losses, is_of_window) = (effect.at, self.losses, effect.is_of_window);
            // The id of a slot ends with the slot, which may be over when it is backfilled.
            let is_slot = effect.charge.limit.algorithm == Algorithm::Concurrency;
            let known_at = |admitted_at: Timestamp| if is_slot { at.min(admitted_at) } else { at };
            let is_again = |known: Option<Known>| {
                known.is_some_and(|(known, before)| at.ms_since(known) >= width_ms || losses > before || !is_of_window)
            };
            if let (ChargeMode::Refund { .. }, Some(id)) = (effect.charge.mode, effect.charge.request)
                && is_again(self.refunded.insert((counter, id), (at, losses)))
            {
                continue;
            }
            match (effect.charge.mode, effect.charge.request) {
                (ChargeMode::Refund { .. }, Some(_)) if self.given_up.contains(&ticket) => {
                    self.agents.entry(agent).or_default().enter(effect.charge.counter, -effect.units);
                }
                (ChargeMode::Refund { .. }, _) | (_, None) => self.executed.entry(ticket).or_default().push(effect),
                (ChargeMode::Backfill { at: admitted_at }, Some(id))
                    if !self.named.contains(&id)
                        && !is_again(self.backfilled.insert((counter, id), (known_at(admitted_at), losses))) =>
                {
                    self.agents.entry(agent).or_default().enter(counter, -effect.units);
                }
                _ => {}
            }
        }
    }

    fn finished(
        &mut self,
        agent: usize,
        ticket: Ticket,
        charges: &[Charge],
        is_backfill: bool,
        error: Option<StoreError>,
    ) {
        let is_check = |charge: &Charge| charge.mode.expires_at().is_some();
        // The answers to calls follow.
        if charges.iter().any(is_check) || error == Some(StoreError::TimedOut) && !is_backfill {
            return;
        }
        let executed = self.executed.remove(&ticket).unwrap_or_default();
        let accounts = self.agents.entry(agent).or_default();
        match error {
            None => {
                for effect in &executed {
                    if !accounts.is_of_spare(&effect.charge) {
                        accounts.enter(effect.charge.counter, -effect.units);
                    }
                }
            }
            // A refund that names its request is repeated, and made once; another one is given up.
            Some(error) if is_backfill && error.may_have_charged() => {
                let is_refund = |charge: &Charge| matches!(charge.mode, ChargeMode::Refund { .. });
                for charge in charges.iter().filter(|charge| is_refund(charge) && charge.request.is_none()) {
                    if !accounts.is_of_spare(charge) {
                        accounts.enter(charge.counter, signed(charge.cost));
                    }
                }
                for Effect { charge, units, .. } in executed.iter().filter(|effect| is_refund(&effect.charge)) {
                    if charge.request.is_some() {
                        accounts.enter(charge.counter, -units);
                    }
                }
                self.given_up.insert(ticket);
            }
            Some(_) => {}
        }
    }

    /// Enters units that are only counted, which stay although the call was denied. A refund was answered with an error
    /// and counts as none.
    fn answered_late(&mut self, agent: usize, ticket: Ticket, error: Option<StoreError>) {
        let mut executed = self.executed.remove(&ticket).unwrap_or_default();
        let mut decided = self.decided_late.remove(&ticket).unwrap_or_default();
        if error.is_some() {
            return;
        }
        let accounts = self.agents.entry(agent).or_default();
        // Units of callers on a list stand for their calls alone.
        executed.sort_by_key(|effect| !matches!(effect.charge.mode, ChargeMode::CountOnly { .. }));
        for Effect { charge, units, at, .. } in executed {
            let units = match charge.mode {
                ChargeMode::CountOnly { .. } => take(&mut decided, charge.counter, units),
                ChargeMode::Refund { .. } => 0,
                ChargeMode::Enforce { .. } | ChargeMode::Lease { .. } if self.leasing.contains(&charge.counter) => {
                    let stands = take(&mut decided, charge.counter, units);
                    *accounts.spare.entry((charge.counter, at)).or_default() += units - stands;
                    stands
                }
                _ => units,
            };
            accounts.enter(charge.counter, -units);
        }
    }

    fn answered(&mut self, facts: &Facts, answered: &AnsweredCall<'_>) {
        if let Some(id) = answered.call.id() {
            // The store knows what its requests charged.
            let (cost, descriptors) = (answered.call.cost(), answered.call.descriptors());
            self.named.insert(DigestKey::default().request(id, cost, descriptors));
            return;
        }
        let is_late = answered.error == Some(StoreError::TimedOut);
        let executed = answered.ticket.filter(|_| !is_late).and_then(|ticket| self.executed.remove(&ticket));
        let accounts = self.agents.entry(answered.agent).or_default();
        let by_store = is_by_store(answered);
        let mut applied = facts.applied(answered.generation, &answered.call);
        applied.retain(|applied| !applied.is_eventual());
        let denied_by = answered.decision.status.as_ref().filter(|_| !answered.decision.allowed);
        let is_counted_each = |denied_by: &LimitStatus| {
            applied.iter().any(|applied| *applied.rule.name == *denied_by.rule && applied.counts_denials())
        };
        let leasing = applied.iter().filter(|applied| applied.policy.may_lease());
        self.leasing.extend(leasing.map(|applied| applied.counter));
        let is_held_back = answered.is_joint && !answered.is_admitted;
        if !answered.decision.allowed || is_held_back {
            let slots = applied.iter().filter(|applied| applied.policy.algorithm == Algorithm::Concurrency);
            accounts.uncertain.extend(slots.map(|applied| applied.counter));
        }
        if by_store && (is_held_back || denied_by.is_some_and(is_counted_each)) {
            return;
        }
        let is_executed = is_held_back && answered.error.is_none();
        if answered.error.is_none() && !is_held_back {
            executed.iter().flatten().for_each(|effect| accounts.enter(effect.charge.counter, -effect.units));
        }
        let list_match = facts.list_match(answered.generation, &answered.call);
        let is_listed = list_match != ListMatch::Unlisted;
        let is_rejected = matches!(list_match, ListMatch::Denied(_));
        for applied in applied {
            let counts_always = applied.counts_denials() || is_listed;
            let (source, by) = answered.decided_by(applied.counter);
            let is_asked = source != Source::Local || answered.follows(applied.counter);
            let counts = if answered.decision.allowed {
                is_asked && by != Some(LocalAnswer::Lease) && (!is_held_back || counts_always)
            } else {
                // Without the store, a rule does not count the calls that it denies itself.
                let is_denied_by = |status: &LimitStatus| *status.rule == *applied.rule.name;
                counts_always && !is_rejected && (by_store || !denied_by.is_some_and(is_denied_by))
            };
            if counts && !(is_executed && answered.follows(applied.counter)) {
                let units = signed(answered.asked(applied.counter, applied.cost));
                accounts.enter(applied.counter, units);
                if let Some(ticket) = answered.ticket.filter(|_| is_late) {
                    *self.decided_late.entry(ticket).or_default().entry(applied.counter).or_default() += units;
                }
            }
        }
    }

    fn corrected(&mut self, facts: &Facts, corrected: &CorrectedCall<'_>) {
        let accounts = self.agents.entry(corrected.agent).or_default();
        for (applied, units) in facts.corrected(corrected).into_iter().filter(|(applied, _)| !applied.is_eventual()) {
            if corrected.units.is_none() && corrected.error.is_some() {
                accounts.uncertain.insert(applied.counter);
            }
            if accounts.unnamed.may_drop(corrected, &applied, units) {
                accounts.uncertain.insert(applied.counter);
            }
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
                if missing != 0 && !accounts.uncertain.contains(&counter) {
                    return Err(format!(
                        "backfill and refund: {missing} units of {counter} of agent {index} lack in the store"
                    ));
                }
            }
        }
        Ok(())
    }

    /// Checks that nothing is left unsynced. Excused: a full store. After a glitch of its clock, which nothing expires
    /// before the clock shows the same time again, it may have no room for long.
    pub(crate) fn finish(facts: &Facts, sim: &Simulation<'_>) -> Result<(), String> {
        if sim.store().counters() >= facts.counters_max() {
            return Ok(());
        }
        for (index, agent) in sim.agents().iter().enumerate() {
            let unsynced = agent.engine().map_or(0, |engine| engine.held().unsynced_counters);
            let units = agent.engine().map_or(0, |engine| engine.metrics().unsynced_units.get());
            if unsynced > 0 || units > 0 {
                return Err(format!("backfill: agent {index} has {units} units of {unsynced} counters in the end"));
            }
        }
        Ok(())
    }
}
