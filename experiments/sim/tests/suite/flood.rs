//! Floods of invented callers past the cap on counters, in the simulation: honest newcomers pass, callers known before stay
//! limited, memory stays within its cap, and the log tells the begin and the end once.
//!
//! The agent's bus is down, so that the log of the calls does not fill the memory of the test.

use tollgate::Call;
use tollgate_core::clock::Timestamp;
use tollgate_engine::{HeldEntries, Notice, SKETCH_BYTES_DEFAULT};
use tollgate_servers::scaled;
use tollgate_sim::{Observation, SimAgentSettings, SimSettings, Simulation};

const START: Timestamp = Timestamp::from_ms(1_763_700_000_000);
/// Cap on the counters of each agent.
const COUNTERS_MAX: usize = 10_000;
/// Length of the full flood in seconds, and invented callers in each ms of it.
const FLOOD_S: u64 = 600;
const INVENTED_PER_MS: u64 = 20;
/// Seconds from one honest newcomer to the next.
const NEWCOMER_EVERY_S: u64 = 3;
/// Time after which the sketches are dropped and the swept table has room, in ms: ten seconds, and a turn of the sweep.
const ENDED_MS: u64 = 20_000;

/// Agents under one rule.
struct Flood {
    sim: Simulation<'static>,
    /// Lines of the log about the cap.
    told: Vec<Notice>,
    invented: u64,
}

impl Flood {
    fn new(agents: usize, owns_table: bool, sketch_bytes: usize, quota: &str) -> Self {
        let text =
            format!("version: 1\nrules: [{{ name: per-key, per: [api_key], quota: {quota}, consistency: strict }}]");
        let settings = SimSettings {
            agents: vec![SimAgentSettings { owns_table, ..SimAgentSettings::default() }; agents],
            has_bus: true,
            counters_max: COUNTERS_MAX,
            sketch_bytes,
            ..SimSettings::instant(START)
        };
        let rules = tollgate_rules::from_yaml("rules.yaml", &text, 1).expect("valid rules");
        let mut sim = Simulation::new(settings, &rules);
        sim.set_bus_up(false);
        Self { sim, told: Vec::new(), invented: 0 }
    }

    fn pass(&mut self, ms: u64) {
        self.sim.run_until(self.sim.now().plus_ms(ms));
    }

    /// Asks an agent for one unit; returns true if it is admitted.
    fn admits(&mut self, agent: usize, key: String) -> bool {
        self.sim.check(agent, vec![Call::new().with("api_key", key)]);
        self.pass(0);
        let mut admitted = None;
        for observation in self.sim.observations() {
            match observation {
                Observation::Answered(call) => admitted = Some(call.decision.allowed),
                Observation::Notified(_, notice @ (Notice::TableFull { .. } | Notice::TableHasRoom)) => {
                    self.told.push(notice);
                }
                _ => {}
            }
        }
        admitted.expect("the call is answered at once")
    }

    fn admitted(&mut self, agent: usize, key: &str, calls: u64) -> u64 {
        (0..calls).filter(|_| self.admits(agent, key.to_owned())).count() as u64
    }

    /// Lets invented callers call once each at an agent, for some time.
    fn invent(&mut self, agent: usize, ms: u64) {
        for _ in 0..ms {
            for _ in 0..INVENTED_PER_MS {
                self.invented += 1;
                self.admits(agent, format!("invented-{}", self.invented));
            }
            self.pass(1);
        }
    }

    fn held(&self, agent: usize) -> HeldEntries {
        self.sim.agents()[agent].engine().expect("it runs").held()
    }
}

/// K5, capped: for ten minutes at 20,000 invented keys per second and 1000/24h, honest newcomers at one call per second
/// pass at 99%, callers who had used up their quota before stay limited, and nobody passes more than a quota. By
/// default a tenth of the time, with a tenth of the memory: the error depends on the number of callers per byte.
#[test]
fn honest_newcomers_pass_and_known_callers_stay_limited_during_a_flood() {
    let sketch_bytes = usize::try_from(scaled(SKETCH_BYTES_DEFAULT as u64)).unwrap();
    let mut flood = Flood::new(1, true, sketch_bytes, "1000/24h");
    let known = |number: u64| format!("known-{number}");
    assert!((0..5).all(|number| flood.admitted(0, &known(number), 1_001) == 1_000));
    let (mut calls, mut passed) = (0, 0);
    for second in 0..scaled(FLOOD_S) {
        flood.invent(0, 1_000);
        for newcomer in 0..second / NEWCOMER_EVERY_S {
            calls += 1;
            passed += flood.admitted(0, &format!("newcomer-{newcomer}"), 1);
        }
        assert_eq!(flood.admitted(0, &known(second % 5), 1), 0, "a caller known before, in second {second}");
        let held = flood.held(0);
        assert!(held.counters <= COUNTERS_MAX + 2 && held.sketch_bytes <= sketch_bytes, "{held:?}");
    }
    assert!(passed * 100 >= calls * 99, "{passed} of {calls} calls of newcomers passed");
    let greedy = flood.admitted(0, "greedy", 1_500);
    assert!((950..=1_000).contains(&greedy), "a newcomer has its quota and no more: {greedy}");
    assert_eq!(flood.told, [Notice::TableFull { counters_max: COUNTERS_MAX }]);
}

/// capped: when the callers of a flood have left, the memory is given back, and newcomers have counters of their own.
/// The log tells the begin and the end once each, however many callers came.
#[test]
fn after_a_flood_the_table_has_room_again() {
    let mut flood = Flood::new(1, true, SKETCH_BYTES_DEFAULT, "10/s");
    flood.invent(0, 3_000);
    assert!(flood.held(0).sketch_bytes > 0);
    flood.pass(ENDED_MS);
    flood.admits(0, "afterwards".to_owned());
    let held = flood.held(0);
    assert_eq!((held.counters, held.sketch_bytes), (1, 0));
    assert_eq!(flood.told, [Notice::TableFull { counters_max: COUNTERS_MAX }, Notice::TableHasRoom]);
}

/// never-over in a fleet: a caller has the quota where it is known, and at each flooded agent that does not know it
/// that agent's part, as `docs/fleet.md` states.
#[test]
fn in_a_fleet_a_caller_has_its_quota_and_the_parts_of_the_flooded_agents() {
    const AGENTS: usize = 3;
    let mut flood = Flood::new(AGENTS, false, SKETCH_BYTES_DEFAULT / 10, "90/24h");
    flood.pass(10_000);
    assert_eq!(flood.admitted(0, "greedy", 100), 90);
    for agent in 1..AGENTS {
        flood.invent(agent, 1_000);
        assert_eq!(flood.admitted(agent, "greedy", 100), 90 / AGENTS as u64);
    }
    assert_eq!(flood.admitted(0, "greedy", 100), 0);
}
