//! A failover behind a proxy: no connection is lost, and the replica that takes over has all witnesses. Only the run id
//! of the store shows that leases may not be charged any more.

use fastrand::Rng;
use tollgate::Call;
use tollgate_core::clock::Timestamp;
use tollgate_core::decision::{LocalAnswer, Source};
use tollgate_servers::scaled;
use tollgate_sim::{Faults, Observation, SimSettings, Simulation, StoreLoss};

/// Begin of a sub-window of the rule.
const START: Timestamp = Timestamp::from_ms(1_763_700_000_000);
const RULES: &str = "version: 1\nrules: [{ name: key, per: [api_key], quota: 6000/min, consistency: strict }]\n";
const AGENTS: usize = 2;
/// Time after which all agents know each other, and the time in the second sub-window after which the failover comes,
/// in ms.
const KNOWN_MS: u64 = 3_500;
const BUSY_MS: u64 = 6_000;
/// Interval of the calls at each agent, and time in which every call is answered, in ms.
const CALL_INTERVAL_MS: u64 = 5;
const ANSWERED_MS: u64 = 50;
/// Interval at which an agent raises its witness, and the time of a request, in ms.
const WITNESS_MS: u64 = 1_060;
const SEEDS: u64 = 100;

/// Lets agents lease units, and the store fail over if so chosen. Returns the number of agents that decide a call by a
/// lease once each has raised its witness again, in the same sub-window.
fn leased_after_a_witness(seed: u64, fails_over: bool) -> usize {
    let rules = tollgate_rules::from_yaml("rules.yaml", RULES, 1).expect("valid rules");
    let faults = Faults { store_ms_max: 1, ..Faults::default() };
    let settings = SimSettings { seed, faults, ..SimSettings::fleet(START, AGENTS) };
    let (mut rng, mut sim) = (Rng::with_seed(seed), Simulation::new(settings, &rules));
    let call = || vec![Call::new().with("api_key", "k")];
    let busy_until = START.plus_ms(BUSY_MS + rng.u64(0..1_000));
    sim.run_until(START.plus_ms(KNOWN_MS));
    while sim.now() < busy_until {
        (0..AGENTS).for_each(|agent| sim.check(agent, call()));
        sim.run_until(sim.now().plus_ms(CALL_INTERVAL_MS));
    }
    sim.run_until(sim.now().plus_ms(ANSWERED_MS));
    if fails_over {
        sim.replicate();
        sim.lose(StoreLoss::SinceReplicated);
    }
    sim.run_until(sim.now().plus_ms(WITNESS_MS));
    sim.observations();
    (0..AGENTS).for_each(|agent| sim.check(agent, call()));
    sim.run_until(sim.now().plus_ms(ANSWERED_MS));
    let mut by_lease = Vec::new();
    for observation in sim.observations() {
        if let Observation::Answered(answered) = observation {
            let is_leased = answered.decision.by == Some(LocalAnswer::Lease);
            assert!(is_leased || answered.decision.source == Source::Store, "{:?}", answered.decision);
            by_lease.push(is_leased);
        }
    }
    assert_eq!(by_lease.len(), AGENTS, "each call is answered");
    by_lease.into_iter().filter(|is_leased| *is_leased).count()
}

/// C5: a lease ends at the latest with the first witness after a failover, although the connection lives.
#[test]
fn a_failover_that_no_connection_shows_ends_all_leases() {
    let seeds = scaled(SEEDS);
    let sum = |fails_over| (0..seeds).map(|seed| leased_after_a_witness(seed, fails_over)).sum::<usize>();
    let (without, with) = (sum(false), sum(true));
    println!("{seeds} fleets of {AGENTS} agents: {without} agents hold a lease without a failover, {with} after one");
    assert_eq!(with, 0, "no agent spends a lease of the process before");
    assert!(without as u64 > seeds, "without a failover, most agents hold their leases");
}
