//! What must hold at every step of any world. Each invariant is checked by its own plain bookkeeping, which shares no code
//! with what it checks.

use std::collections::{BTreeMap, HashMap, HashSet};

use tollgate::{RuleSet, Source};
use tollgate_core::algorithm::{Algorithm, Limit};
use tollgate_core::clock::{CLOCK_ERROR_MAX_MS, Timestamp};
use tollgate_core::counter::{CounterId, DigestKey};
use tollgate_core::decision::DENY_LIST;
use tollgate_core::messages::calls::{Batch, Outcome};
use tollgate_core::rules::{Consistency, LimitPolicy, ListMatch};
use tollgate_core::window::Estimate;
use tollgate_experiments::world::{Decided, World};
use tollgate_wire::Record;

/// The bookkeeping.
pub(crate) struct Invariants {
    /// The last call that was admitted, for those who have more to say of it.
    pub(crate) last: Option<Decided<'static>>,
    rules: RuleSet,
    key: DigestKey,
    counters_max: usize,
    /// Requests that were charged, by name.
    requests: HashSet<String>,
    /// never-over: what the store admitted, per rule and counter.
    by_store: HashMap<(usize, CounterId), Vec<(u64, u64)>>,
    /// never-over and `on_failure`: what was admitted by anyone.
    by_anyone: HashMap<(usize, CounterId), Vec<(u64, u64)>>,
    /// exactly-counted: distinct batches, and units per counter and sub-window, by partition.
    logs: Vec<Log>,
    pub(crate) arrived: usize,
    pub(crate) decided: usize,
    pub(crate) by_source: BTreeMap<Source, usize>,
    pub(crate) compared: usize,
    pub(crate) seen_twice: usize,
    /// The most that was ever admitted in a window, as a multiple of the quota, in thousandths.
    pub(crate) worst_permille: u64,
}

#[derive(Default)]
struct Log {
    read: u64,
    seen: HashSet<(String, u64, u64)>,
    admitted: HashMap<(CounterId, u64), u64>,
    /// The oldest sub-window that still matters to a counter.
    oldest: HashMap<CounterId, u64>,
}

impl Invariants {
    pub(crate) fn new(rules: RuleSet, partitions: u32, counters_max: usize) -> Self {
        Self {
            last: None,
            rules,
            key: DigestKey::default(),
            counters_max,
            requests: HashSet::new(),
            by_store: HashMap::new(),
            by_anyone: HashMap::new(),
            logs: (0..partitions).map(|_| Log::default()).collect(),
            arrived: 0,
            decided: 0,
            by_source: BTreeMap::new(),
            compared: 0,
            seen_twice: 0,
            worst_permille: 0,
        }
    }

    /// Checks everything that can be checked after one step.
    pub(crate) fn check(&mut self, world: &mut World<'static>, store_is_up: bool) -> Result<(), String> {
        for decided in world.decided().collect::<Vec<_>>() {
            self.no_wait(&decided)?;
            self.never_over(&decided)?;
            if store_is_up && !self.overflows() {
                self.true_denial(&decided, world)?;
            }
            self.decided += 1;
            *self.by_source.entry(decided.decision.source).or_default() += 1;
            if decided.decision.allowed {
                self.last = Some(decided);
            }
        }
        one_truth_of_time(world)?;
        self.exactly_counted(world)?;
        self.capped(world)?;
        self.last_good(world)
    }

    /// Past the cap a caller is judged by the overflow counter, which has another name and is not checked here.
    fn overflows(&self) -> bool {
        self.counters_max < 1_000
    }

    /// stand-alone: whatever is missing, every call gets an answer.
    pub(crate) fn stand_alone(&self, world: &World<'_>) -> Result<(), String> {
        let open = world.in_flight();
        if self.arrived == self.decided && open == 0 {
            return Ok(());
        }
        Err(format!("stand-alone: {} calls arrived, {} were answered, {open} still wait", self.arrived, self.decided))
    }

    fn no_wait(&self, decided: &Decided<'_>) -> Result<(), String> {
        let took_ms = decided.answered.ms_since(decided.arrived);
        let applicable = self.rules.applicable(&self.rules.resolved(&decided.call));
        let deadlines = applicable.iter().filter_map(|applicable| Some(applicable.policy?.deadline.as_millis()));
        let deadline_ms = deadlines.min().unwrap_or(0);
        if u128::from(took_ms) <= deadline_ms {
            return Ok(());
        }
        Err(format!("no-wait: a call took {took_ms} ms, its deadline is {deadline_ms} ms"))
    }

    fn never_over(&mut self, decided: &Decided<'_>) -> Result<(), String> {
        if !decided.decision.allowed {
            return Ok(());
        }
        let call = self.rules.resolved(&decided.call);
        // Who is on the allow list is admitted over the quota, and a request that was charged before is not charged again.
        let exempt = self.rules.list_match(&call) != ListMatch::Unlisted;
        let again = decided.call.id().is_some_and(|id| !self.requests.insert(id.to_owned()));
        for applicable in self.rules.applicable(&call) {
            let (index, rule) = (applicable.index, applicable.rule);
            let Some(policy) = applicable.policy.filter(|_| !exempt && !again && !rule.shadow) else { continue };
            let counter = self.key.counter(&rule.name, rule.values(&call));
            let (at, cost) = (decided.decision.at.as_ms(), decided.call.cost());
            let (quota, width_ms) = (policy.quota.units(), policy.quota.width_ms());
            let overflows = self.overflows();
            let everything = self.by_anyone.entry((index, counter)).or_default();
            // Nobody's clock but the world's: when it was answered.
            everything.push((decided.answered.as_ms(), cost));
            self.worst_permille = self.worst_permille.max(fullest(everything, width_ms) * 1_000 / quota);
            let most = most(&policy).filter(|_| policy.consistency == Consistency::Strict && !overflows);
            if let Some(most) = most.filter(|_| decided.decision.source == Source::Store) {
                let admitted = self.by_store.entry((index, counter)).or_default();
                admitted.push((at, cost));
                let fullest = fullest(admitted, width_ms);
                if fullest > most {
                    return Err(format!("never-over: rule {} admitted {fullest} of {most} in a window", rule.name));
                }
            }
        }
        Ok(())
    }

    /// true-denial: what an agent denied by itself while the store answers, the store would have denied.
    fn true_denial(&self, decided: &Decided<'_>, world: &World<'_>) -> Result<(), String> {
        let decision = &decided.decision;
        let Some(status) = decision.status.as_ref().filter(|_| !decision.allowed && decision.source == Source::Local)
        else {
            return Ok(());
        };
        if &*status.rule == DENY_LIST {
            let list_match = self.rules.list_match(&self.rules.resolved(&decided.call));
            return if list_match == ListMatch::Denied(0) { Ok(()) } else { Err("true-denial: on no list".to_owned()) };
        }
        let call = self.rules.resolved(&decided.call);
        let applicable =
            self.rules.applicable(&call).into_iter().find(|applicable| applicable.rule.name == status.rule);
        let applicable = applicable.ok_or("true-denial: by a rule that does not apply")?;
        let limit: Limit = applicable.policy.ok_or("true-denial: by a rule without limit")?.limit();
        if limit.algorithm == Algorithm::Concurrency {
            return Ok(()); // a slot may have been given back since, which a denial may overlook for a moment
        }
        let counter = self.key.counter(&applicable.rule.name, applicable.rule.values(&call));
        let mut state = world.store().peek(counter).ok_or("true-denial: the store does not know the counter")?;
        let now = state.advance(world.now()).now;
        let verdict = state.evaluate(&limit, now, applicable.rule.cost_of(&call, decided.call.cost()));
        if verdict.admitted {
            return Err(format!("true-denial: the store had room under {}", applicable.rule.name));
        }
        Ok(())
    }

    fn exactly_counted(&mut self, world: &World<'_>) -> Result<(), String> {
        for (partition, log) in (0_u32..).zip(&mut self.logs) {
            let counting = &world.counts()[partition as usize];
            let Some((read, _)) = counting.read() else {
                continue;
            };
            if log.read == read + 1 {
                continue;
            }
            for (offset, record) in world.bus().from(partition, log.read).take_while(|(offset, _)| *offset <= read) {
                log.read = offset + 1;
                let batch = Batch::decode(&record.payload).map_err(|error| error.to_string())?;
                let name = (batch.name.agent.to_string(), batch.name.epoch, batch.name.sequence);
                if !log.seen.insert(name) {
                    self.seen_twice += 1;
                    continue;
                }
                for row in batch.rows.iter().filter(|row| row.outcome == Outcome::Admitted) {
                    let Some(counter) = row.counter.map(|index| &batch.counters[index as usize]) else {
                        continue;
                    };
                    let latest = record.appended.plus_ms(CLOCK_ERROR_MAX_MS).as_ms() / counter.window.part_ms();
                    let reach = row.sub_window.min(latest).saturating_sub(counter.window.parts().into());
                    let oldest = log.oldest.entry(counter.id).or_default();
                    *oldest = reach.max(*oldest);
                    let units = log.admitted.entry((counter.id, row.sub_window.min(latest))).or_default();
                    *units = units.saturating_add_signed(row.cost);
                }
            }
            self.compared += 1;
            let held: HashSet<CounterId> = counting.counters().map(|entry| entry.id).collect();
            // What costs nothing, was given back, or has left the window leaves nothing to hold.
            let matters = |id: &CounterId, at: u64, units: u64| units > 0 && at >= log.oldest[id];
            let lacking =
                |((id, at), units): &(&(CounterId, u64), &u64)| matters(id, *at, **units) && !held.contains(id);
            let missing = log.admitted.iter().find(lacking).map(|(key, _)| key);
            if let Some((id, _)) = missing.filter(|_| counting.tally().uncounted == 0) {
                return Err(format!("exactly-counted: {id} is in the log and not in the table"));
            }
            // Past the cap rows are counted as lost, and a counter that finds a place later lacks its earlier ones.
            if counting.tally().uncounted > 0 {
                continue;
            }
            for entry in counting.counters() {
                let newest = entry.admitted.newest();
                for sub_window in newest.saturating_sub(u64::from(entry.admitted.window().parts()))..=newest {
                    let counted = entry.admitted.get(sub_window);
                    let truth = log.admitted.get(&(entry.id, sub_window)).copied().unwrap_or(0);
                    if counted != truth {
                        return Err(format!(
                            "exactly-counted: {} counts {counted} in sub-window {sub_window}, the log holds {truth}",
                            entry.label
                        ));
                    }
                }
            }
        }
        Ok(())
    }

    fn capped(&self, world: &World<'_>) -> Result<(), String> {
        // Maps are split in shards, each of which rounds its part of the cap up; overflow counters come on top.
        let counters_max = self.counters_max + 128;
        for agent in world.agents() {
            let held = agent.engine().held();
            let within = held.counters <= counters_max && held.waiting_batches <= 64 && held.own_batches <= 10_000;
            if !within {
                return Err(format!("capped: {held:?}"));
            }
        }
        let store = world.store().len();
        if store > counters_max { Err(format!("capped: the store holds {store} counters")) } else { Ok(()) }
    }

    /// last-good: no broken or older rule set ever replaces the one in force.
    fn last_good(&self, world: &World<'_>) -> Result<(), String> {
        let in_force =
            |agent: &tollgate_experiments::world::SimAgent| agent.engine().with_rules(|rules| rules.generation);
        match world.agents().iter().map(in_force).find(|generation| *generation != self.rules.generation) {
            Some(generation) => Err(format!("last-good: generation {generation} is in force")),
            None => Ok(()),
        }
    }
}

/// The most that a window may hold by the stated error of each algorithm; none where slots are given back meanwhile.
fn most(policy: &LimitPolicy) -> Option<u64> {
    let quota = policy.quota.units();
    match policy.algorithm {
        Algorithm::SlidingWindow(Estimate::Conservative) | Algorithm::SlidingLog => Some(quota),
        Algorithm::FixedWindow => Some(2 * quota),
        Algorithm::TokenBucket | Algorithm::LeakyBucket => Some(quota + policy.burst),
        Algorithm::SlidingWindow(_) | Algorithm::Concurrency => None,
    }
}

/// one-truth-of-time: however its clock is off, an agent's idea of the store's time holds the truth.
fn one_truth_of_time(world: &World<'_>) -> Result<(), String> {
    for agent in world.agents() {
        let (engine, own) = agent.at(world.now());
        let span = engine.store_time(own);
        if span.earliest > world.now() || world.now() > span.latest {
            return Err(format!("one-truth-of-time: {:?} is not in {span:?}", world.now()));
        }
    }
    Ok(())
}

/// The most units that any window (t-W, t] ending at an admission holds.
fn fullest(admitted: &[(u64, u64)], width_ms: u64) -> u64 {
    let last = admitted.last().map_or(0, |(at, _)| *at);
    // Earlier windows were looked at when they ended, but an answer may arrive after a later one: look at all near the end.
    admitted
        .iter()
        .rev()
        .take_while(|(end, _)| *end + 50 >= last)
        .map(|(end, _)| {
            let inside = |at: u64| at <= *end && at + width_ms > *end;
            admitted.iter().rev().take(500).filter(|(at, _)| inside(*at)).map(|(_, cost)| cost).sum()
        })
        .max()
        .unwrap_or(0)
}

/// When a world begins, in the tests.
pub(crate) const START: Timestamp = Timestamp::from_ms(1_763_700_000_000);
