//! Outages of the store in simulated fleets: who is admitted, with and without signals, and never more than the bound that is
//! printed for the rule.

use std::num::NonZeroU32;

use tollgate::{Call, RuleSet};
use tollgate_core::clock::Timestamp;
use tollgate_core::decision::Source;
use tollgate_core::rules::OutageBound;
use tollgate_engine::Engine;
use tollgate_experiments::sim::{Faults, Observation, SimAgentSettings, SimSettings, Simulation, StoreState};

const START: Timestamp = Timestamp::from_ms(1_700_000_040_000);
/// Time after which all agents know each other and have read signals for long enough, in ms.
const KNOWN_MS: u64 = 3_500;

/// A fleet under one rule, and its admissions.
struct Outage {
    sim: Simulation<'static>,
    rules: RuleSet,
    agents: usize,
    admitted: Vec<Timestamp>,
}

impl Outage {
    /// Starts a fleet that knows itself, with a rule of these settings.
    fn of(agents: usize, settings: &str) -> Self {
        let text = format!("version: 1\nrules: [{{ name: key, per: [api_key], {settings} }}]");
        let rules = tollgate_rules::from_yaml("rules.yaml", &text, 1).expect("valid rules");
        let settings = SimSettings {
            start: START,
            seed: 1,
            agents: vec![SimAgentSettings { clock_offset_ms: 0, owns_table: false }; agents],
            aggregators: 1,
            has_bus: true,
            partitions: 1,
            counters_max: 10_000,
            faults: Faults { store_ms_max: 1, bus_ms_max: 5, ack_ms_max: 5, ..Faults::default() },
            threshold_permille: 500,
        };
        let mut outage = Self { sim: Simulation::new(settings, &rules), rules, agents, admitted: Vec::new() };
        outage.pass(KNOWN_MS);
        outage
    }

    /// Lets time pass.
    fn pass(&mut self, ms: u64) {
        self.sim.run_until(self.sim.now().plus_ms(ms));
        self.sim.observations();
    }

    /// Asks an agent for one unit of a key; returns the source of an admission.
    fn check(&mut self, agent: usize, key: &str) -> Option<Source> {
        self.sim.check(agent, vec![Call::new().with("api_key", key.to_owned())]);
        self.sim.run_until(self.sim.now().plus_ms(30));
        let answers = self.sim.observations().filter_map(|observation| match observation {
            Observation::Answered(answered) => Some(answered),
            _ => None,
        });
        let answers: Vec<_> = answers.collect();
        assert_eq!(answers.len(), 1, "the call is answered");
        let answered = &answers[0];
        if answered.is_admitted {
            self.admitted.push(answered.answered);
        }
        answered.is_admitted.then_some(answered.decision.source)
    }

    /// Asks agents in turn; returns the number of admissions.
    fn calls(&mut self, agents: &[usize], key: &str, calls: usize, gap_ms: u64) -> usize {
        let mut admitted = 0;
        for agent in agents.iter().cycle().take(calls) {
            admitted += usize::from(self.check(*agent, key).is_some());
            self.pass(gap_ms);
        }
        admitted
    }

    /// Ends the store, and the bus as well if signals are to end; every agent notices.
    fn fail(&mut self, with_signals: bool) {
        self.sim.set_store(StoreState::Refusing);
        for agent in 0..self.agents {
            for call in 0..3 {
                self.check(agent, &format!("notices-{agent}-{call}"));
            }
        }
        assert!(self.sim.agents().iter().all(|agent| agent.engine().is_some_and(Engine::is_degraded)));
        if !with_signals {
            self.sim.set_bus_up(false);
        }
        // Signals end, or the threshold follows the news.
        self.pass(KNOWN_MS);
        self.admitted.clear();
    }

    /// Returns the printed bound.
    fn bound(&self) -> OutageBound {
        let policy = self.rules.rules[0].policy.expect("a policy");
        OutageBound::of(&policy, NonZeroU32::new(u32::try_from(self.agents).unwrap()).unwrap())
    }
}

/// I1, I2, I3, I4: the table of `on_failure` at three agents, each asked 40 times about a caller of whose quota of 90 the
/// store has admitted 60 and which all agents know.
#[test]
fn on_failure_decides_with_signals_and_without() {
    // `on_failure`; admissions with fresh signals, and without.
    let cases =
        [("share", 30, 30), ("open", 30, 120), ("closed", 0, 0), ("limit 4/min", 0, 0), ("limit 25/min", 15, 15)];
    for (on_failure, by_signal, alone) in cases {
        for (with_signals, expected) in [(true, by_signal), (false, alone)] {
            let mut outage = Outage::of(3, &format!("quota: 90/min, estimate: conservative, on_failure: {on_failure}"));
            assert_eq!(outage.calls(&[0, 1, 2], "k", 60, 0), 60);
            outage.fail(with_signals);
            let admitted = (0..3).map(|agent| outage.calls(&[agent], "k", 40, 0)).sum::<usize>();
            let bound = outage.bound();
            let most = if with_signals { Some(bound.by_signals) } else { bound.alone };
            assert!(most.is_none_or(|most| 60 + admitted as u64 <= most), "{on_failure} {with_signals}: {admitted}");
            assert!(admitted.abs_diff(expected) <= 3, "{on_failure}, with signals {with_signals}: {admitted}");
        }
    }
}

/// R8: in a fleet that is larger than the quota, first calls pass without Redis and Kafka; the sum is within the printed
/// bound. Under `strict`, the sum is within the quota.
#[test]
fn a_fleet_larger_than_the_quota_admits_first_calls() {
    for (consistency, expected) in [("bounded", 40), ("strict", 10)] {
        for with_signals in [false, true] {
            let mut outage = Outage::of(40, &format!("quota: 10/min, consistency: {consistency}"));
            outage.fail(with_signals);
            let first = (0..40).filter(|agent| outage.check(*agent, "new").is_some()).count();
            let more = (0..40).filter(|agent| outage.check(*agent, "new").is_some()).count();
            let bound = outage.bound();
            let most = if with_signals { bound.by_signals } else { bound.alone.expect("a bound") };
            assert!((first + more) as u64 <= most, "{consistency} {with_signals}: {first} and {more} of {most}");
            if !with_signals {
                assert_eq!((first, more), (expected, 0), "{consistency}");
            }
            if consistency == "strict" {
                assert!(first + more <= 10, "{with_signals}: {first} and {more}");
            }
        }
    }
}
