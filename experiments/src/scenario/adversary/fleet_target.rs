//! A rule of a simulated fleet as the target of attacks, while the store answers or is lost for a time.
//!
//! All attacks of a generation run in one fleet at the same time, each by another caller.

use std::collections::VecDeque;
use std::num::NonZeroU32;

use tollgate::RuleSet;
use tollgate_core::messages::signals::FRESH_MS;
use tollgate_core::rules::{Consistency, LimitPolicy, OutageBound, Quota};
use tollgate_sim::figures::ratio;
use tollgate_sim::oracle::Oracle;
use tollgate_sim::{AnsweredCall, Faults, SimSettings, StoreState};

use super::attack::{Attack, AttackSpace};
use super::search::AttackOutcome;
use crate::scenario::arrivals::BEGIN;
use crate::scenario::fleet::{CALLER, Fleet, rule_per_caller};

/// Window of the quota, in ms: short, so that a run is short.
const WIDTH_MS: u64 = 10_000;
/// Time from [`BEGIN`] to the beginning of the attacks, in ms. Signals from before are too old then.
const SETTLED_MS: u64 = WIDTH_MS;
/// Times from the beginning of the attacks to the loss of the store, and to its return, in ms.
const LOST_MS: u64 = 12_900;
const RETURNS_MS: u64 = 22_900;
const END_MS: u64 = 3 * WIDTH_MS;
/// Longest way between an agent and the store, in ms.
const STORE_MS_MAX: u64 = 1;
/// Time in which all calls are answered, in ms.
const ANSWERED_MS: u64 = 100;
/// Largest number of calls of an attack, in quotas.
const CALLS_QUOTAS: u64 = 10;

/// Names and settings of the rules, with the store.
const UP: [(&str, &str); 12] = [
    ("strict", ", consistency: strict"),
    ("strict, interpolated", ", consistency: strict, estimate: interpolated"),
    ("strict, fixed_window", ", consistency: strict, algorithm: fixed_window"),
    ("strict, sliding_log", ", consistency: strict, algorithm: sliding_log"),
    ("strict, token_bucket", ", consistency: strict, algorithm: token_bucket"),
    ("strict, leaky_bucket", ", consistency: strict, algorithm: leaky_bucket"),
    ("bounded", ""),
    ("bounded, conservative", ", estimate: conservative"),
    ("bounded, fixed_window", ", algorithm: fixed_window"),
    ("eventual", ", consistency: eventual"),
    ("eventual, conservative", ", consistency: eventual, estimate: conservative"),
    ("eventual, fixed_window", ", consistency: eventual, algorithm: fixed_window"),
];
/// Names and settings of the rules, without the store.
const STORE_LOST: [(&str, &str); 7] = [
    ("strict, store lost", ", consistency: strict"),
    ("bounded, store lost", ""),
    ("conservative, store lost", ", estimate: conservative"),
    ("fixed_window, store lost", ", algorithm: fixed_window"),
    ("sliding_log, store lost", ", algorithm: sliding_log"),
    ("token_bucket, store lost", ", algorithm: token_bucket"),
    ("leaky_bucket, store lost", ", algorithm: leaky_bucket"),
];
/// Names and settings of the rules, without the store and without signals.
const ALL_LOST: [(&str, &str); 7] = [
    ("strict, store and bus lost", ", consistency: strict"),
    ("bounded, store and bus lost", ""),
    ("conservative, store and bus lost", ", estimate: conservative"),
    ("fixed_window, store and bus lost", ", algorithm: fixed_window"),
    ("sliding_log, store and bus lost", ", algorithm: sliding_log"),
    ("token_bucket, store and bus lost", ", algorithm: token_bucket"),
    ("leaky_bucket, store and bus lost", ", algorithm: leaky_bucket"),
];

/// A rule in a fleet.
#[derive(Clone, Debug)]
pub(super) struct FleetTarget {
    pub(super) name: &'static str,
    rules: RuleSet,
    policy: LimitPolicy,
    agents: usize,
    /// True if the store is lost for a time.
    is_lost: bool,
    has_signals: bool,
}

/// Most units of a window, as `tollgate rules validate` prints them.
#[derive(Clone, Copy, Debug)]
pub(super) struct PrintedBound {
    pub(super) units: u64,
    /// Number of times that the calls of the time in which signals may differ come in addition: twice around an edge.
    pub(super) times_calls: u64,
}

struct AttackCourse {
    oracle: Oracle,
    arrivals: Vec<u64>,
    counted: usize,
    /// Arrivals in the last window, each with the number of calls in the time before it in which signals may differ. An
    /// arrival with no more calls than a later one is dropped, so the first entry has the most.
    busiest: VecDeque<(u64, u64)>,
    outcome: AttackOutcome,
}

impl FleetTarget {
    /// Returns rules of each algorithm and consistency, with this quota in each window.
    pub(super) fn all(quota: u64, agents: usize) -> Vec<Self> {
        let burst = format!(", burst: {}", quota + quota / 5);
        let while_up = UP.into_iter().chain([("bounded, burst", burst.as_str())]);
        let while_up = while_up.map(|(name, settings)| (name, settings, false, true));
        let without_store = STORE_LOST.into_iter().map(|(name, settings)| (name, settings, true, true));
        let alone = ALL_LOST.into_iter().map(|(name, settings)| (name, settings, true, false));
        let target = |(name, settings, is_lost, has_signals): (&'static str, &str, bool, bool)| {
            let rules = rule_per_caller(&format!("quota: {quota}/{}s{settings}", WIDTH_MS / 1_000));
            let policy = rules.rules[0].policy.expect("the rule has a policy");
            Self { name, rules, policy, agents, is_lost, has_signals }
        };
        while_up.chain(without_store).chain(alone).map(target).collect()
    }

    pub(super) fn bound(&self) -> PrintedBound {
        let agents = u32::try_from(self.agents).ok().and_then(NonZeroU32::new).expect("a fleet");
        let OutageBound { by_signals, alone } = OutageBound::of(&self.policy, agents);
        let (edge, is_eventual) = (self.policy.edge_units(), self.policy.consistency == Consistency::Eventual);
        match (self.is_lost || is_eventual, self.has_signals) {
            (false, _) => PrintedBound { units: self.policy.most_at_worst(), times_calls: 0 },
            (true, true) => {
                PrintedBound { units: by_signals.saturating_add(edge), times_calls: 1 + u64::from(edge > 0) }
            }
            (true, false) => PrintedBound { units: alone.unwrap_or(u64::MAX).saturating_add(edge), times_calls: 0 },
        }
    }

    pub(super) fn space(&self) -> AttackSpace {
        AttackSpace::of(&self.policy, self.agents, END_MS, CALLS_QUOTAS)
    }

    /// Returns attacks that are known. Before a loss of the store, a caller gets a quota at the end of a sub-window and, as the
    /// interpolated estimate has it, another one nearly a window later. All agents then admit their parts alone.
    pub(super) fn known(&self) -> Vec<Attack> {
        if !self.is_lost {
            return Vec::new();
        }
        let (quota, sub_window_ms) = (self.policy.quota.units(), self.policy.window.sub_window_ms());
        let edge_ms = (LOST_MS - WIDTH_MS).next_multiple_of(sub_window_ms);
        let before = [(edge_ms - 20, quota, 0), (LOST_MS - 20, quota, 0)];
        let alone = (0..self.agents).map(|agent| (LOST_MS + 1, quota, agent));
        vec![Attack::of_bursts(before.into_iter().chain(alone))]
    }

    pub(super) fn evaluate(&self, attacks: &[Attack], seed: u64) -> Vec<AttackOutcome> {
        let faults = Faults { store_ms_max: STORE_MS_MAX, bus_ms_max: 5, ack_ms_max: 5, ..Faults::default() };
        let sim = SimSettings { seed, faults, ..SimSettings::fleet(BEGIN, self.agents) };
        let mut fleet = Fleet::new(sim, &self.rules, self.policy.quota);
        fleet.sim.set_bus_up(self.has_signals);
        let begin = BEGIN.plus_ms(SETTLED_MS);
        let changes = [(LOST_MS, StoreState::Silent), (RETURNS_MS, StoreState::Up)];
        let mut changes = changes.into_iter().filter(|_| self.is_lost).peekable();
        let mut calls: Vec<(u64, usize, usize)> = Vec::new();
        for (caller, attack) in attacks.iter().enumerate() {
            calls.extend(attack.calls(self.agents).into_iter().map(|(at_ms, agent)| (at_ms, caller, agent)));
        }
        calls.sort_unstable_by_key(|(at_ms, caller, _)| (*at_ms, *caller));
        let mut courses: Vec<_> = attacks.iter().map(|_| AttackCourse::new(self)).collect();
        let mut answers = Vec::new();
        for (at_ms, caller, agent) in calls {
            let at = begin.plus_ms(at_ms);
            while let Some((change_ms, state)) = changes.next_if(|(change_ms, _)| *change_ms <= at_ms) {
                answers.extend(fleet.run_until(begin.plus_ms(change_ms)));
                fleet.sim.set_store(state);
            }
            answers.extend(fleet.call(at, agent, &caller.to_string()));
            courses[caller].arrivals.push(at.as_ms());
            courses[caller].outcome.calls += 1;
        }
        answers.extend(fleet.run_until(begin.plus_ms(END_MS + ANSWERED_MS)));
        let bound = self.bound();
        for answered in answers.into_iter().filter(|answered| answered.is_admitted) {
            let caller: usize = answered.call.get(CALLER).and_then(|caller| caller.parse().ok()).expect("a number");
            courses[caller].admit(&answered, bound);
        }
        courses.into_iter().map(|course| course.outcome).collect()
    }
}

impl AttackCourse {
    fn new(target: &FleetTarget) -> Self {
        // Two answers may be nearer to each other than their decisions, by the delay of an answer.
        let (units, width_ms) = (target.policy.quota.units(), WIDTH_MS - STORE_MS_MAX);
        let oracle = Oracle::new(Quota::new(units, width_ms).expect("a quota in range"));
        let (arrivals, busiest) = (Vec::new(), VecDeque::new());
        Self { oracle, arrivals, counted: 0, busiest, outcome: AttackOutcome::default() }
    }

    /// Returns the most calls of the window in a time in which signals may differ.
    fn calls_of_fresh(&mut self, now_ms: u64) -> u64 {
        while let Some(at_ms) = self.arrivals.get(self.counted).copied().filter(|at_ms| *at_ms <= now_ms) {
            self.counted += 1;
            let calls = self.counted - self.arrivals.partition_point(|earlier_ms| earlier_ms + FRESH_MS <= at_ms);
            while self.busiest.back().is_some_and(|(_, fewer)| *fewer <= calls as u64) {
                self.busiest.pop_back();
            }
            self.busiest.push_back((at_ms, calls as u64));
        }
        while self.busiest.front().is_some_and(|(at_ms, _)| *at_ms + WIDTH_MS <= now_ms) {
            self.busiest.pop_front();
        }
        self.busiest.front().map_or(0, |(_, calls)| *calls)
    }

    fn admit(&mut self, answered: &AnsweredCall<'_>, bound: PrintedBound) {
        self.oracle.admit(answered.answered, 1);
        let (units, now_ms) = (self.oracle.units(), answered.answered.as_ms());
        let most =
            bound.units + if bound.times_calls > 0 { bound.times_calls * self.calls_of_fresh(now_ms) } else { 0 };
        if units > self.outcome.units {
            (self.outcome.units, self.outcome.bound) = (units, most);
        }
        self.outcome.of_bound = self.outcome.of_bound.max(100.0 * ratio(units, most));
    }
}
