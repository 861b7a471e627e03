//! never-over, by lines of credit: of the units that agents admit before the store has charged them, those that it has not
//! charged are within the maximum excess in every window.
//!
//! A unit counts from its admission until the store executes its charge. If it never does, because there is no room, or
//! because the request is lost, the unit counts for a window, also if it is backfilled later. Time is the store's true
//! time. Excused: steps of the store's clock and losses of its data, for a window after them; a change of the excess,
//! where the largest holds; and two windows after the counter has begun to follow another window, to which lines of the window before
//! add once.

use std::collections::{HashMap, HashSet};

use tollgate::LocalAnswer;
use tollgate_core::clock::Timestamp;
use tollgate_core::counter::CounterId;
use tollgate_core::rules::{LimitPolicy, ListMatch};
use tollgate_sim::{AnsweredCall, Observation, Simulation, Ticket};

use super::facts::Facts;
use super::limits_in_force::LimitsInForce;

/// Time after which agents have noticed a step of the store's clock or a loss, in ms.
const NOTICED_MS: u64 = 3_000;

/// Units that were admitted and not charged, by counter.
#[derive(Default)]
pub(crate) struct Lines {
    uncharged: HashMap<CounterId, Vec<Uncharged>>,
    /// Charges that the store has made. Its answer may be late, and the call admitted after the charge.
    charged: HashSet<(Ticket, CounterId)>,
    limits: LimitsInForce,
    /// Number of admissions by lines of credit.
    pub(crate) compared: usize,
    /// Instant after which a window is excused.
    disturbed: Option<Timestamp>,
}

struct Uncharged {
    ticket: Ticket,
    at: Timestamp,
    units: u64,
}

impl Lines {
    pub(crate) fn observe(
        &mut self,
        facts: &Facts,
        sim: &Simulation<'_>,
        observation: &Observation<'_>,
    ) -> Result<(), String> {
        match observation {
            Observation::StoreClockStepped { .. } | Observation::StoreLost(_) => self.disturbed = Some(sim.now()),
            Observation::Executed { ticket, charges, answer: Ok(results), .. } => {
                for charge in charges {
                    if let Some(limit) = sim.store().limit(charge.counter) {
                        self.limits.note((None, charge.counter), limit, sim.now());
                    }
                }
                for (charge, _) in charges.iter().zip(results).filter(|(_, result)| result.charged) {
                    self.charged.insert((*ticket, charge.counter));
                    if let Some(uncharged) = self.uncharged.get_mut(&charge.counter) {
                        uncharged.retain(|entry| entry.ticket != *ticket);
                    }
                }
            }
            Observation::Answered(answered) if answered.decision.by == Some(LocalAnswer::Allowance) => {
                return self.answered(facts, sim, answered);
            }
            _ => {}
        }
        Ok(())
    }

    /// Returns true if the store has made a charge of a request.
    pub(super) fn is_charged(&self, ticket: Ticket, counter: CounterId) -> bool {
        self.charged.contains(&(ticket, counter))
    }

    fn answered(&mut self, facts: &Facts, sim: &Simulation<'_>, answered: &AnsweredCall<'_>) -> Result<(), String> {
        if !answered.is_admitted || facts.list_match(answered.generation, &answered.call) != ListMatch::Unlisted {
            return Ok(());
        }
        let at = sim.store().time(sim.now());
        let ticket = answered.ticket.ok_or("lines: an allowance without a charge")?;
        for applied in facts.applied(answered.generation, &answered.call) {
            self.compared += 1;
            if self.is_charged(ticket, applied.counter) {
                continue;
            }
            let policies = facts.policies(&applied.rule.name, &answered.call);
            let width_ms = policies.iter().map(|policy| policy.window.width_ms()).max().unwrap_or_default();
            let in_force = self.limits.get((None, applied.counter));
            let is_changed = in_force.is_some_and(|known| {
                known.since(sim.now(), 2 * width_ms).any(|earlier| earlier.window != known.limit.window)
            });
            let excess = policies.iter().map(LimitPolicy::excess_units).max().unwrap_or_default();
            let most = if is_changed { 2 * excess } else { excess };
            let width_ms = in_force.map_or(width_ms, |known| known.limit.window.width_ms());
            let is_in_window = |entry: &Uncharged| entry.at.plus_ms(width_ms) > at;
            let uncharged = self.uncharged.entry(applied.counter).or_default();
            uncharged.push(Uncharged { ticket, at, units: applied.cost });
            uncharged.retain(is_in_window);
            let units: u64 = uncharged.iter().map(|entry| entry.units).sum();
            let is_excused = self.disturbed.is_some_and(|at| sim.now().ms_since(at) < width_ms * 2 + NOTICED_MS);
            if units > most && !is_excused {
                let (agent, rule) = (answered.agent, &applied.rule.name);
                return Err(format!(
                    "never-over: {units} of {most} uncharged units under `{rule}`, the last of agent {agent}"
                ));
            }
        }
        Ok(())
    }
}
