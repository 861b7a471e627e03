//! never-over, under `charge: each`: a rule that counts each call and is alone on it denies past its quota. No aligned
//! window holds more admissions than the quota.
//!
//! An admission counts at the instant of its decision, and settled units are given back. Left to `degraded` are
//! admissions by signals and by `on_failure`. Excused: a window after a loss of the store's data, and two after a step
//! of its clock; calls with a request id, which may be repeated; callers on a list, and those that the sketch counts.

use std::collections::HashMap;

use tollgate::Source;
use tollgate_core::clock::Timestamp;
use tollgate_core::counter::ChargeMode;
use tollgate_core::rules::ListMatch;
use tollgate_core::window::SubWindow;
use tollgate_sim::{AnsweredCall, Observation, SimNode, Simulation};

use super::facts::{Applied, Facts};
use super::limits_in_force::CounterKey;

/// Time after which agents have noticed a step of the store's clock or a loss, in ms.
const NOTICED_MS: u64 = 3_000;

/// Admissions of calls whose only rule counts each call.
#[derive(Default)]
pub(crate) struct CountedEach {
    /// Newest window of each counter of the shared store, or of the table of an agent, and its units.
    windows: HashMap<CounterKey, (SubWindow, u64)>,
    disturbed: Option<Timestamp>,
    pub(crate) admitted: usize,
    pub(crate) denied: usize,
}

impl CountedEach {
    pub(crate) fn observe(
        &mut self,
        facts: &Facts,
        sim: &Simulation<'_>,
        observation: &Observation<'_>,
    ) -> Result<(), String> {
        match observation {
            Observation::StoreClockStepped { .. } | Observation::StoreLost(_) => {
                self.disturbed = Some(sim.now());
                self.windows.clear();
            }
            Observation::Ended(SimNode::Agent(agent)) => self.windows.retain(|(of, _), _| *of != Some(*agent)),
            Observation::Executed { charges, answer: Ok(results), .. } => {
                for (charge, _) in charges.iter().zip(results).filter(|(_, result)| result.charged && !result.repeated)
                {
                    // A settlement; other refunds are of calls that were denied.
                    if let (ChargeMode::Refund { at, .. }, Some(_)) = (charge.mode, charge.request) {
                        self.give_back((None, charge.counter), charge.limit.window.sub_window(at), charge.cost);
                    }
                }
            }
            Observation::Corrected(corrected) if sim.agents()[corrected.agent].settings.owns_table => {
                for (applied, units) in facts.corrected(corrected).into_iter().filter(|(_, units)| *units < 0) {
                    let window = corrected.decided.map_or(0, |at| applied.policy.window.sub_window(at));
                    self.give_back((Some(corrected.agent), applied.counter), window, units.unsigned_abs());
                }
            }
            Observation::Answered(answered) => return self.answered(facts, sim, answered),
            _ => {}
        }
        Ok(())
    }

    fn give_back(&mut self, key: CounterKey, window: SubWindow, units: u64) {
        if let Some((_, held)) = self.windows.get_mut(&key).filter(|(newest, _)| *newest == window) {
            *held = held.saturating_sub(units);
        }
    }

    fn answered(&mut self, facts: &Facts, sim: &Simulation<'_>, answered: &AnsweredCall<'_>) -> Result<(), String> {
        let is_unlisted = facts.list_match(answered.generation, &answered.call) == ListMatch::Unlisted;
        let is_decided = matches!(answered.decision.source, Source::Store | Source::Local);
        let applied = facts.applied(answered.generation, &answered.call);
        let [applied] = &applied[..] else { return Ok(()) };
        let is_counted = applied.counts_denials() && !applied.rule.shadow;
        if !is_counted || !is_decided || !is_unlisted || facts.overflows() || answered.call.id().is_some() {
            return Ok(());
        }
        self.denied += usize::from(!answered.decision.allowed);
        if answered.is_admitted { self.admitted(sim, answered, applied) } else { Ok(()) }
    }

    fn admitted(&mut self, sim: &Simulation<'_>, answered: &AnsweredCall<'_>, applied: &Applied) -> Result<(), String> {
        let (agent, policy) = (answered.agent, &applied.policy);
        let own = sim.agents()[agent].settings.owns_table.then_some(agent);
        let at = policy.window.sub_window(answered.decision.at);
        let window = self.windows.entry((own, applied.counter)).or_default();
        if window.0 < at {
            *window = (at, 0);
        }
        let is_disturbed =
            self.disturbed.is_some_and(|then| sim.now().ms_since(then) < 2 * policy.window.width_ms() + NOTICED_MS);
        if window.0 != at || is_disturbed {
            return Ok(());
        }
        window.1 += applied.cost;
        self.admitted += 1;
        let (units, quota, rule) = (window.1, policy.quota.units(), &applied.rule.name);
        if units > quota {
            return Err(format!("never-over: {units} of {quota} admitted under `{rule}`, the last by agent {agent}"));
        }
        Ok(())
    }
}
