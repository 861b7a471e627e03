//! Rules under `consistency: eventual` in simulated fleets: signals and the agents' own admissions decide. The store is
//! never asked, an outage of it changes nothing, and the excess of a window is at most the demand of one signal lag.

use std::collections::{BTreeMap, BTreeSet};

use fastrand::Rng;
use tollgate::Call;
use tollgate_core::clock::Timestamp;
use tollgate_core::counter::DigestKey;
use tollgate_core::decided_call::DecidedCall;
use tollgate_core::decision::Source;
use tollgate_core::messages::signals::FRESH_MS;
use tollgate_engine::Engine;
use tollgate_sim::{AnsweredCall, Correction, Faults, Observation, SimSettings, Simulation, StoreState};

const START: Timestamp = Timestamp::from_ms(1_700_000_040_000);
/// Time after which all agents know each other and have read signals for long enough, in ms.
const KNOWN_MS: u64 = 3_500;
/// Longest time from an admission until all agents have a signal that contains it, in ms.
const LAG_MS: u64 = 400;
const QUOTA: u64 = 100;
const WIDTH_MS: u64 = 5_000;
const AGENTS: usize = 3;
const SEEDS: u64 = 4;
/// The rule whose guarantees are tested.
const RULE: &str = "name: key, per: [api_key], quota: 100/5s, estimate: conservative, consistency: eventual";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Deployment {
    /// The store answers.
    StoreUp,
    /// The store refuses every request.
    StoreDown,
    NoStore,
}

struct EventualFleet {
    sim: Simulation<'static>,
    /// Number of charges that the store was asked for, executed or not.
    asked: usize,
}

impl EventualFleet {
    fn start(seed: u64, deployment: Deployment, rules: &str) -> Self {
        let text = format!("version: 1\nrules: [{rules}]");
        let rules = tollgate_rules::from_yaml("rules.yaml", &text, 1).expect("valid rules");
        let settings = SimSettings {
            seed,
            has_store: deployment != Deployment::NoStore,
            faults: Faults { store_ms_max: 1, bus_ms_max: 20, ack_ms_max: 10, ..Faults::default() },
            ..SimSettings::fleet(START, AGENTS)
        };
        let mut sim = Simulation::new(settings, &rules);
        if deployment == Deployment::StoreDown {
            sim.set_store(StoreState::Refusing);
        }
        let mut fleet = Self { sim, asked: 0 };
        fleet.pass(KNOWN_MS);
        fleet
    }

    /// Returns the calls that were answered.
    fn pass(&mut self, ms: u64) -> Vec<AnsweredCall<'static>> {
        self.sim.run_until(self.sim.now().plus_ms(ms));
        let mut answered = Vec::new();
        for observation in self.sim.observations() {
            match observation {
                Observation::Answered(call) => answered.push(call),
                Observation::Executed { charges, .. } | Observation::Finished { charges, .. } => {
                    self.asked += charges.len();
                }
                _ => {}
            }
        }
        answered
    }

    /// Asks an agent about one call at once.
    fn ask(&mut self, agent: usize, call: Call<'static>) -> AnsweredCall<'static> {
        self.sim.check(agent, vec![call]);
        self.pass(30).pop().expect("an answer")
    }

    fn admits(&mut self, agent: usize, key: &'static str, cost: u64) -> bool {
        self.ask(agent, Call::new().with("api_key", key).costing(cost)).is_admitted
    }
}

/// Returns the units of the fullest window.
fn fullest(admitted: &[u64]) -> u64 {
    let in_window = |(index, at): (usize, &u64)| {
        admitted[index..].iter().take_while(|later| **later < at + WIDTH_MS).count() as u64
    };
    admitted.iter().enumerate().map(in_window).max().unwrap_or_default()
}

/// I5: an abuser who calls at all agents gets the quota and what it asks for in one signal lag. Honest callers get
/// everything. Whether a store is there makes no difference.
#[test]
fn the_excess_is_the_demand_of_one_signal_lag_with_and_without_a_store() {
    for deployment in [Deployment::StoreUp, Deployment::StoreDown, Deployment::NoStore] {
        for seed in 0..SEEDS {
            let mut fleet = EventualFleet::start(seed, deployment, &format!("{{ {RULE} }}"));
            let mut rng = Rng::with_seed(seed);
            // Callers, and their calls in a second.
            let callers = [("honest", 9), ("over", 60), ("abuser", 400)];
            let (mut admitted, mut sources) = (BTreeMap::<&str, Vec<u64>>::new(), BTreeSet::new());
            let mut denied = BTreeMap::<&str, usize>::new();
            for _ in 0..1_500 {
                for (caller, rate) in callers {
                    let calls = rate / 100 + u64::from(rng.u64(0..100) < rate % 100);
                    for _ in 0..calls {
                        fleet.sim.check(rng.usize(0..AGENTS), vec![Call::new().with("api_key", caller)]);
                    }
                }
                for answered in fleet.pass(10) {
                    let caller = answered.call.get("api_key").expect("a caller");
                    let caller = callers.iter().find(|(name, _)| *name == caller).expect("known").0;
                    assert_eq!(answered.arrived, answered.answered, "no call waits");
                    assert!(!answered.decision.is_degraded(), "{deployment:?}");
                    sources.insert(answered.decision.source);
                    if answered.is_admitted {
                        admitted.entry(caller).or_default().push(answered.arrived.ms_since(START));
                    } else {
                        *denied.entry(caller).or_default() += 1;
                    }
                }
            }
            assert_eq!(sources, BTreeSet::from([Source::Signal]), "{deployment:?}");
            assert_eq!(fleet.asked, 0, "{deployment:?}: the store is never asked");
            assert_eq!(denied.get("honest"), None, "{deployment:?}, seed {seed}");
            for (caller, rate) in callers {
                // A lag's demand of a random load varies.
                let demand = rate * LAG_MS * 3 / 2_000 + 2;
                let most = fullest(&admitted[caller]);
                assert!(most <= QUOTA + demand, "{deployment:?}, seed {seed}: {caller} got {most} in a window");
            }
            assert!(fullest(&admitted["over"]) >= QUOTA * 8 / 10, "{deployment:?}, seed {seed}: the quota is used");
            assert!(denied["over"] > 0 && denied["abuser"] > 0);
            let is_degraded = |engine: &Engine| engine.is_degraded();
            for agent in fleet.sim.agents() {
                let engine = agent.engine().expect("it runs");
                assert_eq!(is_degraded(engine), deployment == Deployment::StoreDown);
                assert_eq!(engine.metrics().unsynced_units.get(), 0, "nothing waits for the store");
            }
            assert_eq!(fleet.sim.store().counters(), 0);
        }
    }
}

/// I5: free units are not divided: one agent may admit them all at one instant.
#[test]
fn a_burst_at_one_agent_has_the_whole_quota() {
    let mut fleet = EventualFleet::start(1, Deployment::StoreUp, &format!("{{ {RULE} }}"));
    for _ in 0..120 {
        fleet.sim.check(0, vec![Call::new().with("api_key", "k")]);
    }
    let answered = fleet.pass(0);
    let admitted = answered.iter().filter(|call| call.is_admitted).count();
    assert_eq!((answered.len(), admitted), (120, 100));
    let retry_ms = answered[119].decision.status.as_ref().expect("a rule").retry_after_ms;
    fleet.pass(LAG_MS);
    assert!(!fleet.admits(1, "k", 1), "the others know it by a signal");
    assert!(retry_ms > 0 && retry_ms <= WIDTH_MS + 600);
    fleet.pass(WIDTH_MS + 500);
    assert!(fleet.admits(2, "k", 100), "the window has passed");
}

/// Without fresh signals `on_failure` decides, and the answer is degraded.
#[test]
fn without_signals_on_failure_decides() {
    for (on_failure, admitted) in [("share", 33), ("open", 120), ("closed", 0), ("limit 5/5s", 5)] {
        let rule = format!("{{ {RULE}, on_failure: {on_failure} }}");
        let mut fleet = EventualFleet::start(1, Deployment::StoreUp, &rule);
        fleet.sim.set_bus_up(false);
        fleet.pass(KNOWN_MS);
        for _ in 0..120 {
            fleet.sim.check(0, vec![Call::new().with("api_key", "k")]);
        }
        let answered = fleet.pass(0);
        assert!(answered.iter().all(|call| call.decision.is_degraded() && call.decision.source == Source::Fallback));
        assert_eq!(answered.iter().filter(|call| call.is_admitted).count(), admitted, "{on_failure}");
        fleet.sim.set_bus_up(true);
        fleet.pass(KNOWN_MS);
        assert_eq!(fleet.ask(0, Call::new().with("api_key", "n")).decision.source, Source::Signal);
        assert_eq!(fleet.asked, 0, "{on_failure}");
    }
}

/// E6: the clock of the bus is ahead by an hour for a second, and the aggregator dies then. Its signals are outdated after
/// the usual time, and not only an hour later.
#[test]
fn signals_of_a_dead_aggregator_are_outdated_although_the_clock_of_the_bus_was_ahead() {
    for deployment in [Deployment::StoreUp, Deployment::NoStore] {
        let mut fleet = EventualFleet::start(1, deployment, &format!("{{ {RULE}, on_failure: closed }}"));
        assert!(fleet.admits(0, "k", 1));
        fleet.sim.step_bus_clock(3_600_000);
        fleet.pass(1_000);
        fleet.sim.crash_aggregator(0);
        fleet.sim.step_bus_clock(-3_600_000);
        fleet.pass(FRESH_MS + LAG_MS);
        for agent in 0..AGENTS {
            let denied = fleet.ask(agent, Call::new().with("api_key", "k"));
            assert_eq!((denied.is_admitted, denied.decision.source), (false, Source::Fallback), "{deployment:?}");
        }
        fleet.sim.start_aggregator(0);
        fleet.pass(2 * KNOWN_MS);
        let admitted = fleet.ask(0, Call::new().with("api_key", "n"));
        assert_eq!((admitted.is_admitted, admitted.decision.source), (true, Source::Signal), "{deployment:?}");
    }
}

/// A call with two rules is counted under the one without a store only if the store admits it, too.
#[test]
fn a_call_that_the_store_denies_is_not_counted() {
    let rules = format!("{{ {RULE} }}, {{ name: tight, per: [], quota: 3/5s, consistency: strict }}");
    let mut fleet = EventualFleet::start(1, Deployment::StoreUp, &rules);
    let admitted = (0..50).filter(|_| fleet.admits(0, "k", 2)).count();
    assert_eq!(admitted, 1);
    fleet.pass(WIDTH_MS - 1_800);
    // Of 100 units, at most those of one call are taken: that of before, or one that is admitted now.
    let answered = fleet.ask(0, Call::new().with("api_key", "k"));
    assert!(answered.is_admitted, "{answered:?}");
    assert_eq!(answered.decision.source, Source::Store, "the tighter rule is shown");
    let charges = fleet.asked;
    fleet.sim.set_store(StoreState::Silent);
    for call in 0..4 {
        assert!(!fleet.admits(1, "k", 2), "call {call}: the store is late");
    }
    assert!(fleet.asked > charges);
    fleet.sim.set_store(StoreState::Up);
    fleet.pass(WIDTH_MS + LAG_MS);
    // What `tight` leaves; the other counter has room for all of it.
    assert!(fleet.admits(1, "k", 3));
    let names: BTreeSet<_> = fleet
        .sim
        .agents()
        .iter()
        .filter_map(|agent| agent.engine())
        .map(|engine| engine.metrics().unsynced_units.get())
        .collect();
    assert_eq!(names, BTreeSet::from([0]));
}

/// F10: a settlement corrects the count without the store, once per agent.
#[test]
fn a_settlement_corrects_the_count() {
    let mut fleet = EventualFleet::start(1, Deployment::StoreUp, &format!("{{ {RULE} }}"));
    let answered = fleet.ask(0, Call::new().with("api_key", "k").costing(90));
    assert!(answered.is_admitted && !fleet.admits(0, "k", 50));
    let decided = DecidedCall::new(&DigestKey::default(), &answered.call, &answered.decision).expect("admitted");
    for _ in 0..3 {
        fleet.sim.correct(0, answered.call.clone(), Correction::Settle(-80, Some(decided.clone())));
    }
    fleet.pass(LAG_MS);
    assert!(fleet.admits(0, "k", 50), "10 of 100 are taken");
    assert!(!fleet.admits(0, "k", 50), "60 of 100 are taken: the refund was made once");
    fleet.pass(LAG_MS);
    assert!(!fleet.admits(1, "k", 50) && fleet.admits(1, "k", 35), "the others know it by signals");
    assert_eq!(fleet.asked, 0);
}

/// A rule in shadow denies nothing and counts what it would deny.
#[test]
fn a_shadow_rule_counts_its_denials() {
    let mut fleet = EventualFleet::start(1, Deployment::NoStore, &format!("{{ {RULE}, shadow: true }}"));
    for _ in 0..120 {
        fleet.sim.check(0, vec![Call::new().with("api_key", "k")]);
    }
    assert!(fleet.pass(0).iter().all(|call| call.is_admitted));
    let rules = fleet.sim.agents()[0].engine().expect("it runs").metrics().rules();
    let denials: u64 = rules.iter().map(|(_, counts)| counts.shadow_denials.get()).sum();
    assert_eq!(denials, 20);
}
