//! never-over: the store admits no unit that makes a true window hold more than its algorithm states.
//!
//! Everything that the store executed counts: admissions, leased units, units that are only counted, backfills,
//! settlements; refunds count against them. For an agent that keeps its own table, its answers in one life count, and
//! the remaining units that they state. Under rules of different generations the largest quota holds. Time is that of
//! the store, but it never goes back: after a step back it goes on from where it was, in the same fixed window. So a
//! unit counts for a whole window however often the clock steps back. A refund of units from before a step back counts
//! at its own time. Units that the store loses count again once they are opened again. Excused: callers that share an
//! overflow counter, up to twice the quota; `bounded` rules, interpolated windows, and `concurrency`.

use std::collections::{HashMap, HashSet};

use tollgate::Source;
use tollgate_core::algorithm::Algorithm;
use tollgate_core::clock::Timestamp;
use tollgate_core::counter::{Charge, ChargeMode, ChargeResult, CounterId};
use tollgate_core::rules::{Consistency, LimitPolicy, ListMatch};
use tollgate_core::window::Estimate;
use tollgate_experiments::sim::{AnsweredCall, CorrectedCall, Observation, SimNode, Simulation, StoreLoss};

use super::facts::Facts;

/// Time after which an entry matters to no window, in ms.
const KEPT_MS: u64 = 10_000;

/// Units per counter of each store: the shared one, or the table of one agent.
#[derive(Default)]
pub(crate) struct NeverOver {
    entries: HashMap<(Option<usize>, CounterId), Vec<Entry>>,
    /// Entries of the shared store that a failover brings back.
    replica: HashMap<(Option<usize>, CounterId), Vec<Entry>>,
    /// Most units that a window may hold, for the counters of strict rules.
    bounds: HashMap<CounterId, Option<Bound>>,
    /// Times of the store's clock before and after each step back.
    steps_back: Vec<(u64, u64)>,
    requests: HashSet<(usize, String)>,
    by_anyone: HashMap<CounterId, Vec<Entry>>,
    pub(crate) worst_permille: u64,
    /// Units that agents entered again after a loss.
    pub(crate) reopened: u64,
}

#[derive(Clone, Copy)]
struct Entry {
    at: u64,
    /// Number of steps back before it.
    steps: usize,
    units: i64,
    is_enforced: bool,
}

/// Bound of one counter.
#[derive(Clone, Copy)]
struct Bound {
    units: u64,
    width_ms: u64,
    /// True if windows are aligned.
    is_fixed: bool,
    /// True if units that nothing enforced are not held against later admissions.
    is_bucket: bool,
}

impl NeverOver {
    pub(crate) fn observe(
        &mut self,
        facts: &Facts,
        sim: &Simulation<'_>,
        observation: &Observation<'_>,
    ) -> Result<(), String> {
        match observation {
            Observation::Executed { charges, store_time, answer: Ok(results), .. } => {
                // All charges of a step are evaluated on the counters as they are before it. So those that are only counted
                // count after the enforced ones.
                for is_counted in [false, true] {
                    let is_now = |charge: &Charge| matches!(charge.mode, ChargeMode::CountOnly { .. }) == is_counted;
                    for (charge, result) in charges.iter().zip(results).filter(|(charge, _)| is_now(charge)) {
                        self.executed(charge, *store_time, result)?;
                    }
                }
                Ok(())
            }
            Observation::Ended(SimNode::Agent(agent)) => {
                self.entries.retain(|(of, _), _| *of != Some(*agent));
                Ok(())
            }
            Observation::StoreReplicated => {
                self.replica.clone_from(&self.entries);
                self.replica.retain(|(of, _), _| of.is_none());
                Ok(())
            }
            Observation::StoreLost(loss) => {
                self.lose(*loss);
                Ok(())
            }
            Observation::StoreClockStepped { by_ms: by_ms @ ..0, store_time } => {
                let after = store_time.as_ms();
                self.steps_back.push((after + by_ms.unsigned_abs(), after));
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

    /// Drops the entries that the shared store has lost.
    fn lose(&mut self, loss: StoreLoss) {
        match loss {
            StoreLoss::Counter(counter) => {
                self.entries.remove(&(None, counter));
            }
            StoreLoss::All => {
                self.replica.clear();
                self.entries.retain(|(of, _), _| of.is_some());
            }
            StoreLoss::SinceReplicated => {
                self.entries.retain(|(of, _), _| of.is_some());
                self.entries.extend(self.replica.iter().map(|(key, entries)| (*key, entries.clone())));
            }
        }
    }

    fn executed(&mut self, charge: &Charge, store_time: Timestamp, result: &ChargeResult) -> Result<(), String> {
        let key = (None, charge.counter);
        if !result.charged || result.repeated {
            return Ok(());
        }
        let units = charge.cost.saturating_add(result.leased);
        let (units, is_enforced) = (i64::try_from(units).unwrap_or(i64::MAX), charge.mode.is_enforced());
        // A counter that ignores a small step back stands still, and tells a time that the clock does not show yet.
        let (steps, now) = (self.steps_back.len(), result.at.min(store_time).as_ms());
        let (at, units) = match charge.mode {
            ChargeMode::Refund { at } => {
                let at = at.as_ms();
                let of_now = |entry: &Entry| (entry.at, entry.steps) == (at, steps);
                let is_of_now = steps == 0 || self.entries.get(&key).is_some_and(|known| known.iter().any(of_now));
                (if is_of_now { at.min(now) } else { now }, -units)
            }
            ChargeMode::Backfill { at } => {
                let (at, steps) = self.scale(at.as_ms(), now);
                self.enter(key, Entry { at, steps, units, is_enforced }, now);
                return Ok(());
            }
            // It raises the count of a sub-window. After a step back, the sub-windows of a counter that was re-based are not known
            // here, so units that are opened again do not count.
            ChargeMode::Reopen { .. } if steps > 0 => return Ok(()),
            ChargeMode::Reopen { at } => {
                // An agent may believe that the next sub-window has begun; the store opens none before its time.
                let (at, window) = (at.min(Timestamp::from_ms(now)), charge.limit.window);
                let in_sub_window =
                    |entry: &&Entry| window.sub_window(Timestamp::from_ms(entry.at)) == window.sub_window(at);
                let entries = self.entries.get(&key).into_iter().flatten();
                let held: i64 = entries.filter(in_sub_window).map(|entry| entry.units).sum();
                let lacking = (units - held).max(0);
                self.reopened += lacking.unsigned_abs();
                (at.as_ms(), lacking)
            }
            _ => (now, units),
        };
        self.enter(key, Entry { at, steps, units, is_enforced }, now);
        if is_enforced { self.check(key, now, 1) } else { Ok(()) }
    }

    fn answered(&mut self, facts: &Facts, sim: &Simulation<'_>, answered: &AnsweredCall<'_>) -> Result<(), String> {
        let owns_table = sim.agents()[answered.agent].settings.owns_table;
        let is_listed = facts.list_match(answered.generation, &answered.call) != ListMatch::Unlisted;
        for applied in facts.applied(answered.generation, &answered.call) {
            let policies = || facts.policies(&applied.rule.name, &answered.call);
            self.bounds.entry(applied.counter).or_insert_with(|| bound(&policies()));
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
            let permille = held.unsigned_abs() * 1_000 / applied.policy.quota.units().max(1);
            self.worst_permille = self.worst_permille.max(permille);
            if owns_table && !applied.counts_denials() {
                let (key, at) = ((Some(answered.agent), applied.counter), answered.decision.at.as_ms());
                self.enter(key, Entry { at, steps: 0, units, is_enforced: true }, at);
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
        let Some(bound) = self.bounds.get(&key.1).copied().flatten().filter(|bound| !bound.is_bucket) else {
            return Ok(());
        };
        let held = u64::try_from(self.held(key, decision.at.as_ms(), bound)).unwrap_or(0);
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
            self.enter((Some(corrected.agent), applied.counter), entry, now.as_ms());
        }
    }

    fn enter(&mut self, key: (Option<usize>, CounterId), entry: Entry, now: u64) {
        let entries = self.entries.entry(key).or_default();
        if entries.len() > 64 && entries[0].at + 2 * KEPT_MS < now {
            entries.retain(|entry| entry.at + KEPT_MS > now);
        }
        entries.push(entry);
    }

    /// Returns the time of units that were admitted without the store, and the number of steps back before it: the most
    /// after which the clock had shown it.
    fn scale(&self, at: u64, now: u64) -> (u64, usize) {
        let shown = |steps: usize| self.steps_back.get(steps).map_or(now, |(before, _)| *before);
        let steps = (0..=self.steps_back.len()).rev().find(|steps| at <= shown(*steps));
        steps.map_or((now, self.steps_back.len()), |steps| (at, steps))
    }

    /// Returns the units in the window that ends at `at`.
    fn held(&self, key: (Option<usize>, CounterId), at: u64, bound: Bound) -> i64 {
        let now = self.place(at, if key.0.is_none() { self.steps_back.len() } else { 0 }, bound);
        let first = if bound.is_fixed { now } else { (now + 1).saturating_sub(bound.width_ms) };
        let counts = |entry: &&Entry| {
            (first..=now).contains(&self.place(entry.at, entry.steps, bound))
                && (!bound.is_bucket || entry.is_enforced || entry.units < 0)
        };
        self.entries.get(&key).into_iter().flatten().filter(counts).map(|entry| entry.units).sum()
    }

    /// Returns the time at which an instant of the store's clock, after so many steps back, counts; of fixed windows,
    /// in windows.
    fn place(&self, at: u64, steps: usize, bound: Bound) -> u64 {
        let unit = if bound.is_fixed { bound.width_ms } else { 1 };
        let back = self.steps_back.iter().take(steps).map(|(before, after)| before / unit - after / unit);
        at / unit + back.sum::<u64>()
    }

    /// Checks the window that ends with an admission at `at`.
    fn check(&self, key: (Option<usize>, CounterId), at: u64, times: u64) -> Result<(), String> {
        let Some(bound) = self.bounds.get(&key.1).copied().flatten() else { return Ok(()) };
        let held = self.held(key, at, bound);
        if held > 0 && held.unsigned_abs() > times * bound.units {
            return Err(format!("never-over: {} holds {held} of {} in a window", key.1, bound.units));
        }
        Ok(())
    }
}

/// Returns the most units that a window may hold under any of these policies; nothing if that is not stated.
fn bound(policies: &[LimitPolicy]) -> Option<Bound> {
    let first = policies.first()?;
    let (width_ms, algorithm) = (first.quota.width_ms(), first.algorithm);
    let is_stated = |policy: &LimitPolicy| {
        policy.quota.width_ms() == width_ms
            && policy.algorithm == algorithm
            && policy.consistency == Consistency::Strict
    };
    if !policies.iter().all(is_stated) {
        return None;
    }
    let units = |policy: &LimitPolicy| policy.quota.units();
    let (is_fixed, is_bucket) = match algorithm {
        Algorithm::SlidingWindow(Estimate::Conservative) | Algorithm::SlidingLog => (false, false),
        Algorithm::FixedWindow => (true, false),
        Algorithm::TokenBucket | Algorithm::LeakyBucket => (false, true),
        Algorithm::SlidingWindow(_) | Algorithm::Concurrency => return None,
    };
    let most = policies.iter().map(|policy| units(policy) + if is_bucket { policy.burst } else { 0 }).max()?;
    Some(Bound { units: most, width_ms, is_fixed, is_bucket })
}
