//! A bus that is late: why signals are never the only evaluate.

#[allow(dead_code, reason = "shared with the random world")]
mod invariants;

use fastrand::Rng;
use invariants::{Invariants, START};
use tollgate::Call;
use tollgate_core::counter::{CounterId, DigestKey};
use tollgate_experiments::world::{Faults, Network, Settings, World};

const RULES: &str = "
version: 1
rules: [{ name: key, per: [api_key], quota: 50/5s, consistency: strict }]
";
const CALLS: u64 = 2_000;
const AGENTS: usize = 4;
const KEYS: [&str; 3] = ["a", "b", "c"];
const DELAYS_MS: [u64; 4] = [10, 100, 1_000, 10_000];

/// Runs a fleet over a bus that is so late; the most admitted units that the aggregator did not know of.
fn unknown_to_the_aggregator(bus_late_ms: u64) -> u64 {
    let rules = tollgate_rules::from_yaml("rules.yaml", RULES, 1).expect("valid rules");
    let faults = Faults { store_ms_max: 2, bus_ms_max: 5, bus_late_ms, ..Faults::default() };
    let settings = Settings {
        start: START,
        skews_ms: vec![0; AGENTS],
        partitions: 1,
        counters_max: 10_000,
        network: Network::new(bus_late_ms, faults),
        heartbeats: true,
        threshold_permille: 0,
    };
    let mut checks = Invariants::new(rules.clone(), 1, 10_000);
    let mut world = World::new(settings, &rules);
    let counters: Vec<CounterId> =
        KEYS.iter().map(|key| DigestKey::default().counter("key", std::iter::once(*key))).collect();
    let (mut rng, mut most) = (Rng::with_seed(bus_late_ms), 0);
    for _ in 0..CALLS {
        let until = world.now().plus_ms(rng.u64(0..10));
        while world.step_until(until) {
            checks.check(&mut world, true).expect("every invariant holds");
        }
        world.arrive(rng.usize(0..AGENTS), Call::new().with("api_key", KEYS[rng.usize(0..KEYS.len())]));
        checks.arrived += 1;
        let now = world.now();
        let admitted = |counter: &CounterId| {
            let mut state = world.store().peek(*counter)?;
            state.advance(now);
            Some(state.admitted().iter().map(|(_, units)| units).sum::<u64>())
        };
        let in_store: u64 = counters.iter().filter_map(admitted).sum();
        let known: u64 = world.counts()[0].counters().map(|entry| entry.used(now)).sum();
        most = most.max(in_store.saturating_sub(known));
    }
    most
}

/// E4: however late the bus, `strict` is never over (checked after every step); what signals alone would let through grows
/// with the delay.
#[test]
fn a_late_bus_makes_signals_stale_and_strict_never_over() {
    let stale = DELAYS_MS.map(unknown_to_the_aggregator);
    for (delay_ms, units) in DELAYS_MS.iter().zip(stale) {
        println!("bus late by {delay_ms:>6} ms: {units:>4} admitted units that signals do not know of, of 150");
    }
    assert!(stale[3] > stale[0] && stale[3] > 20, "{stale:?}");
}
