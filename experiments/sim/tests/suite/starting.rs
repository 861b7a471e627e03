//! The first seconds of an agent, while the store comes and goes or its connection is still being made: who is admitted
//! before the agent has joined the fleet, and who waits for the store.

use tollgate::{Call, RuleSet};
use tollgate_core::clock::Timestamp;
use tollgate_core::decision::{LocalAnswer, Source};
use tollgate_engine::{Engine, FleetPart};
use tollgate_sim::{Faults, Observation, SimSettings, Simulation, StoreState};

const START: Timestamp = Timestamp::from_ms(1_763_700_000_000);
const RULES: &str = "rules: [{ name: key, per: [api_key], quota: 100/min, consistency: bounded }]";
/// Time until the presence set is old enough to be believed, and two heartbeats, in ms.
const FIRST_MS: u64 = 16_000;
/// Time for which the store is away, and then there, in ms.
const AWAY_MS: u64 = 1_000;
const APART_MS: u64 = 50;
/// Calls of each caller.
const CALLS: usize = 10;

fn fleet(agents: usize) -> (Simulation<'static>, RuleSet) {
    fleet_under(RULES, agents)
}

fn fleet_under(rules: &str, agents: usize) -> (Simulation<'static>, RuleSet) {
    let rules = tollgate_rules::from_yaml("rules.yaml", rules, 1).expect("valid rules");
    let settings = SimSettings {
        seed: 1,
        aggregators: 0,
        faults: Faults { store_ms_max: 2, bus_ms_max: 5, ..Faults::default() },
        ..SimSettings::fleet(START, agents)
    };
    (Simulation::new(settings, &rules), rules)
}

/// Lets callers call an agent for so long, while the store is away each other second. Returns the number of calls that the
/// agent decided without the store, and the times of the denials since now.
fn while_the_store_comes_and_goes(sim: &mut Simulation<'static>, agent: usize, ms: u64) -> (usize, Vec<u64>) {
    let (start, mut alone, mut denied, mut call) = (sim.now(), 0, Vec::new(), 0);
    while sim.now() < start.plus_ms(ms) {
        let is_away = (sim.now().ms_since(start) / AWAY_MS).is_multiple_of(2);
        sim.set_store(if is_away { StoreState::Unreachable } else { StoreState::Up });
        sim.check(agent, vec![Call::new().with("api_key", format!("caller {}", call / CALLS))]);
        sim.run_until(sim.now().plus_ms(APART_MS));
        for observation in sim.observations() {
            if let Observation::Answered(answered) = observation {
                alone += usize::from(answered.decision.source == Source::Fallback);
                denied.extend((!answered.is_admitted).then(|| answered.answered.ms_since(start)));
            }
        }
        call += 1;
    }
    sim.set_store(StoreState::Up);
    (alone, denied)
}

/// no-wait, never-over: the calls that an agent gets before its first connection to the store wait for it, and the
/// store decides them. None waits longer than its deadline, even if the connection never comes.
#[test]
fn calls_wait_for_the_first_connection_until_their_deadline() {
    let rules =
        "rules: [{ name: key, per: [api_key], quota: 100/min, consistency: strict, deadline: 1s, on_failure: open }]";
    for connected_after_ms in [0, 200, 500, 900, u64::MAX] {
        let (mut sim, _) = fleet_under(rules, 1);
        sim.set_store(StoreState::Silent);
        for ms in (0..4_000).step_by(50) {
            if ms == connected_after_ms {
                sim.set_store(StoreState::Up);
            }
            sim.check(0, vec![Call::new().with("api_key", format!("caller {}", ms / 200))]);
            sim.run_until(START.plus_ms(ms + 50));
        }
        sim.run_until(START.plus_ms(6_000));
        let mut by_store = 0;
        for observation in sim.observations() {
            let Observation::Answered(answered) = observation else { continue };
            let waited_ms = answered.answered.ms_since(answered.arrived);
            let name =
                format!("connected after {connected_after_ms} ms, called {:?}", answered.arrived.ms_since(START));
            assert!(answered.is_admitted && waited_ms <= 1_000, "{name}: {waited_ms} ms");
            by_store += usize::from(answered.decision.source == Source::Store);
        }
        assert_eq!(by_store, if connected_after_ms == u64::MAX { 0 } else { 80 }, "after {connected_after_ms} ms");
    }
}

/// never-over, E7: an agent that is alone denies no honest call in its first seconds, although the store is away half the
/// time: with a bus, without one, after a restart, and where the presence set is old.
#[test]
fn an_agent_alone_denies_no_call_in_its_first_seconds() {
    for (is_bus_up, restarts_after_ms) in [(true, None), (false, None), (true, Some(20_000)), (false, Some(1_000))] {
        let (mut sim, rules) = fleet(1);
        sim.set_bus_up(is_bus_up);
        if let Some(ms) = restarts_after_ms {
            sim.run_until(sim.now().plus_ms(ms));
            sim.crash_agent(0);
            sim.start_agent(0, &rules);
        }
        let (alone, denied) = while_the_store_comes_and_goes(&mut sim, 0, FIRST_MS);
        let name = format!("bus {is_bus_up}, restart after {restarts_after_ms:?} ms");
        assert!(alone > 50, "{name}: {alone}");
        assert_eq!(denied, [0; 0], "{name}: beside {alone} calls without the store, denied at these ms");
    }
}

/// never-over: an agent that joins others takes its part two heartbeats after its own was received, and not before;
/// from then on it denies no honest call.
#[test]
fn an_agent_that_joins_others_has_no_part_before_they_have_heard_it() {
    for leaver in [1, 2] {
        let (mut sim, rules) = fleet(3);
        sim.run_until(sim.now().plus_ms(20_000));
        sim.crash_agent(leaver);
        sim.run_until(sim.now().plus_ms(20_000));
        sim.start_agent(leaver, &rules);
        let (joined, mut sum) = (sim.now(), 0.0_f64);
        let mut has_part_after = None;
        while sim.now() < joined.plus_ms(5_000) {
            sim.run_until(sim.now().plus_ms(20));
            let parts = sim.agents().iter().map(|agent| agent.engine().map_or(FleetPart::Nothing, Engine::fleet_part));
            let parts: Vec<u32> = parts.map(|part| part.agents().map_or(0, std::num::NonZeroU32::get)).collect();
            // An agent that has met nobody yet, in its first ms, goes by the expected number.
            if sim.now().ms_since(joined) >= 100 {
                sum = sum.max(parts.iter().filter(|part| **part > 0).map(|part| 1.0 / f64::from(*part)).sum());
                has_part_after = has_part_after.or((parts[leaver] > 0).then(|| sim.now().ms_since(joined)));
            }
        }
        let has_part_after = has_part_after.expect("it takes its part");
        assert!((1_800..=3_500).contains(&has_part_after), "{has_part_after} ms");
        assert!(sum <= 1.000_001, "{sum}");
        sim.observations();
        let (alone, denied) = while_the_store_comes_and_goes(&mut sim, leaver, FIRST_MS);
        assert!(alone > 50 && denied.is_empty(), "beside {alone} calls without the store, denied at: {denied:?}");
    }
}

/// never-over: a hundred agents that start at once, and are called from their first ms on, admit together what the rule states in
/// every window, although none knows the others yet. The calls of an agent come in bursts, so that agents lease, and draw on lines.
#[test]
fn a_hundred_agents_that_start_at_once_stay_within_the_bound() {
    const AGENTS: usize = 100;
    const WIDTH_MS: u64 = 4_000;
    const QUOTA: usize = 20_000;
    for consistency in ["strict", "bounded"] {
        let settings = format!("quota: {QUOTA}/{WIDTH_MS}ms, consistency: {consistency}, estimate: conservative");
        let (mut sim, _) = fleet_under(&format!("rules: [{{ name: key, per: [api_key], {settings} }}]"), AGENTS);
        let mut admitted: Vec<(Timestamp, Option<LocalAnswer>)> = Vec::new();
        for step in 0..3 * WIDTH_MS / 2 {
            // Two ms each, in which three agents are called six times: nearly twice the quota. Each agent is called again after
            // 67 ms, while a sub-window lasts 333 ms.
            for agent in 0..3 {
                let agent = usize::try_from(step * 3).expect("few") + agent;
                for _ in 0..6 {
                    sim.check(agent % AGENTS, vec![Call::new().with("api_key", "k")]);
                }
            }
            sim.run_until(START.plus_ms(2 * (step + 1)));
            let observations: Vec<_> = sim.observations().collect();
            let shown = |answered| sim.store().time(answered);
            for observation in observations {
                if let Observation::Answered(call) = observation
                    && call.is_admitted
                {
                    // An agent knows the store's time within bounds only.
                    admitted.push((call.decision.at.min(shown(call.answered)), call.decision.by));
                }
            }
        }
        admitted.sort_unstable_by_key(|(at, _)| *at);
        let from = |end: Timestamp| admitted.partition_point(|(at, _)| at.plus_ms(WIDTH_MS) <= end);
        let fullest = admitted.iter().enumerate().map(|(place, (end, _))| place + 1 - from(*end)).max();
        let by = |answer| admitted.iter().filter(|(_, by)| *by == Some(answer)).count();
        let leased = by(LocalAnswer::Lease);
        println!("{consistency}: {} admitted, {leased} by leases, {fullest:?} in the fullest window", admitted.len());
        assert!(fullest.is_some_and(|most| (QUOTA / 10 * 9..=QUOTA).contains(&most)), "{consistency}: {fullest:?}");
        assert!(leased > 0, "{consistency}");
    }
}
