//! The emergency switch in a simulated fleet: every agent learns it, without a store, after a restart, and until it is off.

use tollgate::{Call, Decision, Quota, Source};
use tollgate_core::clock::Timestamp;
use tollgate_core::rules::RuleSet;
use tollgate_sim::{Faults, Observation, SimAgentSettings, SimSettings, Simulation, StoreState};

const RULES: &str = "
version: 1
lists: { deny: [{ ip: 6.6.6.6 }] }
rules: [{ name: key, per: [api_key], quota: 2/h, consistency: strict }]
";
const START: Timestamp = Timestamp::from_ms(1_763_700_000_000);
/// Time in which all agents learn a change: two heartbeats and the delay of the bus, in ms.
const TOLD_MS: u64 = 2_500;
/// Offsets of the agents' clocks, in ms: the order of changes must not depend on them.
const CLOCK_OFFSETS_MS: [i64; 3] = [400, -400, 0];

struct World {
    sim: Simulation<'static>,
    rules: RuleSet,
}

impl World {
    fn start() -> Self {
        let rules = tollgate_rules::from_yaml("rules.yaml", RULES, 1).expect("valid rules");
        let agent = |clock_offset_ms| SimAgentSettings { clock_offset_ms, ..SimAgentSettings::default() };
        let settings = SimSettings {
            seed: 5,
            agents: CLOCK_OFFSETS_MS.map(agent).to_vec(),
            faults: Faults { store_ms_max: 1, bus_ms_max: 50, ..Faults::default() },
            threshold_permille: 0,
            ..SimSettings::fleet(START, CLOCK_OFFSETS_MS.len())
        };
        let mut world = Self { sim: Simulation::new(settings, &rules), rules };
        world.pass(3_000);
        world
    }

    fn pass(&mut self, ms: u64) {
        self.sim.run_until(self.sim.now().plus_ms(ms));
    }

    /// Switches at one agent, by its own clock.
    fn switch(&mut self, agent: usize, quota: Option<&str>) {
        let offset_ms = CLOCK_OFFSETS_MS[agent];
        let own_now = Timestamp::from_ms(self.sim.now().as_ms().saturating_add_signed(offset_ms));
        let quota = quota.map(|quota| quota.parse().expect("a quota"));
        self.sim.agents()[agent].engine().expect("it runs").switch_emergency(own_now, quota);
    }

    fn quotas(&self) -> Vec<Option<Quota>> {
        let quota = |engine: &tollgate_engine::Engine| engine.emergency().and_then(|switch| switch.quota);
        self.sim.agents().iter().map(|agent| agent.engine().and_then(quota)).collect()
    }

    /// Decides a call with a key that no other call has.
    fn decide(&mut self, agent: usize, ip: &str) -> Decision {
        self.sim.observations();
        let key = format!("key-{}", self.sim.now().as_ms());
        self.sim.check(agent, vec![Call::new().with("ip", ip.to_owned()).with("api_key", key)]);
        self.pass(5);
        let answered = self.sim.observations().find_map(|observation| match observation {
            Observation::Answered(call) => Some(call.decision),
            _ => None,
        });
        answered.expect("a decision")
    }
}

/// I5: while the switch is on, the 11th call in a second of an IP is denied at every agent, by a visible rule and
/// without the store; other callers pass, the deny list denies. An agent that starts later learns it. It ends when it
/// is switched off anywhere, although clocks differ.
#[test]
fn the_switch_reaches_every_agent_and_holds_until_it_is_off() {
    let mut world = World::start();
    world.switch(0, Some("10/s"));
    world.pass(TOLD_MS);
    let on = Some("10/s".parse::<Quota>().expect("a quota"));
    assert_eq!(world.quotas(), [on; 3]);

    world.sim.set_store(StoreState::Unreachable);
    for agent in 0..3 {
        let decisions: Vec<Decision> = (0..11).map(|_| world.decide(agent, "1.2.3.4")).collect();
        assert_eq!(decisions.iter().filter(|decision| decision.allowed).count(), 10, "agent {agent}");
        for decision in &decisions {
            let status = decision.status.as_ref().expect("a status");
            assert_eq!((&*status.rule, status.limit, decision.source), ("emergency", 10, Source::Fallback));
        }
        assert!(
            !decisions[10].allowed && decisions[10].status.as_ref().is_some_and(|status| status.retry_after_ms > 0)
        );
        assert!(world.decide(agent, "1.2.3.5").allowed);
        assert!(!world.decide(agent, "6.6.6.6").allowed, "the deny list denies");
    }
    world.sim.set_store(StoreState::Up);

    world.sim.crash_agent(1);
    world.pass(1_000);
    let rules = world.rules.clone();
    world.sim.start_agent(1, &rules);
    assert_eq!(world.quotas(), [on, None, on]);
    world.pass(TOLD_MS);
    assert_eq!(world.quotas(), [on; 3], "an agent that starts later learns it");

    // The clock of this agent is behind that of the agent that switched it on.
    world.switch(1, None);
    world.pass(TOLD_MS);
    assert_eq!(world.quotas(), [None; 3]);
    let decision = world.decide(2, "1.2.3.4");
    assert_eq!((decision.allowed, decision.source), (true, Source::Store));
    assert_eq!(decision.status.map(|status| status.rule.to_string()).as_deref(), Some("key"));
}

/// I5: the last change that an agent knew holds after its restart, if it has a state directory, although neither bus
/// nor store is available. A change that it missed replaces it once the bus is back.
#[test]
fn the_saved_change_holds_after_a_restart_without_the_bus() {
    let mut world = World::start();
    world.switch(1, Some("10/s"));
    world.pass(TOLD_MS);
    let on = Some("10/s".parse::<Quota>().expect("a quota"));
    assert_eq!(world.quotas(), [on; 3]);
    world.sim.set_bus_up(false);
    world.sim.set_store(StoreState::Unreachable);
    let rules = world.rules.clone();
    for agent in 0..2 {
        world.sim.crash_agent(agent);
        world.sim.start_agent(agent, &rules);
    }
    world.pass(1_000);
    assert_eq!(world.quotas(), [on, None, on], "the second agent has no state directory");
    let decisions: Vec<Decision> = (0..11).map(|_| world.decide(0, "1.2.3.4")).collect();
    assert_eq!(decisions.iter().filter(|decision| decision.allowed).count(), 10);

    world.switch(2, None);
    world.pass(1_000);
    world.sim.crash_agent(0);
    world.sim.start_agent(0, &rules);
    world.pass(1_000);
    assert_eq!(world.quotas(), [on, None, None], "the bus has told nobody");
    world.sim.set_bus_up(true);
    world.pass(TOLD_MS);
    assert_eq!(world.quotas(), [None; 3]);
}

/// New rules do not end the emergency, and a change from the far future is not believed.
#[test]
fn only_a_later_change_ends_it() {
    let mut world = World::start();
    world.switch(0, Some("10/s"));
    let mut rules = world.rules.clone();
    rules.generation = 2;
    world.sim.set_rules(0, rules).expect("newer rules");
    assert_eq!(world.decide(0, "1.2.3.4").status.expect("a status").rule.to_string(), "emergency");
    let engine = world.sim.agents()[0].engine().expect("it runs");
    let (known, now) = (engine.emergency().expect("a change"), world.sim.now());
    for changed_at in [known.changed_at.minus_ms(1), Timestamp::from_ms(u64::MAX)] {
        engine.learn_emergency(now, tollgate_core::messages::emergency::EmergencySwitch { quota: None, changed_at });
        assert_eq!(engine.emergency(), Some(known));
    }
}
