//! never-over, as callers see it: of a rule with the conservative estimate or a log, no window holds more admissions by
//! charges of the store than the quota, however late the store is or if it is down. Admissions of late calls by an
//! agent's part are no more than its part, whatever the rule states.
//!
//! An admission counts at the instant of its decision, and one by a part not later than the store's true time, because
//! an agent knows this time within bounds only. Repeated requests count once. The limit is the one that the counter
//! follows, and after a change of the quota the largest of the last two windows. Left to `degraded` are admissions by
//! signals and by `on_failure` while the store is down or all late calls pass; they do not excuse their window.
//! Excused: two windows after steps of the store's clock and losses of its data; and windows that may contain a unit of
//! a lease of another window. These remain at agents that have not received the change, for at most a sub-window. Calls
//! with a request id, whose charge may be older than their decision, and agents with an own table are left to
//! `never_over`; admissions of such calls by a part are checked here.

use std::collections::HashMap;

use tollgate::{LocalAnswer, Source};
use tollgate_core::algorithm::Algorithm;
use tollgate_core::clock::Timestamp;
use tollgate_core::counter::{ChargeMode, CounterId};
use tollgate_core::rules::{Consistency, LimitPolicy, ListMatch};
use tollgate_core::window::Estimate;
use tollgate_sim::{AnsweredCall, CorrectedCall, Observation, SimNode, Simulation};

use super::facts::{Applied, Facts, is_by_store};
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
    /// Number of admissions by a part that were compared with it.
    pub(crate) by_part: usize,
    /// Units of admissions by a part, with their instants, of each life of an agent.
    parts: HashMap<(usize, CounterId), Vec<(Timestamp, i64)>>,
    /// Least number of agents that each agent has known.
    agents_min: HashMap<usize, u64>,
}

#[derive(Default)]
struct AdmittedUnits {
    /// Instants of store time, and units; those that were given back are negative.
    units: Vec<(Timestamp, i64)>,
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
                self.parts.clear();
            }
            Observation::StoreLost(_) => self.disturbed = Some(sim.now()),
            Observation::Ended(SimNode::Agent(agent)) => {
                self.parts.retain(|(of, _), _| of != agent);
                self.agents_min.remove(agent);
            }
            Observation::Executed { charges, answer: Ok(results), limits, .. } => {
                for ((charge, result), limit) in charges.iter().zip(results).zip(limits) {
                    if let Some(limit) = limit {
                        self.limits.note((None, charge.counter), *limit, sim.now());
                    }
                    // A settlement; other refunds are of calls that were denied.
                    if let (ChargeMode::Refund { at, .. }, Some(_), true) =
                        (charge.mode, charge.request, result.charged && !result.repeated)
                    {
                        let counter = self.counters.entry(charge.counter).or_default();
                        counter.units.push((at, -signed(charge.cost)));
                    }
                }
            }
            Observation::Answered(answered) if answered.is_admitted => return self.answered(facts, sim, answered),
            Observation::Corrected(corrected) if corrected.error.is_none() => self.corrected(facts, corrected),
            _ => {}
        }
        Ok(())
    }

    fn answered(&mut self, facts: &Facts, sim: &Simulation<'_>, answered: &AnsweredCall<'_>) -> Result<(), String> {
        let owns_table = sim.agents()[answered.agent].settings.owns_table;
        let is_unlisted = facts.list_match(answered.generation, &answered.call) == ListMatch::Unlisted;
        if owns_table || facts.overflows() || !is_unlisted {
            return Ok(());
        }
        let decision = &answered.decision;
        let shown = sim.store().time(answered.answered);
        let size = sim.agents()[answered.agent].engine().map_or(1, |engine| engine.fleet_size().get().into());
        let agents_min = self.agents_min.entry(answered.agent).or_insert(size);
        *agents_min = size.min(*agents_min);
        for applied in facts.applied(answered.generation, &answered.call) {
            let policies = facts.policies(&applied.rule.name, &answered.call);
            let widest_ms = policies.iter().map(|policy| policy.window.width_ms()).max().unwrap_or_default();
            let (source, by) = answered.decided_by(applied.counter);
            if by == Some(LocalAnswer::Part) {
                self.admitted_by_part(answered, &applied, widest_ms, decision.at.min(shown))?;
                continue;
            }
            if answered.call.id().is_some() || applied.counts_denials() || !policies.iter().all(is_stated) {
                continue;
            }
            let at = decision.at;
            let is_by_charge = is_by_store(answered) || source == Source::Store || by == Some(LocalAnswer::Lease);
            if !is_by_charge {
                continue;
            }
            let counter = self.counters.entry(applied.counter).or_default();
            counter.units.retain(|(at, _)| at.plus_ms(3 * widest_ms) > shown);
            counter.units.push((at, signed(applied.cost)));
            let Some(in_force) = self.limits.get((None, applied.counter)) else { continue };
            let (now, window) = (sim.now(), in_force.limit.window);
            let is_disturbed = self.disturbed.is_some_and(|then| now.ms_since(then) < 2 * widest_ms + NOTICED_MS);
            // The windows that end since no lease of another window can be in them.
            let settled_ms = now.ms_since(in_force.is_settled_from());
            if is_disturbed || settled_ms == 0 {
                continue;
            }
            let recent = in_force.since(now, 2 * widest_ms).chain([&in_force.limit]);
            let quota = recent.map(|limit| limit.units).max().unwrap_or_default();
            match applied.policy.consistency {
                Consistency::Strict => self.strict += 1,
                _ => self.bounded += 1,
            }
            self.after_changes += usize::from(in_force.has_had_another_window());
            let held = counter.fullest(window.width_ms(), widest_ms.min(settled_ms), shown);
            if held > signed(quota) {
                let (agent, rule) = (answered.agent, &applied.rule.name);
                return Err(format!(
                    "never-over: {held} of {quota} admitted under `{rule}`, the last by agent {agent}"
                ));
            }
        }
        Ok(())
    }

    /// Takes units that an agent gave back out of its admissions by a part: its own count falls by them.
    fn corrected(&mut self, facts: &Facts, corrected: &CorrectedCall<'_>) {
        let Some(decided) = corrected.decided else { return };
        for (applied, units) in facts.corrected(corrected) {
            let mut admitted = self.parts.get_mut(&(corrected.agent, applied.counter)).into_iter().flatten().rev();
            if let Some((_, left)) = admitted.find(|(at, left)| *at == decided && *left > 0) {
                *left += units.clamp(-*left, 0);
            }
        }
    }

    /// Checks the units that an agent has admitted by its part in a window: they are no more than the part of the
    /// smallest fleet that it has known.
    fn admitted_by_part(
        &mut self,
        answered: &AnsweredCall<'_>,
        applied: &Applied,
        widest_ms: u64,
        at: Timestamp,
    ) -> Result<(), String> {
        let (agent, rule) = (answered.agent, &applied.rule.name);
        if applied.policy.consistency != Consistency::Bounded {
            return Err(format!("never-over: agent {agent} admits by a part under `{rule}`, which is not bounded"));
        }
        let units = self.parts.entry((agent, applied.counter)).or_default();
        units.retain(|(then, _)| then.plus_ms(2 * widest_ms) > at);
        units.push((at, signed(applied.cost)));
        let width_ms = applied.policy.window.width_ms();
        let held: i64 = units.iter().filter(|(then, _)| then.plus_ms(width_ms) > at).map(|(_, units)| units).sum();
        let LimitPolicy { quota, burst, .. } = applied.policy;
        // A part of a burst is free again as fast as a part of the quota allows.
        let most = if burst > 0 { quota.units() + burst } else { quota.units() };
        let part = most / self.agents_min[&agent];
        self.by_part += 1;
        if held > signed(part) {
            return Err(format!("never-over: agent {agent} admits {held} of {part} units by its part under `{rule}`"));
        }
        Ok(())
    }
}

impl AdmittedUnits {
    /// Returns the most units in a window (t-W, t] that ends with an admission at the instant `shown` or at most a
    /// window before it.
    fn fullest(&self, width_ms: u64, back_ms: u64, shown: Timestamp) -> i64 {
        let ends = self.units.iter().map(|(end, _)| *end).filter(|end| end.plus_ms(back_ms) > shown);
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
