//! Resets in a simulated fleet: a caller that is denied at every agent passes at every agent within a second.

use tollgate::{Call, Decision};
use tollgate_core::clock::Timestamp;
use tollgate_sim::{Correction, Faults, Observation, SimSettings, Simulation, StoreLoss, StoreState};

const START: Timestamp = Timestamp::from_ms(1_763_700_000_000);
const AGENTS: usize = 3;
/// Two rules in each call. No call of the second can be settled, so its cached denials last for 10 s.
const RULES: &str = "
version: 1
rules:
  - { name: tenant, per: [tenant], quota: 10_000/h }
  - { name: key, per: [api_key], quota: 60/h, cost: 1 }
";
const PATIENT: &str = "
version: 1
rules: [{ name: key, per: [api_key], quota: 30/h, cost: 1, deadline: 1s }]
";
const EVENTUAL: &str = "
version: 1
rules: [{ name: key, per: [api_key], quota: 60/h, consistency: eventual }]
";

struct World {
    sim: Simulation<'static>,
}

impl World {
    fn start(rules: &str, seed: u64) -> Self {
        Self::start_with(rules, seed, (1, 50))
    }

    /// Starts with the maximum delays of the store and of the bus, in ms.
    fn start_with(rules: &str, seed: u64, (store_ms_max, bus_ms_max): (u64, u64)) -> Self {
        let rules = tollgate_rules::from_yaml("rules.yaml", rules, 1).expect("valid rules");
        let settings = SimSettings {
            seed,
            faults: Faults { store_ms_max, bus_ms_max, ..Faults::default() },
            // Signals of all counters: after a loss, one without a signal opens at the threshold.
            threshold_permille: 0,
            ..SimSettings::fleet(START, AGENTS)
        };
        let mut world = Self { sim: Simulation::new(settings, &rules) };
        world.pass(5_000);
        world
    }

    fn pass(&mut self, ms: u64) {
        self.sim.run_until(self.sim.now().plus_ms(ms));
    }

    fn decide(&mut self, agent: usize, key: &'static str) -> Decision {
        self.sim.observations();
        self.sim.check(agent, vec![Call::new().with("tenant", "t").with("api_key", key)]);
        self.pass(5);
        let answered = self.sim.observations().find_map(|observation| match observation {
            Observation::Answered(call) => Some(call.decision),
            _ => None,
        });
        answered.expect("a decision")
    }

    /// Calls at all agents in turn until each has denied one; returns the number of admitted calls.
    fn exhaust(&mut self, key: &'static str) -> usize {
        let (mut admitted, mut denied) = (0, [false; AGENTS]);
        for agent in (0..AGENTS).cycle().take(600) {
            if self.decide(agent, key).allowed {
                admitted += 1;
            } else {
                denied[agent] = true;
            }
            if denied == [true; AGENTS] {
                return admitted;
            }
        }
        panic!("{admitted} calls were admitted, and {denied:?} denied")
    }

    fn reset(&mut self, agent: usize, key: &'static str) {
        let call = Call::new().with("tenant", "t").with("api_key", key);
        self.sim.correct(agent, call, Correction::Reset);
    }
}

/// A caller under two rules is reset at one agent: within a second every agent admits it again, and a whole quota passes, with at
/// most the units of leases more. Other callers stay denied. The signals of the aggregator follow, so nothing is lost by an
/// outage of the store afterwards.
#[test]
fn a_reset_passes_at_every_agent_within_a_second() {
    for seed in 0..20 {
        let mut world = World::start(RULES, seed);
        assert_eq!((world.exhaust("k"), world.exhaust("other")), (60, 60));
        world.pass(2_000);
        world.reset(1, "k");
        world.pass(1_000);
        for agent in 0..AGENTS {
            assert!(world.decide(agent, "k").allowed, "agent {agent} of seed {seed}");
            assert!(!world.decide(agent, "other").allowed, "agent {agent} of seed {seed}");
        }
        let again = AGENTS + world.exhaust("k");
        assert!((60..=63).contains(&again), "seed {seed}: {again} admitted");
        world.pass(2_000);
        world.sim.set_store(StoreState::Unreachable);
        world.pass(2_000);
        for agent in 0..AGENTS {
            assert!(!world.decide(agent, "k").allowed, "agent {agent} of seed {seed} by signals");
        }
    }
}

/// No store counts: all agents and the aggregator forget what they have counted.
#[test]
fn a_reset_needs_no_store_under_an_eventual_rule() {
    for seed in 0..20 {
        let mut world = World::start(EVENTUAL, seed);
        let first = world.exhaust("k");
        world.pass(3_000);
        world.reset(0, "k");
        world.pass(1_000);
        for agent in 0..AGENTS {
            assert!(world.decide(agent, "k").allowed, "agent {agent} of seed {seed}");
        }
        let again = AGENTS + world.exhaust("k");
        // Agents admit beyond the quota what no signal tells them in time.
        assert!(
            first >= 60 && again >= 60 && again.abs_diff(first) < 15,
            "seed {seed}: {first}, then {again} admitted"
        );
        world.pass(3_000);
        for agent in 0..AGENTS {
            assert!(!world.decide(agent, "k").allowed, "agent {agent} of seed {seed} by signals");
        }
    }
}

/// A store that lost the counter later gets back what was used since the reset, and no unit of before.
#[test]
fn units_of_before_a_reset_never_come_back() {
    let mut world = World::start(RULES, 3);
    world.exhaust("k");
    world.pass(2_000);
    world.reset(2, "k");
    world.pass(2_000);
    for _ in 0..10 {
        assert!(world.decide(0, "k").allowed);
    }
    world.pass(2_000);
    world.sim.lose(StoreLoss::All);
    world.pass(5_000);
    let again = world.exhaust("k");
    assert!((45..=50).contains(&again), "{again} admitted");
}

/// An agent may receive a reset before the answer to a request that the store denied earlier. Such a denial is not kept.
#[test]
fn an_answer_of_before_the_reset_is_not_remembered() {
    for seed in 0..40 {
        let mut world = World::start_with(PATIENT, seed, (100, 5));
        let call = || Call::new().with("tenant", "t").with("api_key", "k");
        for _ in 0..60 {
            world.sim.check(0, vec![call()]);
            world.pass(200);
        }
        for agent in 0..AGENTS {
            world.sim.check(agent, vec![call()]);
        }
        world.reset(1, "k");
        world.pass(1_000);
        for agent in 0..AGENTS {
            world.sim.observations();
            world.sim.check(agent, vec![call()]);
            world.pass(200);
            let mut answers = world.sim.observations().filter_map(|observation| match observation {
                Observation::Answered(call) => Some(call.decision.allowed),
                _ => None,
            });
            assert_eq!(answers.next(), Some(true), "agent {agent} of seed {seed}");
        }
    }
}

/// While the store is down, a reset empties nothing, and units that the store must still learn of are not forgotten.
#[test]
fn a_reset_without_the_store_loses_no_unit() {
    for seed in 0..10 {
        let mut world = World::start(RULES, seed);
        world.sim.set_store(StoreState::Unreachable);
        world.pass(2_000);
        let admitted = (0..10).filter(|_| world.decide(1, "k").allowed).count();
        assert!(admitted > 0, "seed {seed}");
        world.reset(1, "k");
        world.pass(2_000);
        world.sim.set_store(StoreState::Up);
        world.pass(5_000);
        assert_eq!(admitted + world.exhaust("k"), 60, "seed {seed}");
    }
}
