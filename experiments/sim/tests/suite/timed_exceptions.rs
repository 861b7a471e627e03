//! Exceptions that end by themselves, in a simulated fleet whose agents have wrong clocks: the time of the store ends them.

use tollgate::{Call, Decision};
use tollgate_core::clock::Timestamp;
use tollgate_sim::{Faults, Observation, SimAgentSettings, SimSettings, Simulation};

/// `more` has a higher quota and `less` a lower one until 20 s after the start.
const RULES: &str = "
version: 1
rules:
  - name: key
    per: [api_key]
    quota: 60/h
    consistency: strict
    deadline: 1s
    keys:
      more: { quota: x2, until: 2025-11-21T04:00:20Z }
      less: { quota: 1/h, until: 2025-11-21T04:00:20Z }
  - { name: ip, per: [ip], quota: 1000/min, shadow: true }
";
/// 2025-11-21T04:00:00Z.
const START: Timestamp = Timestamp::from_ms(1_763_697_600_000);
const END: Timestamp = START.plus_ms(20_000);
/// Offsets of the agents' clocks, in ms.
const CLOCK_OFFSETS_MS: [i64; 3] = [30_000, -30_000, 0];

fn decide(sim: &mut Simulation<'_>, agent: usize, key: &str) -> Decision {
    sim.observations();
    sim.check(agent, vec![Call::new().with("ip", "192.0.2.1").with("api_key", key.to_owned())]);
    sim.run_until(sim.now().plus_ms(5));
    let answered = sim.observations().find_map(|observation| match observation {
        Observation::Answered(call) => Some(call.decision),
        _ => None,
    });
    answered.expect("a decision")
}

/// Decides a call at each agent; returns the limits and whether they passed.
fn at_each_agent(sim: &mut Simulation<'_>, key: &str) -> [(u64, bool); 3] {
    [0, 1, 2].map(|agent| {
        let decision = decide(sim, agent, key);
        (decision.status.expect("a status").limit, decision.allowed)
    })
}

/// G2, G4: an exception ends at its instant of store time at every agent, within 2 s, whatever the clocks of the agents show. The
/// counts are kept, and a denial by the lower quota ends with it.
#[test]
fn exceptions_end_by_the_time_of_the_store_at_every_agent() {
    let rules = tollgate_rules::from_yaml("rules.yaml", RULES, 1).expect("valid rules");
    let agent = |clock_offset_ms| SimAgentSettings { clock_offset_ms, ..SimAgentSettings::default() };
    let settings = SimSettings {
        seed: 7,
        agents: CLOCK_OFFSETS_MS.map(agent).to_vec(),
        faults: Faults { store_ms_max: 1, bus_ms_max: 50, ..Faults::default() },
        ..SimSettings::fleet(START, CLOCK_OFFSETS_MS.len())
    };
    let mut sim = Simulation::new(settings, &rules);
    sim.run_until(START.plus_ms(3_000));
    assert_eq!(at_each_agent(&mut sim, "more"), [(120, true); 3]);
    assert_eq!(at_each_agent(&mut sim, "less"), [(1, true), (1, false), (1, false)]);
    for _ in 0..80 {
        let _ = decide(&mut sim, 0, "more");
    }
    sim.run_until(Timestamp::from_ms(END.as_ms() - 200));
    assert_eq!(at_each_agent(&mut sim, "more"), [(120, true); 3]);
    assert_eq!(at_each_agent(&mut sim, "less"), [(1, false); 3]);
    sim.run_until(END.plus_ms(2_000));
    assert_eq!(at_each_agent(&mut sim, "more"), [(60, false); 3], "what it used is counted");
    assert_eq!(at_each_agent(&mut sim, "less"), [(60, true); 3], "no denial is left");
}
