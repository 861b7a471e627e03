//! Outages of the store in simulated fleets: who is admitted, with and without signals, and never more than the bound
//! that is printed for the rule.

use std::num::NonZeroU32;

use fastrand::Rng;
use tollgate::{Call, RuleSet};
use tollgate_core::clock::Timestamp;
use tollgate_core::decision::Source;
use tollgate_core::messages::signals::FRESH_MS;
use tollgate_core::rules::OutageBound;
use tollgate_engine::Engine;
use tollgate_sim::{Faults, Observation, SimSettings, Simulation, StoreState};

const START: Timestamp = Timestamp::from_ms(1_700_000_040_000);
/// Time after which all agents know each other and have read signals for long enough, in ms.
const KNOWN_MS: u64 = 3_500;
/// Number of fleets with random traffic.
const SEEDS: u64 = 48;
/// Time in which all agents have a signal that contains a call, in ms.
const SIGNALLED_MS: u64 = 400;

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
            seed: 1,
            faults: Faults { store_ms_max: 1, bus_ms_max: 5, ack_ms_max: 5, ..Faults::default() },
            ..SimSettings::fleet(START, agents)
        };
        let mut outage = Self { sim: Simulation::new(settings, &rules), rules, agents, admitted: Vec::new() };
        outage.pass(KNOWN_MS);
        outage
    }

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

    /// Asks an agent at one instant; returns the number of admissions.
    fn burst(&mut self, agent: usize, key: &str, calls: usize) -> usize {
        for _ in 0..calls {
            self.sim.check(agent, vec![Call::new().with("api_key", key.to_owned())]);
        }
        let answers: Vec<_> = self.sim.observations().collect();
        let is_admitted = |observation: &&Observation<'_>| matches!(observation, Observation::Answered(answered) if answered.is_admitted);
        answers.iter().filter(is_admitted).count()
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
            // Units of leases that nobody has spent would be missing.
            let settings = "quota: 90/min, estimate: conservative, leases: off";
            let mut outage = Outage::of(3, &format!("{settings}, on_failure: {on_failure}"));
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

/// A caller whom one agent has served before the outage of Redis; three agents, 10/min, signals alive.
fn known_caller(agents: &[usize], calls: usize, gap_ms: u64) -> usize {
    let mut outage = Outage::of(3, "quota: 10/min, estimate: conservative");
    assert_eq!(outage.calls(&[0], "k", 1, SIGNALLED_MS), 1);
    outage.fail(true);
    let admitted = outage.calls(agents, "k", calls, gap_ms);
    assert!(admitted as u64 <= outage.bound().by_signals, "{admitted} and one before");
    admitted
}

/// I3: of a quota of 10 per minute, a caller who was served in the last window keeps nearly all while Redis is down, at one
/// agent or spread, and most of it in one burst. A caller whom nobody knows has an equal part in a burst.
#[test]
fn a_known_caller_keeps_its_quota_by_signals() {
    for agents in [&[0][..], &[1], &[0, 1, 2]] {
        let admitted = 1 + known_caller(agents, 20, SIGNALLED_MS);
        assert!((9..=11).contains(&admitted), "{agents:?}: {admitted}");
    }
    let mut outage = Outage::of(3, "quota: 10/min, estimate: conservative");
    assert_eq!(outage.calls(&[0], "known", 1, SIGNALLED_MS), 1);
    outage.fail(true);
    assert_eq!(outage.burst(0, "known", 20), 6, "half of nine, and a third of the other half");
    assert_eq!((0..3).map(|agent| outage.burst(agent, "new", 1)).sum::<usize>(), 3);
    let mut outage = Outage::of(3, "quota: 10/min, estimate: conservative");
    outage.fail(true);
    assert_eq!(outage.burst(0, "new", 20), 3, "an equal part");
}

/// I1, I4: with a burst, three agents have their parts of what the store has left free, and the sum is within the
/// printed bound. With signals, the burst of a caller whom nobody knows goes by the traffic, of which the first agent
/// has all.
#[test]
fn a_known_caller_keeps_its_burst_without_the_store() {
    // Settings; calls through the store and those that are left for the outage, without signals.
    let cases = [
        ("quota: 60/h, algorithm: token_bucket, burst: 90", 60, 30),
        ("quota: 60/h, algorithm: leaky_bucket, burst: 90", 60, 30),
        ("quota: 30/h, burst: 90", 60, 30),
        ("quota: 60/h, algorithm: token_bucket, burst: 90", 0, 90),
        ("quota: 30/h, burst: 90", 0, 90),
    ];
    for (settings, before, left) in cases {
        for with_signals in [true, false] {
            let mut outage = Outage::of(3, settings);
            assert_eq!(outage.calls(&[0, 1, 2], "k", before, 0), before, "{settings}");
            outage.fail(with_signals);
            let admitted = (0..3).map(|agent| outage.calls(&[agent], "k", 60, 0)).sum::<usize>();
            let bound = outage.bound();
            let most = if with_signals { bound.by_signals } else { bound.alone.expect("a bound") };
            assert!((before + admitted) as u64 <= most, "{settings}, {with_signals}: {admitted} of {most}");
            let is_right = match (with_signals, before) {
                (true, 0) => 2 * admitted >= left,
                (true, _) => admitted + 3 >= left,
                (false, _) => admitted.abs_diff(left) <= 3,
            };
            assert!(is_right, "{settings}, {with_signals}: {admitted}, {left} left");
        }
    }
}

/// never-over while the store is down: whatever callers do, no window holds more than the printed bound; with signals,
/// the calls of the time in which the signals of two agents differ are added.
#[test]
fn no_window_exceeds_the_printed_bound() {
    let mut fullest = 0;
    for seed in 0..SEEDS {
        let mut rng = Rng::with_seed(seed);
        let (agents, with_signals) = (rng.usize(2..5), rng.bool());
        let on_failure = ["share", "limit 2/10s", "closed", "open"][rng.usize(0..4)];
        let consistency = ["strict", "bounded"][rng.usize(0..2)];
        let quota = rng.u64(2..30);
        let settings = match seed % 4 {
            0 => format!("algorithm: token_bucket, burst: {quota}, consistency: {consistency}"),
            1 => format!("algorithm: leaky_bucket, burst: {}, consistency: {consistency}", 2 * quota),
            2 => format!("estimate: conservative, burst: {}, consistency: bounded", 2 * quota),
            _ => format!("estimate: conservative, consistency: {consistency}"),
        };
        let settings = format!("quota: {quota}/10s, on_failure: {on_failure}, {settings}");
        let mut outage = Outage::of(agents, &settings);
        let mut calls: Vec<(Timestamp, bool)> = Vec::new();
        for call in 0..180 {
            if call == 60 {
                outage.fail(with_signals);
            }
            // A caller stays at an agent for a while. Without the bus, no agent misses another one in this time.
            let agent = if rng.u8(0..4) == 0 { rng.usize(0..agents) } else { call / 20 % agents };
            let is_admitted = outage.check(agent, "k").is_some();
            calls.push((outage.sim.now(), is_admitted));
            outage.pass(rng.u64(0..60));
        }
        let count = |end: Timestamp, width_ms: u64, only: bool| {
            calls.iter().filter(|(at, is)| *at <= end && end.ms_since(*at) < width_ms && (*is || !only)).count() as u64
        };
        let bound = outage.bound();
        for (end, _) in &calls {
            let held = count(*end, 10_000, true);
            let most = match (with_signals, bound.alone) {
                (true, _) => bound.by_signals + count(*end, FRESH_MS, false),
                (false, Some(most)) => most,
                (false, None) => continue,
            };
            assert!(
                held <= most,
                "seed {seed}: {held} of {most} in a fleet of {agents}, signals {with_signals}: {settings}"
            );
            fullest = fullest.max(held * 100 / most);
        }
    }
    println!("the fullest window held {fullest} % of its bound");
    assert!(fullest > 80, "{fullest} %: nothing came close, which proves nothing");
}
