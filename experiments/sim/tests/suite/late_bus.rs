//! A bus that is late: the reason for which signals are never the only source of truth.

use crate::invariants::{Invariants, START};
use fastrand::Rng;
use tollgate::Call;
use tollgate_core::counter::{CounterId, DigestKey};
use tollgate_sim::{Faults, SimSettings, Simulation};

const RULES: &str = "
version: 1
rules: [{ name: key, per: [api_key], quota: 50/5s, consistency: strict }]
";
const CALLS: u64 = 2_000;
const AGENTS: usize = 4;
const KEYS: [&str; 3] = ["a", "b", "c"];
const DELAYS_MS: [u64; 4] = [10, 100, 1_000, 10_000];
/// Time after the last call in which all batches arrive, in ms.
const QUIET_MS: u64 = 12_000;

/// Runs a fleet over a bus that is this late. Returns the most admitted units that the aggregator did not know.
fn units_unknown_to_the_aggregator(bus_late_ms: u64) -> u64 {
    let rules = tollgate_rules::from_yaml("rules.yaml", RULES, 1).expect("valid rules");
    let limit = rules.rules[0].policy.as_ref().expect("a quota").limit();
    let settings = SimSettings {
        seed: bus_late_ms,
        faults: Faults { store_ms_max: 2, bus_ms_max: 5, bus_late_ms, ..Faults::default() },
        threshold_permille: 0,
        ..SimSettings::fleet(START, AGENTS)
    };
    let mut checks = Invariants::new(vec![rules.clone()], 1, settings.counters_max);
    let mut sim = Simulation::new(settings, &rules);
    let counters: Vec<CounterId> =
        KEYS.iter().map(|key| DigestKey::default().counter("key", std::iter::once(*key))).collect();
    let (mut rng, mut most) = (Rng::with_seed(bus_late_ms), 0);
    for _ in 0..CALLS {
        let until = sim.now().plus_ms(rng.u64(0..10));
        while sim.step_until(until) {
            checks.check(&mut sim).expect("every invariant holds");
        }
        let agent = rng.usize(0..AGENTS);
        checks.arrive(agent, 1);
        sim.check(agent, vec![Call::new().with("api_key", KEYS[rng.usize(0..KEYS.len())])]);
        checks.check(&mut sim).expect("every invariant holds");
        let now = sim.now();
        let admitted = |counter: &CounterId| {
            let mut state = sim.store().peek(*counter)?;
            state.advance(&limit, now);
            Some(state.admitted().iter().map(|(_, units)| units).sum::<u64>())
        };
        let in_store: u64 = counters.iter().filter_map(admitted).sum();
        let counts =
            sim.aggregators()[0].worker().into_iter().flat_map(tollgate_aggregator_engine::worker::Worker::assigned);
        let known: u64 =
            counts.flat_map(|(_, assigned)| assigned.counting.counters()).map(|counter| counter.used(now)).sum();
        most = most.max(in_store.saturating_sub(known));
    }
    let until = sim.now().plus_ms(QUIET_MS);
    while sim.step_until(until) {
        checks.check(&mut sim).expect("every invariant holds");
    }
    let totals = checks.finish(&sim).expect("everything is settled in the end");
    println!("bus late by {bus_late_ms:>6} ms: {most:>4} admitted units that signals lack, of 150; {totals:?}");
    most
}

/// E4: however late the bus, `strict` is never over (checked after every step); the units that signals alone would let
/// through grow with the delay.
#[test]
fn a_late_bus_makes_signals_stale_and_strict_never_over() {
    let stale = DELAYS_MS.map(units_unknown_to_the_aggregator);
    assert!(stale[3] > stale[0] && stale[3] > 20, "{stale:?}");
}
