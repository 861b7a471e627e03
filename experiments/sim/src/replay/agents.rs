//! Agents that answer the calls of a log: one with its own table, or a simulated fleet.
//!
//! A fleet works between the calls, too: its agents poll the bus and send heartbeats. A log may have hours without a call. So the
//! fleet ends once all counts have ended, and another one starts before the next call.

use std::fmt;
use std::num::NonZeroU32;

use fastrand::Rng;
use serde::Serialize;
use tollgate::{Call, Rule, RuleSet};
use tollgate_core::clock::Timestamp;
use tollgate_core::rules::{DEADLINE_MS_MAX, LimitPolicy};

use crate::{AnsweredCall, Faults, Observation, SimSettings, Simulation, StoreState};

/// Maximum number of agents of a fleet.
pub const AGENTS_MAX: u32 = 100;
/// Maximum delay of the store, in ms: longer than this, no call waits.
pub const STORE_DELAY_MS_MAX: u64 = DEADLINE_MS_MAX;
/// Maximum time from a call to its signal at other agents, in ms.
pub const SIGNAL_DELAY_MS_MAX: u64 = 60_000;

/// Time after which the agents of a fleet know each other, in ms; and the number of records, one after the other, that this takes.
const KNOWN_MS: u64 = 3_500;
const KNOWN_RECORDS: u64 = 4;
/// Shortest and longest interval at which agents read the bus, in ms: a fifth of the delay of its records.
const READ_MS_RANGE: [u64; 2] = [5, 50];
/// Time in which calls are answered, in ms.
const STEP_MS: u64 = 100;

/// A simulated fleet that answers the calls of a log. Each call arrives at a random agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct ReplayFleet {
    /// Number of agents.
    pub agents: NonZeroU32,
    /// Time from a call to its signal at other agents, in ms, beside that of the agents and the aggregator.
    pub signal_delay_ms: u64,
    /// Time after which the store answers, in ms.
    pub store_delay_ms: u64,
    /// Seed of the agents at which the calls arrive.
    #[serde(skip)]
    pub seed: u64,
}

/// Agents, and the calls that they have not answered.
pub(super) struct ReplayAgents<'r, 'c> {
    rules: &'r RuleSet,
    fleet: Option<ReplayFleet>,
    simulation: Simulation<'c>,
    rng: Rng,
    /// Time without a call after which another fleet starts, in ms.
    idle_ms: u64,
    last: Timestamp,
    unanswered: u64,
}

impl ReplayFleet {
    /// Returns the time before the first call in which the agents learn to know each other, in ms.
    fn warm_up_ms(self) -> u64 {
        KNOWN_MS + KNOWN_RECORDS * self.record_ms()
    }

    /// Returns the delay of a record of the bus, in ms: a signal needs that of its calls and its own.
    fn record_ms(self) -> u64 {
        self.signal_delay_ms / 2
    }

    /// Starts a fleet whose agents know each other at an instant.
    fn start<'c>(self, at: Timestamp, rules: &RuleSet) -> Simulation<'c> {
        let start = at.minus_ms(self.warm_up_ms()).max(Timestamp::from_ms(1));
        let [shortest, longest] = READ_MS_RANGE;
        let settings = SimSettings {
            seed: self.seed,
            faults: Faults { bus_late_ms: self.record_ms(), ..Faults::default() },
            counters_max: SimSettings::instant(start).counters_max,
            read_ms: (self.record_ms() / 5).clamp(shortest, longest),
            ..SimSettings::fleet(start, usize::try_from(self.agents.get()).unwrap_or(1))
        };
        let mut simulation = Simulation::new(settings, rules);
        if self.store_delay_ms > 0 {
            simulation.set_store(StoreState::Slow(self.store_delay_ms));
        }
        simulation
    }
}

impl fmt::Display for ReplayFleet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { agents, signal_delay_ms, store_delay_ms, .. } = self;
        let plural = if agents.get() == 1 { "" } else { "s" };
        write!(
            f,
            "{agents} simulated agent{plural}, signal delay {signal_delay_ms} ms, store delay {store_delay_ms} ms"
        )
    }
}

impl<'r, 'c> ReplayAgents<'r, 'c> {
    pub(super) fn new(rules: &'r RuleSet, fleet: Option<ReplayFleet>, from: Timestamp) -> Self {
        let (simulation, idle_ms) = match fleet {
            None => (Simulation::new(SimSettings::instant(from), rules), u64::MAX),
            Some(fleet) => (
                fleet.start(from, rules),
                fleet.warm_up_ms() + rules.rules.iter().map(|rule| ends_ms(rule)).max().unwrap_or(0),
            ),
        };
        let rng = Rng::with_seed(fleet.map_or(0, |fleet| fleet.seed));
        Self { rules, fleet, simulation, rng, idle_ms, last: from, unanswered: 0 }
    }

    /// Returns the answers that have come since the last call. Instants must not descend.
    pub(super) fn call(&mut self, at: Timestamp, call: Call<'c>) -> Vec<AnsweredCall<'c>> {
        let mut answers = Vec::new();
        let mut agent = 0;
        if let Some(fleet) = self.fleet {
            if at.ms_since(self.last) > self.idle_ms {
                answers = self.finish();
                self.simulation = fleet.start(at, self.rules);
            }
            agent = self.rng.usize(0..fleet.agents.get() as usize);
        }
        self.last = at;
        self.simulation.run_until(at.max(self.simulation.now()));
        self.simulation.check(agent, vec![call]);
        self.unanswered += 1;
        self.take(&mut answers);
        answers
    }

    /// Waits for the answers to all calls. A call waits no longer than its deadline.
    pub(super) fn finish(&mut self) -> Vec<AnsweredCall<'c>> {
        let mut answers = Vec::new();
        self.take(&mut answers);
        while self.unanswered > 0 {
            self.simulation.run_until(self.simulation.now().plus_ms(STEP_MS));
            self.take(&mut answers);
        }
        answers
    }

    fn take(&mut self, answers: &mut Vec<AnsweredCall<'c>>) {
        let before = answers.len();
        answers.extend(self.simulation.observations().filter_map(|observation| match observation {
            Observation::Answered(answered) => Some(answered),
            _ => None,
        }));
        self.unanswered -= (answers.len() - before) as u64;
    }
}

/// Returns the time after which a counter of a rule is as one that was never used, in ms: its window and the sub-window before it,
/// and the time that refills a burst.
fn ends_ms(rule: &Rule) -> u64 {
    let by_tier = rule.by_tier.iter().filter_map(|(_, policy)| policy.as_ref());
    let policies = rule.policy.iter().chain(by_tier).chain(rule.by_key.values().flatten());
    let of_policy = |policy: &LimitPolicy| {
        let bursts = policy.burst.div_ceil(policy.quota.units());
        policy.quota.width_ms().saturating_mul(2 + bursts)
    };
    policies.map(of_policy).max().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use tollgate_engine::Engine;

    use super::*;

    const START: Timestamp = Timestamp::from_ms(1_700_000_040_000);

    fn rules(settings: &str) -> RuleSet {
        let text = format!("version: 1\nrules: [{{ name: key, per: [api_key], {settings} }}]");
        tollgate_rules::from_yaml("rules.yaml", &text, 1).expect("valid rules")
    }

    fn fleet(agents: u32, signal_delay_ms: u64, store_delay_ms: u64) -> ReplayFleet {
        ReplayFleet { agents: NonZeroU32::new(agents).expect("agents"), signal_delay_ms, store_delay_ms, seed: 1 }
    }

    #[test]
    fn the_agents_know_each_other_before_the_first_call() {
        for delay_ms in [0, 100, 2_000, SIGNAL_DELAY_MS_MAX] {
            let mut simulation = fleet(4, delay_ms, 1).start(START, &rules("quota: 10/min"));
            simulation.run_until(START);
            for agent in simulation.agents() {
                let known = agent.engine().and_then(Engine::known_agents).expect("a fleet");
                assert_eq!(known.len(), 4, "{delay_ms} ms");
            }
        }
    }

    #[test]
    fn a_counter_ends_after_its_window_and_its_burst() {
        let ends = |settings: &str| ends_ms(&rules(settings).rules[0]);
        assert_eq!(ends("quota: 10/min"), 120_000);
        assert_eq!(ends("quota: 10/min, algorithm: token_bucket, burst: 30"), 300_000);
        assert_eq!(ends("quota: 10/min, keys: { k: { quota: 10/h } }"), 7_200_000);
    }

    /// An answer comes after the delay of the store, and the last calls are answered before another fleet starts.
    #[test]
    fn each_call_is_answered_once_after_the_delay_of_the_store() {
        let rules = rules("quota: 5/s, consistency: strict, leases: off");
        let mut agents = ReplayAgents::new(&rules, Some(fleet(3, 10, 7)), START);
        let mut answers = Vec::new();
        for hour in 0..3 {
            for call in 0..20 {
                let at = START.plus_ms(hour * 3_600_000 + call / 4);
                answers.extend(agents.call(at, Call::new().with("api_key", "k")));
            }
        }
        answers.extend(agents.finish());
        assert_eq!(answers.len(), 60);
        assert!(answers.is_sorted_by_key(|answered| answered.answered));
        assert_eq!(answers.iter().filter(|answered| answered.is_admitted).count(), 15);
        let waits = || answers.iter().map(|answered| answered.answered.ms_since(answered.arrived));
        assert!(waits().max() >= Some(7) && waits().max() <= Some(15), "{:?}", waits().max());
    }
}
