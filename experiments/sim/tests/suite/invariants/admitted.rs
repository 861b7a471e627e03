//! never-over, as callers see it: of a rule with the conservative estimate or a log, no window holds more admissions than the
//! quota while the store answers, however each call was decided; under `bounded`, no more than the quota and the maximum excess.
//!
//! An admission counts at the instant of its decision, and one by a line of credit not later than the store's true time, because
//! an agent knows this time within bounds only. Repeated requests count once. The limit is the one that the counter follows, and
//! after a change of the quota the largest of the last two windows. Excused: windows that contain an admission without the store;
//! two windows after steps of the store's clock and losses of its data; and windows that may contain a unit of a lease or a line of
//! another window. These remain at agents that have not received the change, for at most a sub-window. Calls with a request id,
//! whose charge may be older than their decision, and agents with an own table are left to `never_over`.

use std::collections::HashMap;

use tollgate::LocalAnswer;
use tollgate_core::algorithm::Algorithm;
use tollgate_core::clock::Timestamp;
use tollgate_core::counter::{ChargeMode, CounterId};
use tollgate_core::rules::{Consistency, LimitPolicy, ListMatch};
use tollgate_core::window::Estimate;
use tollgate_sim::{AnsweredCall, Observation, Simulation};

use super::facts::{Facts, is_by_store};
use super::limits_in_force::LimitsInForce;

/// Time after which agents have noticed a step of the store's clock or a loss, in ms.
const NOTICED_MS: u64 = 3_000;

/// Admissions by counter.
#[derive(Default)]
pub(crate) struct Admitted {
    counters: HashMap<CounterId, AdmittedUnits>,
    limits: LimitsInForce,
    /// Instant of true time at which the store was disturbed last.
    disturbed: Option<Timestamp>,
    /// Number of admissions under strict and under bounded rules that were compared with the bound.
    pub(crate) strict: usize,
    pub(crate) bounded: usize,
    /// Number of those on a counter whose window has changed before.
    pub(crate) after_changes: usize,
}

#[derive(Default)]
struct AdmittedUnits {
    /// Instants of store time, and units; those that were given back are negative.
    units: Vec<(Timestamp, i64)>,
    /// Last instant of store time of an admission without the store.
    excused: Option<Timestamp>,
}

impl Admitted {
    pub(crate) fn observe(
        &mut self,
        facts: &Facts,
        sim: &Simulation<'_>,
        observation: &Observation<'_>,
    ) -> Result<(), String> {
        match observation {
            Observation::StoreClockStepped { .. } => {
                self.disturbed = Some(sim.now());
                // Their instants are those of the clock before the step.
                self.counters.clear();
            }
            Observation::StoreLost(_) => self.disturbed = Some(sim.now()),
            Observation::Executed { charges, answer: Ok(results), .. } => {
                for (charge, result) in charges.iter().zip(results) {
                    if let Some(limit) = sim.store().limit(charge.counter) {
                        self.limits.note((None, charge.counter), limit, sim.now());
                    }
                    // A settlement; other refunds are of calls that were denied.
                    if let (ChargeMode::Refund { at }, Some(_), true) =
                        (charge.mode, charge.request, result.charged && !result.repeated)
                    {
                        let counter = self.counters.entry(charge.counter).or_default();
                        counter.units.push((at, -signed(charge.cost)));
                    }
                }
            }
            Observation::Answered(answered) if answered.is_admitted => return self.answered(facts, sim, answered),
            _ => {}
        }
        Ok(())
    }

    fn answered(&mut self, facts: &Facts, sim: &Simulation<'_>, answered: &AnsweredCall<'_>) -> Result<(), String> {
        let owns_table = sim.agents()[answered.agent].settings.owns_table;
        let is_unlisted = facts.list_match(answered.generation, &answered.call) == ListMatch::Unlisted;
        if owns_table || facts.overflows() || !is_unlisted || answered.call.id().is_some() {
            return Ok(());
        }
        let decision = &answered.decision;
        let is_by_charge = is_by_store(answered) || decision.by.is_some();
        let shown = sim.store().time(answered.answered);
        let is_drawn = decision.by == Some(LocalAnswer::Allowance);
        let at = if is_drawn { decision.at.min(shown) } else { decision.at };
        for applied in facts.applied(answered.generation, &answered.call) {
            let policies = facts.policies(&applied.rule.name, &answered.call);
            if applied.counts_denials() || !policies.iter().all(is_stated) {
                continue;
            }
            let widest_ms = policies.iter().map(|policy| policy.window.width_ms()).max().unwrap_or_default();
            let counter = self.counters.entry(applied.counter).or_default();
            if !is_by_charge {
                counter.excused = counter.excused.max(Some(decision.at.max(shown)));
                continue;
            }
            counter.units.retain(|(at, _)| at.plus_ms(3 * widest_ms) > shown);
            counter.units.push((at, signed(applied.cost)));
            let Some(in_force) = self.limits.get((None, applied.counter)) else { continue };
            let (now, window) = (sim.now(), in_force.limit.window);
            let is_disturbed = self.disturbed.is_some_and(|then| now.ms_since(then) < 2 * widest_ms + NOTICED_MS);
            let is_excused = counter.excused.is_some_and(|then| shown.ms_since(then) < window.width_ms());
            // The windows that end since no lease of another window can be in them.
            let settled_ms = now.ms_since(in_force.is_settled_from());
            if is_disturbed || is_excused || settled_ms == 0 {
                continue;
            }
            let excess = policies.iter().map(LimitPolicy::excess_units).max().unwrap_or_default();
            let recent = in_force.since(now, 2 * widest_ms).chain([&in_force.limit]);
            let quota = recent.map(|limit| limit.units).max().unwrap_or_default();
            match applied.policy.consistency {
                Consistency::Strict => self.strict += 1,
                _ => self.bounded += 1,
            }
            self.after_changes += usize::from(in_force.has_had_another_window());
            let (held, most) = (counter.fullest(window.width_ms(), widest_ms.min(settled_ms), shown), quota + excess);
            if held > signed(most) {
                let (agent, rule) = (answered.agent, &applied.rule.name);
                return Err(format!("never-over: {held} of {most} admitted under `{rule}`, the last by agent {agent}"));
            }
        }
        Ok(())
    }
}

impl AdmittedUnits {
    /// Returns the most units in a window (t-W, t] that ends with an admission at the instant `shown` or at most a window before
    /// it, and contains no admission without the store.
    fn fullest(&self, width_ms: u64, back_ms: u64, shown: Timestamp) -> i64 {
        let ends = self.units.iter().map(|(end, _)| *end).filter(|end| {
            end.plus_ms(back_ms) > shown && self.excused.is_none_or(|then| end.minus_ms(width_ms) >= then)
        });
        let held = |end: Timestamp| {
            let in_window = self.units.iter().filter(|(at, _)| *at <= end && at.plus_ms(width_ms) > end);
            in_window.map(|(_, units)| units).sum()
        };
        ends.map(held).max().unwrap_or_default()
    }
}

/// Returns true if the rule states a bound of its admissions in any window.
fn is_stated(policy: &LimitPolicy) -> bool {
    let is_exact = match policy.algorithm {
        Algorithm::SlidingWindow(estimate) => estimate == Estimate::Conservative && policy.burst == 0,
        algorithm => algorithm == Algorithm::SlidingLog,
    };
    is_exact && policy.consistency != Consistency::Eventual
}

fn signed(units: u64) -> i64 {
    i64::try_from(units).unwrap_or(i64::MAX)
}
