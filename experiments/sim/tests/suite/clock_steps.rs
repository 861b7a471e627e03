//! Steps of the store's clock, of every size: each agent notices them, tells them once, and no caller is locked out for
//! longer than a window of the store's clock, also at an agent that sends no charge because it only repeats denials.

use tollgate::Call;
use tollgate_core::clock::Timestamp;
use tollgate_core::counter::DigestKey;
use tollgate_core::decision::Source;
use tollgate_core::messages::signals::FRESH_MS;
use tollgate_engine::Notice;
use tollgate_sim::{Faults, Observation, SimSettings, Simulation, StoreLoss, StoreState};

const START: Timestamp = Timestamp::from_ms(1_763_700_000_000);
const RULES: &str = "
version: 1
defaults: { consistency: strict }
rules: [{ name: key, per: [api_key], quota: 100/min }]
";
const AGENTS: usize = 3;
/// Width of the window and of a sub-window, in ms.
const WIDTH_MS: u64 = 60_000;
const PART_MS: u64 = 5_000;
/// Time after which an agent asks the store again, or tells of a step without any call, in ms.
const CHECKED_MS: u64 = 250;
const RESYNC_MS: u64 = 10_100;

/// A fleet whose callers have no units left.
struct Fleet {
    sim: Simulation<'static>,
    told: Vec<(usize, Notice)>,
    /// Sources of the decisions since the last look.
    sources: Vec<Source>,
}

impl Fleet {
    /// A fleet at the begin of a sub-window.
    fn new() -> Self {
        let rules = tollgate_rules::from_yaml("rules.yaml", RULES, 1).expect("valid rules");
        let settings = SimSettings {
            faults: Faults { store_ms_max: 2, ..Faults::default() },
            ..SimSettings::fleet(START, AGENTS)
        };
        Self { sim: Simulation::new(settings, &rules), told: Vec::new(), sources: Vec::new() }
    }

    /// Admits the quota at the first agent; then every agent denies, and repeats that.
    fn full() -> Self {
        let mut fleet = Self::new();
        fleet.pass(1_000);
        assert!((0..100).all(|_| fleet.admits(0)));
        assert!((0..AGENTS).all(|agent| !fleet.admits(agent)));
        fleet
    }

    fn pass(&mut self, ms: u64) -> Vec<(usize, bool)> {
        let until = self.sim.now().plus_ms(ms);
        self.sim.run_until(until);
        let mut answered = Vec::new();
        for observation in self.sim.observations() {
            match observation {
                Observation::Notified(agent, notice) => self.told.push((agent, notice)),
                Observation::Answered(call) => {
                    self.sources.push(call.decision.source);
                    answered.push((call.agent, call.decision.allowed));
                }
                _ => {}
            }
        }
        answered
    }

    fn admits(&mut self, agent: usize) -> bool {
        self.admits_units(agent, 1)
    }

    fn admits_units(&mut self, agent: usize, units: u64) -> bool {
        self.sim.check(agent, vec![Call::new().with("api_key", "k").costing(units)]);
        self.pass(10).contains(&(agent, true))
    }

    /// Lets calls on other keys come to each agent; returns the sources of their decisions, each once.
    fn sources(&mut self) -> Vec<Source> {
        self.sources.clear();
        for key in 0..20 {
            for agent in 0..AGENTS {
                self.sim.check(agent, vec![Call::new().with("api_key", format!("other {key}"))]);
            }
        }
        self.pass(50);
        self.sources.dedup();
        self.sources.clone()
    }

    /// Ends the store, after each agent has seen its time; every breaker opens.
    fn lose_store(&mut self) {
        self.pass(RESYNC_MS);
        self.sim.set_store(StoreState::Unreachable);
        while !self.sim.agents().iter().all(|agent| agent.engine().is_some_and(tollgate_engine::Engine::is_degraded)) {
            self.sources();
        }
    }

    /// Lets calls come to each agent, until one is admitted; returns the time since, in ms.
    fn room_after_ms(&mut self, agent: usize) -> u64 {
        let began = self.sim.now();
        while !self.admits(agent) {
            self.pass(90);
            assert!(self.sim.now().ms_since(began) < 3 * WIDTH_MS, "agent {agent} is locked out");
        }
        self.sim.now().ms_since(began)
    }

    fn step(&mut self, by_ms: i64) {
        self.sim.step_store_clock(by_ms);
    }

    /// Returns the number of lines about steps back, or forward.
    fn told(&self, is_back: bool) -> usize {
        let told = |(_, notice): &&(usize, Notice)| match notice {
            Notice::StoreClockSteppedBack(_) => is_back,
            Notice::StoreClockSteppedForward(_) => !is_back,
            _ => false,
        };
        self.told.iter().filter(told).count()
    }
}

/// one-truth-of-time: after a step back, the next call at each agent is admitted once the units have left, a window and a
/// sub-window later at most; before that, only if they have left.
#[test]
fn after_a_step_back_no_caller_is_locked_out_and_no_unit_is_given_twice() {
    for back_ms in [1_500, 4_850, 29_999, 30_000, 30_150, 60_000, 61_000, 3_600_000] {
        for agent in 0..AGENTS {
            let mut fleet = Fleet::full();
            fleet.step(-back_ms);
            let room_ms = fleet.room_after_ms(agent);
            let (earliest, latest) = (WIDTH_MS - 2_000, WIDTH_MS + PART_MS + 1_000);
            assert!((earliest..=latest).contains(&room_ms), "{back_ms} ms back: room after {room_ms} ms at {agent}");
            fleet.pass(RESYNC_MS);
            assert_eq!(fleet.told(true), AGENTS, "each agent tells of {back_ms} ms once: {:?}", fleet.told);
        }
    }
}

/// never-over: the quota is charged at the end of a sub-window, the next one begins, and the clock steps back to the end of
/// another one. No unit leaves before a window has passed.
#[test]
fn no_unit_leaves_early_when_the_clock_steps_back_from_the_edge_of_a_sub_window() {
    for agent in 0..AGENTS {
        let mut fleet = Fleet::new();
        fleet.pass(PART_MS - 10);
        assert!(fleet.admits_units(0, 100) && !fleet.admits(agent));
        // An agent asks the store again within 250 ms.
        fleet.step(-30_500);
        let room_ms = fleet.room_after_ms(agent);
        assert!((WIDTH_MS - 100..=WIDTH_MS + PART_MS).contains(&room_ms), "room after {room_ms} ms");
    }
}

/// A glitch forward empties the windows, and the step back is as any other. Each agent tells of both.
#[test]
fn a_glitch_of_the_clock_locks_nobody_out() {
    for by_ms in [90_000, 3_600_000] {
        for lasts_ms in [300, 12_000] {
            let mut fleet = Fleet::full();
            fleet.step(by_ms);
            fleet.pass(lasts_ms);
            // Requests that would have expired by the old time are decided without the store, until a ping tells the
            // new one.
            assert!((0..AGENTS).all(|agent| fleet.room_after_ms(agent) < 1_000), "the window is empty");
            while fleet.admits(0) {}
            assert!((0..AGENTS).all(|agent| !fleet.admits(agent)));
            fleet.step(-by_ms);
            let room_ms = fleet.room_after_ms(1);
            assert!(room_ms <= WIDTH_MS + PART_MS + 1_000, "{by_ms} ms for {lasts_ms} ms: room after {room_ms} ms");
            fleet.pass(RESYNC_MS);
            assert_eq!((fleet.told(false), fleet.told(true)), (AGENTS, AGENTS), "{:?}", fleet.told);
        }
    }
}

/// C7, one-truth-of-time: an agent without a single call learns of a step within ten seconds, from a ping.
#[test]
fn an_agent_without_calls_learns_of_a_step_within_ten_seconds() {
    let mut fleet = Fleet::full();
    fleet.step(-30_000);
    fleet.pass(RESYNC_MS);
    assert_eq!(fleet.told(true), AGENTS);
}

/// true-denial: an agent that repeats a denial asks the store again after 250 ms, whatever the store's clock shows.
#[test]
fn a_denial_is_checked_by_the_agents_own_clock() {
    let mut fleet = Fleet::full();
    fleet.step(-3_600_000);
    fleet.pass(CHECKED_MS);
    assert!(!fleet.admits(2));
    assert!(matches!(fleet.told[..], [(2, Notice::StoreClockSteppedBack(_))]), "{:?}", fleet.told);
}

/// A step forward of the store's clock takes no decision from the store: the answer that a request has expired tells the new
/// time, and the request is sent once more.
#[test]
fn after_a_step_forward_the_store_decides_every_call() {
    for by_ms in [1_500, 30_000, 3_600_000, -30_000, -3_600_000] {
        let mut fleet = Fleet::new();
        fleet.pass(1_000);
        fleet.step(by_ms);
        assert_eq!(fleet.sources(), [Source::Store], "{by_ms}");
    }
}

/// E6, one-truth-of-time: signals age by the clock of the bus. If the aggregator ends, they are stale 3 s later,
/// whatever the store's clock showed last; and beside a store whose clock is not that of the bus they never decide.
#[test]
fn signals_do_not_stay_fresh_after_a_step_of_the_stores_clock() {
    for (by_ms, while_signalled) in
        [(0, Source::Signal), (-3_600_000, Source::Fallback), (3_600_000, Source::Fallback), (-1_500, Source::Signal)]
    {
        let mut fleet = Fleet::new();
        fleet.pass(4_000);
        fleet.step(by_ms);
        fleet.lose_store();
        assert_eq!(fleet.sources(), [while_signalled], "{by_ms}");
        fleet.sim.crash_aggregator(0);
        fleet.pass(FRESH_MS + 100);
        assert_eq!(fleet.sources(), [Source::Fallback], "{by_ms}: no signals");
    }
}

/// one-truth-of-time: after a step back, signals go on to count units at times that are in the future of the store.
/// They lock no caller out when the store ends, and the aggregator, too.
#[test]
fn signals_from_before_a_step_back_lock_nobody_out() {
    for back_ms in [30_000, 3_600_000] {
        let mut fleet = Fleet::full();
        fleet.pass(4_000);
        fleet.step(-back_ms);
        fleet.lose_store();
        fleet.sim.crash_aggregator(0);
        let room_ms = (0..AGENTS).map(|agent| fleet.room_after_ms(agent)).max();
        assert!(room_ms <= Some(WIDTH_MS + PART_MS), "{back_ms} ms back: room after {room_ms:?} ms");
    }
}

/// I12: a clock that was an hour ahead for a while hides no loss of a counter afterwards.
#[test]
fn a_lost_counter_is_noticed_although_the_clock_was_ahead_before() {
    let mut fleet = Fleet::new();
    fleet.pass(1_000);
    for by_ms in [3_600_000, -3_600_000] {
        fleet.sources();
        fleet.step(by_ms);
        fleet.pass(RESYNC_MS);
    }
    let before = (0..60).filter(|_| fleet.admits(0)).count();
    fleet.sim.lose(StoreLoss::Counter(DigestKey::default().counter("key", ["k"])));
    let after = (0..100).filter(|_| fleet.admits(0)).count();
    assert_eq!(before, 60);
    assert!(before + after <= 105, "{after} more than {before} of 100");
}
