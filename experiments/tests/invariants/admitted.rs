//! never-over, as callers see it: of a `bounded` rule with the conservative estimate, no window holds more admissions than the
//! quota and the maximum excess while the store answers, however each call was decided.
//!
//! An admission counts at the instant of its decision, and one by a line of credit not later than the store's true time, because
//! an agent knows this time within bounds only. Repeated requests count once. Excused for two windows: counters of which a call was
//! admitted without the store; steps of the store's clock and losses of its data; and calls whose settlement adds units.
//! Calls with an id count only if their decision names the charge, and agents with an own table are left to `never_over`.

use std::collections::HashMap;

use tollgate::{LocalAnswer, Source};
use tollgate_core::algorithm::Algorithm;
use tollgate_core::clock::Timestamp;
use tollgate_core::counter::CounterId;
use tollgate_core::rules::{Consistency, LimitPolicy, ListMatch};
use tollgate_core::window::Estimate;
use tollgate_experiments::sim::{AnsweredCall, Observation, Simulation};

use super::facts::{Applied, Facts};

/// Time after which agents have noticed a step of the store's clock or a loss, in ms.
const NOTICED_MS: u64 = 3_000;

/// Admissions of bounded rules, by counter.
#[derive(Default)]
pub(crate) struct Admitted {
    counters: HashMap<CounterId, AdmittedUnits>,
    /// Instant of true time at which the store was disturbed last.
    disturbed: Option<Timestamp>,
    /// Number of admissions that were compared with the bound.
    pub(crate) compared: usize,
}

#[derive(Default)]
struct AdmittedUnits {
    /// Instants of store time, and units; those that were given back are negative.
    units: Vec<(Timestamp, i64)>,
    /// Instant of true time of the last admission without the store.
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
            Observation::StoreClockStepped { .. } | Observation::StoreLost(_) => self.disturbed = Some(sim.now()),
            Observation::Corrected(corrected) => {
                for (applied, units) in facts.corrected(corrected) {
                    let counter = self.counters.entry(applied.counter).or_default();
                    match corrected.decided {
                        Some(at) if units < 0 => counter.units.push((at, units)),
                        _ => counter.excused = Some(sim.now()),
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
        if owns_table || facts.overflows() || !is_unlisted {
            return Ok(());
        }
        let decision = &answered.decision;
        let is_by_store = decision.source == Source::Store || decision.by.is_some();
        let shown = sim.store().time(answered.answered);
        let is_drawn = decision.by == Some(LocalAnswer::Allowance);
        let at = if is_drawn { decision.at.min(shown) } else { decision.at };
        let is_stated = |applied: &Applied| is_stated(&applied.policy) && !applied.counts_denials();
        for applied in facts.applied(answered.generation, &answered.call).into_iter().filter(is_stated) {
            let policies = facts.policies(&applied.rule.name, &answered.call);
            let width_ms = policies.iter().map(|policy| policy.window.width_ms()).max().unwrap_or_default();
            let is_one_window = policies.iter().all(|policy| policy.window == applied.policy.window);
            let counter = self.counters.entry(applied.counter).or_default();
            if !is_by_store || !is_one_window || answered.call.id().is_some() {
                // The charge of a request that is tried again may be older than the decision.
                if answered.call.id().is_none() {
                    counter.excused = Some(sim.now());
                }
                continue;
            }
            counter.units.retain(|(at, _)| at.plus_ms(3 * width_ms) > shown);
            counter.units.push((at, i64::try_from(applied.cost).unwrap_or(i64::MAX)));
            let is_recent = |then: Option<Timestamp>, ms: u64| then.is_some_and(|then| sim.now().ms_since(then) < ms);
            if is_recent(counter.excused, 2 * width_ms) || is_recent(self.disturbed, 2 * width_ms + NOTICED_MS) {
                continue;
            }
            self.compared += 1;
            let most = policies.iter().map(LimitPolicy::most_with_store).max().unwrap_or_default();
            let held = counter.fullest(width_ms);
            if held > i64::try_from(most).unwrap_or(i64::MAX) {
                let (agent, rule) = (answered.agent, &applied.rule.name);
                return Err(format!("never-over: {held} of {most} admitted under `{rule}`, the last by agent {agent}"));
            }
        }
        Ok(())
    }
}

impl AdmittedUnits {
    /// Returns the most units in a window (t-W, t] that ends with an admission.
    fn fullest(&self, width_ms: u64) -> i64 {
        let held = |end: Timestamp| {
            let in_window = self.units.iter().filter(|(at, _)| *at <= end && at.plus_ms(width_ms) > end);
            in_window.map(|(_, units)| units).sum()
        };
        self.units.iter().map(|(end, _)| held(*end)).max().unwrap_or_default()
    }
}

fn is_stated(policy: &LimitPolicy) -> bool {
    policy.consistency == Consistency::Bounded
        && policy.algorithm == Algorithm::SlidingWindow(Estimate::Conservative)
        && policy.burst == 0
}
