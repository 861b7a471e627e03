//! A store that loses what it has acknowledged, beside a bus that is alive: a flush, a restart without data, a deleted
//! counter, and a failover to a replica that lacks the newest writes.

use std::collections::{BTreeMap, VecDeque};

use fastrand::Rng;
use tollgate::Call;
use tollgate_core::clock::Timestamp;
use tollgate_core::counter::{CounterId, DigestKey};
use tollgate_engine::Notice;
use tollgate_servers::scaled;
use tollgate_sim::{Faults, Observation, SimSettings, Simulation, StoreLoss, StoreState};

const START: Timestamp = Timestamp::from_ms(1_763_700_000_000);
const QUOTA: u64 = 100;
const WINDOW_MS: u64 = 6_000;
const AGENTS: usize = 3;
const KEYS: [&str; 3] = ["a", "b", "c"];
const RUN_MS: u64 = 12_000;
/// Time in which an admission is in the signals of all agents, in ms.
const LAG_MS: u64 = 150;
/// Interval at which an agent looks for a loss of the whole store, and the time of a request, in ms.
const WITNESS_MS: u64 = 1_060;
/// Time after a loss in which counters are opened twice, in ms.
const OPENED_MS: u64 = 3_500;
const SEEDS: u64 = 300;

/// A kind of loss.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Nothing,
    Flush,
    /// The store is away for so long and comes back empty.
    EmptyRestart(u64),
    Counter(&'static str),
    /// The writes of so many ms are missing.
    Failover(u64),
}

/// Admissions and arrivals of one caller in true time.
#[derive(Default)]
struct Caller {
    admitted: VecDeque<u64>,
    arrived: VecDeque<u64>,
    /// Most calls within one lag.
    demand: u64,
    fullest: u64,
}

#[derive(Debug)]
struct Run {
    fullest: u64,
    demand: u64,
    lost: u64,
    forgotten: u64,
    waiting: usize,
    /// Agents that found the loss of the whole store, and the longest time that one of them needed.
    found: usize,
    found_after_ms: u64,
    /// Time whose writes a failover lost, in ms.
    tail_ms: u64,
    /// Most units of a caller that the store lacked some time after the loss.
    lacking: u64,
}

impl Caller {
    fn arrive(&mut self, now: u64) {
        self.arrived.push_back(now);
        while self.arrived.front().is_some_and(|at| at + LAG_MS <= now) {
            self.arrived.pop_front();
        }
        self.demand = self.demand.max(self.arrived.len() as u64);
    }

    fn admit(&mut self, now: u64) {
        self.admitted.push_back(now);
        while self.admitted.front().is_some_and(|at| at + WINDOW_MS <= now) {
            self.admitted.pop_front();
        }
        self.fullest = self.fullest.max(self.admitted.len() as u64);
    }

    /// Returns the units of the window that the store lacks.
    fn lacking(&self, sim: &Simulation<'_>, key: &str) -> u64 {
        let now = sim.now().as_ms();
        let admitted = self.admitted.iter().filter(|at| **at + WINDOW_MS > now).count() as u64;
        let stored = sim.store().peek(counter(key)).map(|state| state.admitted()).unwrap_or_default();
        admitted
            .saturating_sub(stored.iter().filter(|(at, _)| at.as_ms() + WINDOW_MS > now).map(|(_, units)| units).sum())
    }
}

fn counter(key: &str) -> CounterId {
    DigestKey::default().counter("key", std::iter::once(key))
}

fn run(seed: u64, kind: Kind) -> Run {
    let text = format!(
        "version: 1\nrules: [{{ name: key, per: [api_key], quota: {QUOTA}/{}s, consistency: strict }}]\n",
        WINDOW_MS / 1_000
    );
    let rules = tollgate_rules::from_yaml("rules.yaml", &text, 1).expect("valid rules");
    let settings = SimSettings {
        seed,
        partitions: 2,
        faults: Faults { store_ms_max: 1, bus_ms_max: 10, ..Faults::default() },
        ..SimSettings::fleet(START, AGENTS)
    };
    let (mut rng, mut sim) = (Rng::with_seed(seed), Simulation::new(settings, &rules));
    let mut callers: BTreeMap<&str, Caller> = KEYS.map(|key| (key, Caller::default())).into();
    // Calls come evenly, or in bursts with pauses.
    let (loss_ms, gap_ms, is_bursty) = (rng.u64(4_000..8_000), rng.u64(4..16), rng.bool());
    let (mut repair_at, mut lacking) = (None, None);
    let (mut replicated_at, mut is_lost, mut lost_at, mut found) =
        (None, kind == Kind::Nothing, START, BTreeMap::new());
    while sim.now().ms_since(START) < RUN_MS {
        let elapsed = sim.now().ms_since(START);
        if let (Kind::Failover(tail_ms), None) = (kind, replicated_at)
            && elapsed + tail_ms >= loss_ms
        {
            replicated_at = Some(sim.now());
            sim.replicate();
        }
        if !is_lost && elapsed >= loss_ms {
            (is_lost, lost_at) = (true, sim.now());
            match kind {
                Kind::Nothing => {}
                Kind::Flush => sim.lose(StoreLoss::All),
                Kind::EmptyRestart(away_ms) => {
                    sim.set_store(StoreState::Unreachable);
                    sim.lose(StoreLoss::All);
                    repair_at = Some(sim.now().plus_ms(away_ms));
                }
                Kind::Counter(key) => {
                    sim.lose(StoreLoss::Counter(counter(key)));
                }
                Kind::Failover(_) => sim.lose(StoreLoss::SinceReplicated),
            }
        }
        if repair_at.is_some_and(|at| sim.now() >= at) {
            (repair_at, lost_at) = (None, sim.now());
            sim.set_store(StoreState::Up);
        }
        let pause = if is_bursty && rng.u8(0..100) == 0 { rng.u64(0..2_000) } else { rng.u64(0..=gap_ms) };
        let until = sim.now().plus_ms(pause);
        step(&mut sim, until, &mut callers, &mut found);
        if is_lost && repair_at.is_none() && lacking.is_none() && sim.now().ms_since(lost_at) >= OPENED_MS {
            lacking = callers.iter().map(|(key, caller)| caller.lacking(&sim, key)).max();
        }
        let (agent, key) = (rng.usize(0..AGENTS), KEYS[rng.usize(0..KEYS.len())]);
        callers.get_mut(key).expect("a caller").arrive(sim.now().as_ms());
        sim.check(agent, vec![Call::new().with("api_key", key)]);
    }
    let until = sim.now().plus_ms(2_000);
    step(&mut sim, until, &mut callers, &mut found);
    let sum =
        |of: fn(&tollgate_engine::Engine) -> u64| sim.agents().iter().filter_map(|agent| agent.engine()).map(of).sum();
    let fullest = callers.values().max_by_key(|caller| caller.fullest.saturating_sub(caller.demand)).expect("callers");
    Run {
        fullest: fullest.fullest,
        demand: fullest.demand,
        lost: sum(|engine| engine.metrics().store_lost.get()),
        forgotten: sum(|engine| engine.metrics().lost_forgotten.get() + engine.metrics().unsynced_forgotten.get()),
        waiting: sim.agents().iter().filter_map(|agent| agent.engine()).map(|engine| engine.held().lost_counters).sum(),
        found: found.len(),
        found_after_ms: found.values().map(|at: &Timestamp| at.ms_since(lost_at)).max().unwrap_or_default(),
        tail_ms: replicated_at.map_or(0, |at| lost_at.ms_since(at)),
        lacking: lacking.unwrap_or_default(),
    }
}

fn step(
    sim: &mut Simulation<'static>,
    until: Timestamp,
    callers: &mut BTreeMap<&str, Caller>,
    found: &mut BTreeMap<usize, Timestamp>,
) {
    while sim.step_until(until) {
        let now = sim.now();
        for observation in sim.observations() {
            match observation {
                Observation::Answered(answered) if answered.decision.allowed => {
                    let key = answered.call.get("api_key").expect("a key");
                    callers.get_mut(key).expect("a caller").admit(answered.answered.as_ms());
                }
                Observation::Notified(agent, Notice::StoreLost) => {
                    found.entry(agent).or_insert(now);
                }
                _ => {}
            }
        }
    }
}

/// I10, I12: whatever the store loses, a window holds at most the quota, 5% of it, and the demand of one signal lag; a
/// loss of the whole store is found by every agent, and a deleted counter is not taken for one.
#[test]
fn a_store_that_loses_units_gets_them_again_from_signals_and_agents() {
    let (seeds, mut lacked) = (scaled(SEEDS), 0);
    for seed in 0..seeds {
        let mut rng = Rng::with_seed(seed);
        let kind = match seed % 5 {
            0 => Kind::Nothing,
            1 => Kind::Flush,
            2 => Kind::EmptyRestart(rng.u64(50..1_500)),
            3 => Kind::Counter(KEYS[rng.usize(0..KEYS.len())]),
            _ => Kind::Failover(rng.u64(20..1_500)),
        };
        let run = run(seed, kind);
        println!("seed {seed}: {kind:?}: {run:?}");
        let context = || format!("seed {seed}: {kind:?}: {run:?}");
        assert!(run.fullest <= QUOTA + QUOTA / 20 + run.demand, "{}", context());
        assert_eq!((run.forgotten, run.waiting), (0, 0), "{}", context());
        lacked += u64::from(run.lacking > 0);
        match kind {
            Kind::Nothing => assert_eq!((run.lost, run.found), (0, 0), "{}", context()),
            Kind::Counter(_) => assert_eq!(run.found, 0, "{}", context()),
            Kind::Flush | Kind::EmptyRestart(_) => {
                assert!(run.found == AGENTS && run.found_after_ms <= WITNESS_MS, "{}", context());
            }
            // A tail shorter than the interval of the witness may hold none.
            Kind::Failover(_) => assert!(run.found == AGENTS || run.tail_ms < WITNESS_MS, "{}", context()),
        }
    }
    // Units that are in no signal yet when a counter is opened the second time.
    assert!(lacked * 20 <= seeds, "{lacked} of {seeds} stores lacked units in the end");
}
