//! One run of the random world: a fleet, its faults and its incidents, all drawn from one seed.

mod incidents;
mod rules;

use std::hash::{DefaultHasher, Hash, Hasher};

use fastrand::Rng;
use tollgate_bus::Topic;
use tollgate_core::clock::Timestamp;
use tollgate_experiments::sim::{
    AnsweredCall, Faults, PlantedBug, SimAgentSettings, SimSettings, Simulation, StoreState, Workload,
};

use crate::invariants::{Invariants, START, Totals};
use incidents::Incidents;

/// Virtual time of a run, in ms, and its minimum number of calls.
const RUN_MS: u64 = 10_000;
const CALLS_MIN: usize = 500;
/// Maximum number of times that a request is made at once.
const BURST_LEN_MAX: usize = 6;
/// Maximum time between two calls, in ms.
const GAP_MS_MAX: u64 = 30;
/// Quiet time at the end, after which everything must be settled, in ms. A store that relapsed is probed twice a second.
const QUIET_MS: u64 = 6_000;

/// The result of a run.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Run {
    pub(crate) totals: Totals,
    pub(crate) calls: usize,
    /// Digest of all answers and all logs.
    pub(crate) trace: u64,
}

/// Runs a seed.
pub(crate) fn run(seed: u64, bug: Option<PlantedBug>) -> Result<Run, String> {
    let mut rng = Rng::with_seed(seed);
    let settings = settings(seed, &mut rng);
    let callers = rng.usize(1..12);
    let mut workload = Workload::new(rng.u64(..), callers);
    let mut checks = Invariants::new(rules::all(), rules::FIRST, settings.counters_max);
    let mut sim = Simulation::new(settings.clone(), &rules::generation(rules::FIRST));
    let mut incidents = Incidents::new(&mut rng, &mut sim);
    if let Some(bug) = bug {
        sim.plant(bug);
    }
    let mut trace = DefaultHasher::new();
    let mut calls = 0;
    while sim.now().ms_since(START) < RUN_MS || calls < CALLS_MIN {
        let until = sim.now().plus_ms(rng.u64(0..=GAP_MS_MAX));
        step(&mut sim, &mut checks, until, &mut workload, &mut trace)?;
        let agent = rng.usize(0..sim.agents().len());
        if sim.agents()[agent].is_scheduled(sim.now()) {
            let request = workload.request(group(&sim, agent));
            // Now and then, a client makes the same request several times at once.
            let times = if rng.u8(0..8) == 0 { rng.usize(2..=BURST_LEN_MAX) } else { 1 };
            for _ in 0..times {
                calls += request.len();
                checks.arrive(agent, request.len());
                sim.check(agent, request.clone());
                check(&mut sim, &mut checks, &mut workload, &mut trace)?;
            }
        }
        incidents.strike(&mut rng, &mut sim);
    }
    incidents.end(&mut sim);
    sim.set_store(StoreState::Up);
    sim.set_faults(Faults { store_ms_max: 1, bus_ms_max: 5, ..Faults::default() });
    let until = sim.now().plus_ms(QUIET_MS);
    step(&mut sim, &mut checks, until, &mut workload, &mut trace)?;
    let totals = checks.finish(&sim)?;
    digest(&sim, &mut trace);
    Ok(Run { totals, calls, trace: trace.finish() })
}

fn settings(seed: u64, rng: &mut Rng) -> SimSettings {
    let mut percent = |max: u8| if rng.bool() { 0 } else { rng.u8(0..=max) };
    let faults = Faults {
        store_refused_percent: percent(3),
        store_answer_lost_percent: percent(5),
        record_lost_percent: percent(15),
        record_duplicated_percent: percent(25),
        garbage_percent: percent(5),
        ack_negated_percent: percent(5),
        ack_lost_percent: percent(5),
        // Half of the stores answer in time, half of them often do not.
        store_ms_max: if rng.bool() { 2 } else { 16 },
        bus_ms_max: rng.u64(1..60),
        bus_late_ms: 0,
        ack_ms_max: if rng.bool() { 5 } else { 250 },
        queue_len_max: (rng.u8(0..3) == 0).then(|| rng.usize(2..8)),
    };
    // In half of the seeds, one agent keeps its own table.
    let agent = |index: usize, rng: &mut Rng| SimAgentSettings {
        clock_offset_ms: rng.i64(-400..400),
        owns_table: index == 0 && seed % 2 == 1,
    };
    SimSettings {
        start: START,
        seed,
        agents: (0..rng.usize(2..5)).map(|index| agent(index, rng)).collect(),
        agents_down: 0,
        aggregators: 2,
        has_bus: true,
        has_store: true,
        partitions: rng.u32(1..5),
        counters_max: if rng.u8(0..4) == 0 { 64 } else { 10_000 },
        faults,
        threshold_permille: rng.u32(0..700),
        ..SimSettings::instant(START)
    }
}

/// Does everything that happens until an instant, and checks after each step.
fn step(
    sim: &mut Simulation<'static>,
    checks: &mut Invariants,
    until: Timestamp,
    workload: &mut Workload,
    trace: &mut DefaultHasher,
) -> Result<(), String> {
    check(sim, checks, workload, trace)?;
    while sim.step_until(until) {
        check(sim, checks, workload, trace)?;
    }
    Ok(())
}

/// Checks everything, and settles or releases some of the calls that were answered.
fn check(
    sim: &mut Simulation<'static>,
    checks: &mut Invariants,
    workload: &mut Workload,
    trace: &mut DefaultHasher,
) -> Result<(), String> {
    for call in checks.check(sim)? {
        (call.answered, call.decision.allowed, call.decision.source, call.decision.at).hash(trace);
        correct(sim, workload, call);
    }
    Ok(())
}

fn correct(sim: &mut Simulation<'static>, workload: &mut Workload, call: AnsweredCall<'static>) {
    if let Some(correction) = workload.correction(&call) {
        sim.correct(call.agent, call.call, correction);
    }
}

/// Returns the group of an agent's callers: those of an agent with its own table are no other agent's.
fn group(sim: &Simulation<'_>, agent: usize) -> u8 {
    u8::from(sim.agents()[agent].settings.owns_table)
}

fn digest(sim: &Simulation<'_>, trace: &mut DefaultHasher) {
    for topic in [Topic::Calls, Topic::Signals, Topic::Presence] {
        for partition in 0..sim.bus().partitions {
            for record in sim.bus().records(topic, partition) {
                (record.appended, &record.payload).hash(trace);
            }
        }
    }
}
