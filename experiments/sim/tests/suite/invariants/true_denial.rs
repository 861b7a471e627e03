//! true-denial: a call that an agent denies by a cached denial while the store answers would be denied by the store,
//! too, or would have been at most 250 ms ago. Calls of one request wait for each other; a cached denial of one of them
//! must be true at their arrival.
//!
//! So a refund of units of the counter, a charge under rules of another generation, a change of the region's limit, a step of the
//! store's clock and a loss of its data excuse a denial for 250 ms. Where no unit ever comes back, a refund excuses it for
//! 250 ms, and the others for a sub-window or 10 s. Under the interpolated estimate, a denial of the store is held for a moment. Not
//! checked are callers that the sketch counts, and agents that keep their own table, which is not the store.

use std::collections::HashMap;

use tollgate::Source;
use tollgate_core::algorithm::{Algorithm, Limit};
use tollgate_core::clock::Timestamp;
use tollgate_core::counter::{ChargeMode, CounterId};
use tollgate_core::decision::DENY_LIST;
use tollgate_core::rules::{Generation, ListMatch};
use tollgate_core::window::Estimate;
use tollgate_sim::{AnsweredCall, Observation, Simulation, StoreLoss, StoreState};

use super::facts::{Applied, Facts};

/// Time for which an agent may repeat a denial that the store would not give any more, in ms.
const STALE_MS_MAX: u64 = 250;

/// Maximum time between two checks of a denial, in ms, where no unit ever comes back. It repeats the engine's
/// limit, so that a change there shows here.
const RESYNC_MS: u64 = 10_000;

/// Maximum time for which an agent holds a denial of the store, in ms: twice the minimum time, and the time in which an answer is
/// awaited. It counts from the denial, and from the instant at which the store would admit the call.
const HELD_MS_MAX: u64 = 215;

/// Instants that excuse a denial.
#[derive(Default)]
pub(crate) struct TrueDenial {
    /// Refunds, and changes of the limits of a region.
    refunded: HashMap<CounterId, Timestamp>,
    /// Steps under the interpolated estimate that left no room, and the instants at which the store would admit their calls.
    denied: HashMap<CounterId, Vec<Timestamp>>,
    charged: HashMap<CounterId, HashMap<Generation, Timestamp>>,
    /// Charges that a failover brings back.
    replica: HashMap<CounterId, HashMap<Generation, Timestamp>>,
    disturbed: Option<Timestamp>,
}

impl TrueDenial {
    pub(crate) fn observe(
        &mut self,
        facts: &Facts,
        sim: &Simulation<'_>,
        observation: &Observation<'_>,
    ) -> Result<(), String> {
        let now = sim.now();
        match observation {
            Observation::StoreClockStepped { .. } => self.disturbed = Some(now),
            Observation::LimitWritten { counter, .. } => {
                self.refunded.insert(*counter, now);
            }
            Observation::StoreReplicated => self.replica.clone_from(&self.charged),
            Observation::StoreLost(loss) => {
                self.disturbed = Some(now);
                self.lose(*loss);
            }
            // An expired request leaves the counter under the rules that it had.
            Observation::Executed { charges, store_time, answer: Ok(results), .. } => {
                for (charge, result) in charges.iter().zip(results) {
                    let is_interpolated = charge.limit.algorithm == Algorithm::SlidingWindow(Estimate::Interpolated);
                    // An admission of the last units denies the next call, too.
                    let has_denied = result.charged || !result.verdict.admitted;
                    if is_interpolated && has_denied && result.verdict.retry_at > result.at {
                        let denied = self.denied.entry(charge.counter).or_default();
                        denied.retain(|at| now.ms_since(*at) <= STALE_MS_MAX);
                        denied.extend([now, now.plus_ms(result.verdict.retry_at.ms_since(*store_time))]);
                    }
                    let generations = self.charged.entry(charge.counter).or_default();
                    // A counter that had expired follows the rules of this charge. Later charges of the same instant show its birth, too.
                    let is_first = generations.values().all(|at| *at < now);
                    if is_first && result.born == result.at && result.at == *store_time {
                        generations.clear();
                    }
                    generations.insert(charge.generation, now);
                    if matches!(charge.mode, ChargeMode::Refund { .. }) {
                        self.refunded.insert(charge.counter, now);
                    }
                }
            }
            Observation::Answered(answered) if !facts.overflows() => return self.check(facts, sim, answered),
            _ => {}
        }
        Ok(())
    }

    /// Forgets the charges that the store has lost, and with them the generations of its counters.
    fn lose(&mut self, loss: StoreLoss) {
        match loss {
            StoreLoss::Counter(counter) => {
                self.charged.remove(&counter);
            }
            StoreLoss::All => {
                self.replica.clear();
                self.charged.clear();
            }
            StoreLoss::SinceReplicated => self.charged.clone_from(&self.replica),
        }
    }

    fn check(&self, facts: &Facts, sim: &Simulation<'_>, answered: &AnsweredCall<'_>) -> Result<(), String> {
        let decision = &answered.decision;
        let answers = matches!(sim.store().state, StoreState::Up | StoreState::Slow(_));
        let Some(status) = decision.status.as_ref().filter(|_| !decision.allowed && decision.source == Source::Local)
        else {
            return Ok(());
        };
        if &*status.rule == DENY_LIST {
            let is_denied = matches!(facts.list_match(answered.generation, &answered.call), ListMatch::Denied(_));
            return if is_denied { Ok(()) } else { Err("true-denial: the caller is on no list".to_owned()) };
        }
        let of = |generation: Generation| {
            let mut applied = facts.applied(generation, &answered.call).into_iter();
            applied
                .find(|applied| *applied.rule.name == *status.rule)
                .ok_or("true-denial: by a rule that does not apply")
        };
        // The cost is that of the agent's rules. The store goes by the newest rules that have charged the counter.
        let own = of(answered.generation)?;
        let newest = self.charged.get(&own.counter).and_then(|charged| charged.keys().max());
        let applied = of(newest.copied().unwrap_or(answered.generation))?;
        let owns_table = sim.agents()[answered.agent].settings.owns_table;
        let is_excused = self.excuses(answered.arrived, applied.counter, answered.generation, stale_ms_max(&own));
        if !answers || owns_table || is_excused {
            return Ok(());
        }
        let Some(limit) = limit_of(sim, &applied) else { return Ok(()) };
        let state = sim.store().peek(applied.counter);
        let mut state = state.ok_or("true-denial: the store does not know the counter")?;
        let decided = sim.store().time(if answered.is_joint { answered.arrived } else { sim.now() });
        let now = state.advance(&limit, decided);
        // A counter that another call has charged since shows no earlier instant.
        if now <= decided && state.evaluate(&limit, now, own.cost).admitted {
            let (rule, counter, agent) = (&applied.rule.name, applied.counter, answered.agent);
            return Err(format!("true-denial: the store had room for {counter} of {rule}, which agent {agent} denied"));
        }
        Ok(())
    }

    fn excuses(&self, arrived: Timestamp, counter: CounterId, generation: Generation, stale_ms: u64) -> bool {
        let is_held = |at: &Timestamp| *at <= arrived && arrived.ms_since(*at) <= HELD_MS_MAX;
        let is_recent = |at: &Timestamp| arrived.ms_since(*at) <= stale_ms;
        let is_refunded = |at: &Timestamp| arrived.ms_since(*at) <= STALE_MS_MAX;
        let others = self.charged.get(&counter).into_iter().flatten();
        let mut others = others.filter(|(other, _)| **other != generation).map(|(_, at)| at);
        self.denied.get(&counter).is_some_and(|denied| denied.iter().any(is_held))
            || self.disturbed.as_ref().is_some_and(is_recent)
            || self.refunded.get(&counter).is_some_and(is_refunded)
            || others.any(is_recent)
    }
}

/// Returns the limit that the store enforces; none if the counter follows another window than the rule.
fn limit_of(sim: &Simulation<'_>, applied: &Applied) -> Option<Limit> {
    let limit = applied.policy.limit();
    if applied.policy.global_quota.is_none() {
        return Some(limit);
    }
    let width_ms = limit.window.width_ms();
    let units_at = |now| sim.store().budget_of_window(&applied.rule.name, applied.counter, width_ms, now);
    // After the store's clock has stepped back, it may come to the begin of a term again.
    let units = units_at(sim.now()).min(units_at(sim.now().minus_ms(STALE_MS_MAX)));
    let followed = sim.store().limit(applied.counter).filter(|followed| followed.window == limit.window)?;
    Some(Limit { units: units.unwrap_or(limit.units), ..followed })
}

/// Returns the maximum time for which an agent may repeat a denial that the store would not give any more, in ms.
fn stale_ms_max(applied: &Applied) -> u64 {
    let policy = &applied.policy;
    let has_one_policy = applied.rule.by_tier.is_empty() && applied.rule.quota_from.is_none();
    let is_unsettled = !applied.rule.goes_by_call_cost() && has_one_policy;
    let keeps_units = is_unsettled && policy.may_lease() && policy.global_quota.is_none();
    if keeps_units { policy.window.sub_window_ms().clamp(STALE_MS_MAX, RESYNC_MS) } else { STALE_MS_MAX }
}
