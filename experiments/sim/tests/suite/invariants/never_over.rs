//! never-over: the store admits no unit that makes a true window hold more than its algorithm states.
//!
//! Everything that the store executed counts: admissions, leased units, units that are only counted, backfills,
//! settlements; refunds count against them. For an agent that keeps its own table, its answers in one life count, and
//! the remaining units that they state. The limit is that of the newest rules that have charged the counter. When the
//! counter begins to follow another window, units that have already left the earlier one do not come back: a counter of
//! 2 s does not know what was admitted 3 s ago, so this part of a wider window is excused. A charge of no
//! units is not compared, because the quota may have been lowered below the units in the window. A refund of units from
//! before a step back of the clock counts at its own time, and one of units that the store has lost counts nothing. Units
//! that the store loses count again once they are opened again, unless the counter has changed its window meanwhile.
//! Excused: callers that the sketch counts, up to twice the quota; interpolated windows, bursts over a window, and
//! `concurrency`.

use std::collections::{HashMap, HashSet};

use tollgate::Source;
use tollgate_core::algorithm::{Algorithm, Limit};
use tollgate_core::clock::Timestamp;
use tollgate_core::counter::{Charge, ChargeMode, ChargeResult, CounterId};
use tollgate_core::rules::ListMatch;
use tollgate_sim::{AnsweredCall, CorrectedCall, Observation, SimNode, Simulation};

use super::facts::Facts;
use super::held_units::{Entry, HeldUnits};
use super::limits_in_force::{CounterKey, InForce, LimitsInForce, bound_of};

/// Units and limits of the counters.
#[derive(Default)]
pub(crate) struct NeverOver {
    units: HeldUnits,
    limits: LimitsInForce,
    requests: HashSet<(usize, String)>,
    by_anyone: HashMap<CounterId, Vec<Entry>>,
    pub(crate) worst_permille: u64,
    /// Units that agents entered again after a loss.
    pub(crate) reopened: u64,
}

impl NeverOver {
    pub(crate) fn observe(
        &mut self,
        facts: &Facts,
        sim: &Simulation<'_>,
        observation: &Observation<'_>,
    ) -> Result<(), String> {
        match observation {
            Observation::Executed { charges, store_time, answer: Ok(results), limits, .. } => {
                // All charges of a step are evaluated on the counters as they are before it. So those that are only counted
                // count after the enforced ones.
                for is_counted in [false, true] {
                    let is_now = |charge: &Charge| matches!(charge.mode, ChargeMode::CountOnly { .. }) == is_counted;
                    let executed = charges.iter().zip(results).zip(limits);
                    for ((charge, result), limit) in executed.filter(|((charge, _), _)| is_now(charge)) {
                        self.follow(sim, (charge.counter, *limit), result.at.min(*store_time));
                        self.executed(charge, *store_time, result, sim.now())?;
                    }
                }
                Ok(())
            }
            Observation::Ended(SimNode::Agent(agent)) => {
                self.units.end(*agent);
                self.limits.forget(*agent);
                Ok(())
            }
            Observation::StoreReplicated => {
                self.units.replicate();
                Ok(())
            }
            Observation::StoreLost(loss) => {
                self.units.lose(*loss);
                // A replica may follow an earlier limit.
                for counter in self.units.shared() {
                    self.follow(sim, (counter, sim.store().limit(counter)), sim.store().time(sim.now()));
                }
                Ok(())
            }
            Observation::StoreClockStepped { by_ms: by_ms @ ..0, store_time } => {
                self.units.step_back(store_time.as_ms(), by_ms.unsigned_abs());
                Ok(())
            }
            Observation::Answered(answered) => self.answered(facts, sim, answered),
            Observation::Corrected(corrected) if sim.agents()[corrected.agent].settings.owns_table => {
                self.corrected(facts, sim, corrected);
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// Notes the limit that a counter of the shared store follows at an instant of the store's time.
    fn follow(&mut self, sim: &Simulation<'_>, (counter, limit): (CounterId, Option<Limit>), at: Timestamp) {
        let key = (None, counter);
        let before = limit.and_then(|limit| self.limits.note(key, limit, sim.now()));
        if let Some(before) = before {
            self.leave(key, before, at);
        }
    }

    /// Drops the units that had left the window of a limit when the counter began to follow another window.
    fn leave(&mut self, key: CounterKey, before: Limit, at: Timestamp) {
        if let Some(bound) = bound_of(before) {
            self.units.leave(key, at.as_ms(), bound);
        }
    }

    fn executed(
        &mut self,
        charge: &Charge,
        store_time: Timestamp,
        result: &ChargeResult,
        true_now: Timestamp,
    ) -> Result<(), String> {
        let key = (None, charge.counter);
        if !result.charged || result.repeated {
            return Ok(());
        }
        let units = charge.cost.saturating_add(result.leased);
        let (units, is_enforced) = (i64::try_from(units).unwrap_or(i64::MAX), charge.mode.is_enforced());
        // A counter that ignores a small step back stands still, and tells a time that the clock does not show yet.
        let (steps, now) = (self.units.steps(), result.at.min(store_time).as_ms());
        let (at, units) = match charge.mode {
            ChargeMode::Refund { at, .. } => {
                // Units that the store has lost are not given back once more. The counter may follow newer rules than the agent.
                // Its sub-windows then contain the units, unless they were charged under the older rules.
                let own = charge.limit.window;
                let of_counter = self.limits.get(key).map_or(own, |known| known.limit.window);
                let held = |window| self.units.in_sub_window(key, window, at).max(0);
                let window = if held(of_counter) < units { own } else { of_counter };
                // A log gives units back by their instant alone.
                let is_log = self.limits.get(key).is_some_and(|known| known.limit.algorithm == Algorithm::SlidingLog);
                let held = if is_log { self.units.charged_at(key, at.as_ms()).max(0) } else { held(window) };
                let units = if steps == 0 { units.min(held) } else { units };
                let at = match steps {
                    0 if is_log => at.as_ms(),
                    0 => self.units.refunded_at(key, at, units, window).min(now),
                    _ if self.units.knows(key, at.as_ms()) => at.as_ms().min(now),
                    _ => now,
                };
                (at, -units)
            }
            ChargeMode::Backfill { at } => {
                let (at, steps) = self.units.scale(at.as_ms(), now);
                self.units.enter(key, Entry { at, steps, units, is_enforced }, now);
                return Ok(());
            }
            // It raises the count of a sub-window. After a step back, the sub-windows of a counter that was re-based are not known
            // here, so units that are opened again do not count.
            ChargeMode::Reopen { .. } if steps > 0 => return Ok(()),
            ChargeMode::Reopen { at } => {
                // An agent may believe that the next sub-window has begun; the store opens none before its time.
                let (at, window) = (at.min(Timestamp::from_ms(now)), charge.limit.window);
                // Nor are the sub-windows known in which units of another window lie.
                let has_changed = |known: &InForce| {
                    known.limit.window != window || known.has_changed_within(true_now, 2 * window.width_ms())
                };
                if self.limits.get(key).is_some_and(has_changed) {
                    return Ok(());
                }
                let held = self.units.in_sub_window(key, window, at);
                let lacking = (units - held).max(0);
                self.reopened += lacking.unsigned_abs();
                (at.as_ms(), lacking)
            }
            _ => (now, units),
        };
        self.units.enter(key, Entry { at, steps, units, is_enforced }, now);
        if is_enforced && units > 0 { self.check(key, now, 1) } else { Ok(()) }
    }

    fn answered(&mut self, facts: &Facts, sim: &Simulation<'_>, answered: &AnsweredCall<'_>) -> Result<(), String> {
        let owns_table = sim.agents()[answered.agent].settings.owns_table;
        let is_listed = facts.list_match(answered.generation, &answered.call) != ListMatch::Unlisted;
        for applied in facts.applied(answered.generation, &answered.call) {
            if owns_table && !applied.is_eventual() {
                let key = (Some(answered.agent), applied.counter);
                if let Some(before) = self.limits.note(key, applied.policy.limit(), answered.answered) {
                    self.leave(key, before, answered.decision.at);
                }
            }
        }
        let is_repeated = answered.call.id().is_some_and(|id| !self.requests.insert((answered.agent, id.to_owned())));
        if is_listed || is_repeated {
            return Ok(());
        }
        if !answered.is_admitted {
            return if owns_table { self.check_remaining(facts, answered) } else { Ok(()) };
        }
        for applied in facts.applied(answered.generation, &answered.call) {
            let units = i64::try_from(applied.cost).unwrap_or(i64::MAX);
            let by_anyone = self.by_anyone.entry(applied.counter).or_default();
            let (now, width_ms) = (answered.answered.as_ms(), applied.policy.quota.width_ms());
            by_anyone.retain(|entry| entry.at + width_ms > now);
            by_anyone.push(Entry { at: now, steps: 0, units, is_enforced: true });
            let held: i64 = by_anyone.iter().map(|entry| entry.units).sum();
            let permille = held.unsigned_abs() * 1_000 / applied.policy.units_over_regions().max(1);
            self.worst_permille = self.worst_permille.max(permille);
            if owns_table && !applied.counts_denials() {
                let (key, at) = ((Some(answered.agent), applied.counter), answered.decision.at.as_ms());
                self.units.enter(key, Entry { at, steps: 0, units, is_enforced: true }, at);
                self.check(key, at, if facts.overflows() { 2 } else { 1 })?;
            }
        }
        if owns_table { self.check_remaining(facts, answered) } else { Ok(()) }
    }

    /// Checks that the remaining units that an agent with its own table states are no more than the window leaves: an
    /// entry with live counts is never dropped.
    fn check_remaining(&self, facts: &Facts, answered: &AnsweredCall<'_>) -> Result<(), String> {
        let decision = &answered.decision;
        let Some(status) = decision.status.as_ref().filter(|_| decision.source == Source::Store && !facts.overflows())
        else {
            return Ok(());
        };
        let mut applied = facts.applied(answered.generation, &answered.call).into_iter();
        let Some(shown) = applied.find(|applied| *applied.rule.name == *status.rule && !applied.counts_denials())
        else {
            return Ok(());
        };
        let key = (Some(answered.agent), shown.counter);
        let Some(bound) = self.limits.bound(key).filter(|bound| !bound.is_bucket) else {
            return Ok(());
        };
        let held = u64::try_from(self.units.in_window(key, decision.at.as_ms(), bound)).unwrap_or(0);
        if held > 0 && status.remaining > status.limit.saturating_sub(held) {
            let (remaining, limit) = (status.remaining, status.limit);
            return Err(format!("never-over: {} states {remaining} of {limit} left, but holds {held}", key.1));
        }
        Ok(())
    }

    fn corrected(&mut self, facts: &Facts, sim: &Simulation<'_>, corrected: &CorrectedCall<'_>) {
        let now = sim.agents()[corrected.agent].time(sim.now());
        for (applied, units) in facts.corrected(corrected) {
            let at = if units < 0 { corrected.decided.unwrap_or(now) } else { now };
            let entry = Entry { at: at.as_ms(), steps: 0, units, is_enforced: false };
            self.units.enter((Some(corrected.agent), applied.counter), entry, now.as_ms());
        }
    }

    /// Checks the window that ends with an admission at `at`.
    fn check(&self, key: CounterKey, at: u64, times: u64) -> Result<(), String> {
        let Some(bound) = self.limits.bound(key) else { return Ok(()) };
        let held = self.units.in_window(key, at, bound);
        if held > 0 && held.unsigned_abs() > times * bound.units {
            return Err(format!("never-over: {} holds {held} of {} in a window", key.1, bound.units));
        }
        Ok(())
    }
}
