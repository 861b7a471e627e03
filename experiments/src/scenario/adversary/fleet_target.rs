//! A rule of a simulated fleet as the target of attacks, while the store answers in time, answers late, or is lost for a time.
//!
//! All attacks of a generation run in one fleet at the same time, each by another caller.

use std::collections::VecDeque;
use std::num::NonZeroU32;

use tollgate::RuleSet;
use tollgate_core::messages::signals::FRESH_MS;
use tollgate_core::rules::{Consistency, LimitPolicy, OutageBound, Quota};
use tollgate_engine::Engine;
use tollgate_sim::figures::ratio;
use tollgate_sim::oracle::Oracle;
use tollgate_sim::{AnsweredCall, Faults, SimSettings};

use super::attack::{Attack, AttackSpace};
use super::search::AttackOutcome;
use super::target_rules::TARGET_RULES;
use super::target_store::{LATE_EACH_MS, LOST_MS, OTHER_CALLER, TargetStore, late_from};
use crate::scenario::arrivals::BEGIN;
use crate::scenario::fleet::{CALLER, Fleet, rule_per_caller};

/// Window of the quota, in ms: short, so that a run is short.
const WIDTH_MS: u64 = 10_000;
/// Time from [`BEGIN`] to the beginning of the attacks, in ms. Signals from before are too old then.
const SETTLED_MS: u64 = WIDTH_MS;
const END_MS: u64 = 3 * WIDTH_MS;
/// Longest way between an agent and the store, in ms.
const STORE_MS_MAX: u64 = 1;
/// Time in which all calls are answered, in ms.
const ANSWERED_MS: u64 = 100;
/// Largest number of calls of an attack, in quotas.
const CALLS_QUOTAS: u64 = 10;

/// A rule in a fleet.
#[derive(Clone, Debug)]
pub(super) struct FleetTarget {
    pub(super) name: &'static str,
    rules: RuleSet,
    policy: LimitPolicy,
    agents: usize,
    store: TargetStore,
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
        let target = |name: &'static str, settings: &str, store, has_signals| {
            let rules = rule_per_caller(&format!("quota: {quota}/{}s{settings}", WIDTH_MS / 1_000));
            let policy = rules.rules[0].policy.expect("the rule has a policy");
            Self { name, rules, policy, agents, store, has_signals }
        };
        let with_burst = target("bounded, burst", &burst, TargetStore::InTime, true);
        let of_store = |(rules, store, has_signals): (&[(&'static str, &str)], TargetStore, bool)| {
            rules.iter().map(|(name, settings)| target(name, settings, store, has_signals)).collect::<Vec<_>>()
        };
        let mut targets: Vec<Self> = TARGET_RULES.into_iter().flat_map(of_store).collect();
        targets.push(with_burst);
        targets
    }

    pub(super) fn bound(&self) -> PrintedBound {
        let agents = u32::try_from(self.agents).ok().and_then(NonZeroU32::new).expect("a fleet");
        let OutageBound { by_signals, alone } = OutageBound::of(&self.policy, agents);
        let (edge, is_eventual) = (self.policy.edge_units(), self.policy.consistency == Consistency::Eventual);
        match (self.store, self.has_signals) {
            (TargetStore::InTime, _) if !is_eventual => {
                PrintedBound { units: self.policy.most_at_worst(), times_calls: 0 }
            }
            (TargetStore::Late, _) => {
                let late = self.policy.most_while_late(agents.get(), agents).unwrap_or(u64::MAX);
                PrintedBound { units: late.saturating_add(edge), times_calls: 0 }
            }
            (_, true) => PrintedBound { units: by_signals.saturating_add(edge), times_calls: 1 + u64::from(edge > 0) },
            (_, false) => PrintedBound { units: alone.unwrap_or(u64::MAX).saturating_add(edge), times_calls: 0 },
        }
    }

    pub(super) fn space(&self) -> AttackSpace {
        AttackSpace::of(&self.policy, self.agents, END_MS, CALLS_QUOTAS)
    }

    /// Returns attacks that are known. Before a loss of the store, a caller gets a quota at the end of a sub-window and, as the
    /// interpolated estimate has it, another one nearly a window later. All agents then admit their parts alone. While the store is
    /// late, each agent admits its part after another one has admitted the quota.
    pub(super) fn known(&self) -> Vec<Attack> {
        if self.store == TargetStore::InTime {
            return Vec::new();
        }
        if self.store == TargetStore::Late {
            let quota = self.policy.quota.units();
            let from_ms = WIDTH_MS.next_multiple_of(LATE_EACH_MS);
            let late = (0..self.agents).map(|agent| (from_ms + late_from(agent, self.agents) + 2, quota, agent));
            let in_time = (from_ms - LATE_EACH_MS / 4, quota, 0);
            return vec![Attack::of_bursts(std::iter::once(in_time).chain(late))];
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
        let mut changes = self.store.changes(self.agents, END_MS).into_iter().peekable();
        let mut calls: Vec<(u64, usize, usize)> = Vec::new();
        for (caller, attack) in attacks.iter().enumerate() {
            calls.extend(attack.calls(self.agents).into_iter().map(|(at_ms, agent)| (at_ms, caller, agent)));
        }
        calls.sort_unstable_by_key(|(at_ms, caller, _)| (*at_ms, *caller));
        let mut courses: Vec<_> = attacks.iter().map(|_| AttackCourse::new(self)).collect();
        let (mut answers, mut has_opened) = (Vec::new(), false);
        for (at_ms, caller, agent) in calls {
            let at = begin.plus_ms(at_ms);
            while let Some((change_ms, change)) = changes.next_if(|(change_ms, _)| *change_ms <= at_ms) {
                answers.extend(fleet.run_until(begin.plus_ms(change_ms)));
                let is_down = fleet.sim.agents().iter().any(|agent| agent.engine().is_some_and(Engine::is_degraded));
                has_opened |= is_down && self.store == TargetStore::Late;
                change.apply(&mut fleet.sim);
            }
            if has_opened {
                // The bound of a late store has ended.
                break;
            }
            answers.extend(fleet.call(at, agent, &caller.to_string()));
            courses[caller].arrivals.push(at.as_ms());
            courses[caller].outcome.calls += 1;
        }
        if !has_opened {
            answers.extend(fleet.run_until(begin.plus_ms(END_MS + ANSWERED_MS)));
        }
        let bound = self.bound();
        for answered in answers.into_iter().filter(|answered| answered.is_admitted) {
            let caller = answered.call.get(CALLER).expect("a caller");
            if caller.starts_with(OTHER_CALLER) {
                continue;
            }
            courses[caller.parse::<usize>().expect("a number")].admit(&answered, bound);
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
