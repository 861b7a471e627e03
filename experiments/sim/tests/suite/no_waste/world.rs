//! A world: a fleet, its rules, its callers and their demand, all drawn from one seed.

use std::collections::BTreeSet;

use fastrand::Rng;
use tollgate::Call;
use tollgate_sim::Workload;
use tollgate_sim::reference::FilledCounter;

use super::rules::{MixedRule, whole};
use crate::mixed_fleet::{Fleet, KNOWN_MS, START, Tally};

pub(crate) const AGENTS: [usize; 3] = [1, 3, 20];
/// Parts of the calls that have a request id or are in a request of several, in percent.
pub(crate) const UNLEASED_PERCENTS: [u8; 3] = [0, 50, 100];
/// Number of steady calls, and the longest time in which they come, in ms.
const STEADY_CALLS: u64 = 3_000;
const STEADY_MS_MAX: u64 = 600_000;
/// Time before a burst in which some callers call already, in ms.
const LULL_MS: u64 = 15_000;
/// Part of a quota by which a burst may get less, in percent.
const LESS_PERCENT: f64 = 3.0;
/// Pause before the first call, in ms: signals are no longer fresh then.
const PAUSE_MS: u64 = 5_000;

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Demand {
    /// Quotas that are wanted within a time in ms.
    Burst { quotas: u64, within_ms: u64 },
    /// Part of the quota that is wanted.
    Steady { load: f64 },
}

/// Change of the demand in the middle of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shift {
    /// All calls come to one agent.
    ToOneAgent,
    /// The busiest callers are others.
    OtherCallers,
    /// Calls with and without request ids change places.
    OtherRequests,
    /// Calls come in clumps.
    Clumps,
}

#[derive(Clone, Debug)]
pub(crate) struct MixedWorld {
    pub(crate) seed: u64,
    pub(crate) agents: usize,
    pub(crate) users: u32,
    /// Exponent of Zipf's law; 0 for users that call alike.
    pub(crate) skew: f64,
    /// Part of the calls of the busiest user.
    pub(crate) share: f64,
    pub(crate) rules: Vec<MixedRule>,
    pub(crate) has_lists: bool,
    /// Most units of a call, whose rules may have a cost of their own.
    pub(crate) cost_max: u64,
    pub(crate) unleased_percent: u8,
    pub(crate) demand: Demand,
    pub(crate) shift: Option<Shift>,
}

/// Result of a run.
#[derive(Clone, Debug)]
pub(crate) struct Outcome {
    pub(crate) tally: Tally,
    /// Calls that may be denied beyond the reference.
    pub(crate) slack: f64,
    /// Calls that may be denied on average, under steady demand.
    pub(crate) mean_slack: f64,
    /// Number of rules that reached their quota.
    pub(crate) binding: usize,
}

impl MixedWorld {
    pub(crate) fn draw(seed: u64) -> Self {
        let mut rng = Rng::with_seed(seed);
        let agents = AGENTS[rng.usize(0..AGENTS.len())];
        let users = [1, 5, 40][rng.usize(0..3)];
        let skew = if rng.bool() { 0.0 } else { 1.0 };
        let weights: f64 = (1..=users).map(|rank| f64::from(rank).powf(-skew)).sum();
        let share = 1.0 / weights;
        let rules = MixedRule::draw_all(&mut rng, seed, share);
        let has_short = rules.iter().any(|rule| rule.is_short() && rule.may_deny());
        let demand = if has_short && rng.u8(0..3) > 0 {
            Demand::Steady { load: if rng.bool() { 0.7 } else { 0.9 } }
        } else {
            Demand::Burst { quotas: if rng.bool() { 1 } else { 3 }, within_ms: [1_500, 15_000][rng.usize(0..2)] }
        };
        let shifts = [Shift::ToOneAgent, Shift::OtherCallers, Shift::OtherRequests, Shift::Clumps];
        Self {
            seed,
            agents,
            users,
            skew,
            share,
            rules,
            has_lists: users > 2 && rng.u8(0..4) == 0,
            cost_max: if rng.u8(0..4) == 0 { 3 } else { 1 },
            unleased_percent: UNLEASED_PERCENTS[rng.usize(0..4) % UNLEASED_PERCENTS.len()],
            demand,
            shift: rng.bool().then(|| shifts[rng.usize(0..shifts.len())]),
        }
    }

    pub(crate) fn text(&self) -> String {
        let rules: Vec<_> = self.rules.iter().enumerate().map(|(place, rule)| rule.text(place)).collect();
        let lists = "lists: { allow: [{ user: user-1 }], deny: [{ user: user-2 }] }\n";
        let lists = if self.has_lists { lists } else { "" };
        let descriptors = "tenant: { header: x-tenant }, user: { header: x-user }, \
                           tier: { of: user, map: { user-0: pro }, default: free }";
        let regions = "regions: { default: { floor: 50% }, other: {} }\n";
        let regions = if self.rules.iter().any(|rule| rule.is_global) { regions } else { "" };
        format!("version: 1\n{regions}rules: [{}]\n{lists}descriptors: {{ {descriptors} }}\n", rules.join(", "))
    }

    pub(crate) fn run(&self) -> Outcome {
        let mut fleet = Fleet::new(self.seed, self.agents, &self.text());
        let mut source = Source::new(self);
        let begin_ms = (KNOWN_MS + PAUSE_MS) as f64;
        let mut mean_slack = 0.0;
        match self.demand {
            Demand::Burst { quotas, within_ms } => {
                let calls = self.calls_of_a_quota();
                let mut at_ms = begin_ms;
                if self.shift.is_some() {
                    // Agents hold leases when the burst comes.
                    let gap_ms = LULL_MS as f64 / (calls / 3.0).max(1.0);
                    at_ms = source.poisson(&mut fleet, at_ms, gap_ms, whole(calls / 3.0), |_| false);
                }
                let calls = whole(calls.ceil()) * quotas;
                for place in 0..calls {
                    let at_ms = at_ms + (place * within_ms) as f64 / calls as f64;
                    source.call(&mut fleet, at_ms, true);
                }
            }
            Demand::Steady { load } => {
                let gap_ms = self.gap_ms(load);
                let calls = STEADY_CALLS.min(whole(STEADY_MS_MAX as f64 / gap_ms)).max(20);
                source.poisson(&mut fleet, begin_ms, gap_ms, calls, |place| place >= calls / 2);
                mean_slack = self.points(gap_ms) / 100.0;
            }
        }
        let tally = fleet.take();
        self.judge(&fleet, tally, mean_slack * tally.calls as f64)
    }

    fn judge(&self, fleet: &Fleet, tally: Tally, mean_slack: f64) -> Outcome {
        let filled: Vec<_> = fleet.reference.filled().collect();
        let names: BTreeSet<_> = filled.iter().map(|filled| &filled.rule).collect();
        let together = if self.unleased_percent > 0 || self.shift == Some(Shift::OtherRequests) { 2.0 } else { 1.0 };
        let slack = match self.demand {
            Demand::Burst { within_ms, .. } => {
                // A burst that is longer than the window gets the quota several times.
                let of_counter = |filled: &FilledCounter| {
                    let quotas = filled.quota as f64 * (1.0 + within_ms as f64 / filled.width_ms as f64);
                    (quotas * LESS_PERCENT / 100.0 / filled.cost.max(1) as f64).max(1.0)
                };
                let sum: f64 = filled.iter().copied().map(of_counter).sum();
                together * sum.max(1.0)
            }
            // The denials vary from one sequence of arrivals to the next: about as those of a Poisson process.
            Demand::Steady { .. } => {
                let denials = (tally.calls - tally.expected) as f64 + mean_slack;
                mean_slack + 1.0 + 2.0 * denials.sqrt()
            }
        };
        Outcome { tally, slack, mean_slack, binding: names.len() }
    }

    /// Returns the number of calls that reach the first quota at once.
    fn calls_of_a_quota(&self) -> f64 {
        self.limits().map(|rule| rule.calls(self.share)).fold(f64::INFINITY, f64::min) / self.mean_cost()
    }

    /// Returns the mean time between two calls that want this part of the first quota of a short window, in ms.
    fn gap_ms(&self, load: f64) -> f64 {
        let of_rule = |rule: &MixedRule| rule.width_ms as f64 / (rule.calls(self.share) * load);
        self.limits().filter(|rule| rule.is_short()).map(of_rule).fold(0.0, f64::max) * self.mean_cost()
    }

    /// Returns the points by which more calls may be denied: fewer where an agent has enough calls of the busiest
    /// caller.
    fn points(&self, gap_ms: f64) -> f64 {
        let per_sub_window = |rule: &MixedRule| {
            let sub_window_ms = rule.width_ms as f64 / rule.sub_windows() as f64;
            let share = if rule.per_user { self.share } else { 1.0 };
            share * sub_window_ms / gap_ms / self.agents as f64
        };
        let short = self.limits().filter(|rule| rule.is_short());
        if short.map(per_sub_window).fold(f64::INFINITY, f64::min) >= 15.0 { 0.1 } else { 0.3 }
    }

    fn limits(&self) -> impl Iterator<Item = &MixedRule> {
        self.rules.iter().filter(|rule| rule.may_deny())
    }

    fn mean_cost(&self) -> f64 {
        (1 + self.cost_max) as f64 / 2.0
    }
}

/// Source of the calls of a run.
struct Source<'a> {
    world: &'a MixedWorld,
    rng: Rng,
    users: Workload,
    calls: u64,
    last_ms: f64,
    last: Option<Call<'static>>,
}

impl<'a> Source<'a> {
    fn new(world: &'a MixedWorld) -> Self {
        let users = Workload::new(world.seed, world.users, world.skew);
        Self { world, rng: Rng::with_seed(world.seed + 1), users, calls: 0, last_ms: 0.0, last: None }
    }

    /// Makes calls of a Poisson process. Returns the instant of the last one.
    fn poisson(
        &mut self,
        fleet: &mut Fleet,
        begin_ms: f64,
        gap_ms: f64,
        calls: u64,
        is_shifted: impl Fn(u64) -> bool,
    ) -> f64 {
        let mut at_ms = begin_ms;
        for place in 0..calls {
            at_ms -= (1.0 - self.rng.f64()).ln() * gap_ms;
            self.call(fleet, at_ms, is_shifted(place));
        }
        at_ms
    }

    fn call(&mut self, fleet: &mut Fleet, at_ms: f64, is_shifted: bool) {
        let shift = self.world.shift.filter(|_| is_shifted);
        let agent = if shift == Some(Shift::ToOneAgent) { 0 } else { self.rng.usize(0..self.world.agents) };
        let is_flipped = shift == Some(Shift::OtherRequests);
        let is_unleased = (self.rng.u8(0..100) < self.world.unleased_percent) != is_flipped;
        let mut calls = vec![self.one(shift)];
        self.calls += 1;
        if is_unleased && self.rng.bool() {
            // Together, two calls want twice as much, so every second request is left out.
            if self.rng.bool() {
                return;
            }
            calls.push(self.one(shift));
        } else if is_unleased {
            let call = calls.remove(0).identified(format!("id-{}", self.calls));
            // Some requests are sent again.
            let again = self.last.take().filter(|_| self.rng.u8(0..20) == 0);
            calls = vec![again.unwrap_or_else(|| call.clone())];
            self.last = Some(call);
        }
        // Clumps of calls have the same mean.
        let clump_ms = if shift == Some(Shift::Clumps) { 2_000.0 } else { 1.0 };
        self.last_ms = self.last_ms.max((at_ms / clump_ms).floor() * clump_ms);
        fleet.request(START.plus_ms(whole(self.last_ms)), agent, calls);
    }

    fn one(&mut self, shift: Option<Shift>) -> Call<'static> {
        let rank = self.users.caller();
        let user = if shift == Some(Shift::OtherCallers) { self.users.callers() - 1 - rank } else { rank };
        let cost = self.rng.u64(1..=self.world.cost_max);
        Call::new().with("tenant", "t").with("user", format!("user-{user}")).costing(cost)
    }
}
