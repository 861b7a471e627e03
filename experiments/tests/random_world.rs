//! The random world: hundreds of seeds, each another fleet with other delays, losses, outages and crashes. What must always
//! hold is checked after every single step; what a run did is told by its seed alone.

mod invariants;

use std::hash::{DefaultHasher, Hash, Hasher};

use fastrand::Rng;
use invariants::{Invariants, START};
use tollgate::{Call, RuleSet};
use tollgate_engine::Operation;
use tollgate_experiments::size::scaled;
use tollgate_experiments::world::{Bug, Decided, Faults, Network, Settings, World};

/// How many seeds the full test runs.
const SEEDS: u64 = 1_000;

const RULES: &str = "
version: 5
defaults: { consistency: strict }
rules:
  - { name: key, per: [api_key], quota: 20/2s }
  - { name: log, match: { endpoint: /login }, per: [ip], quota: 6/3s, algorithm: sliding_log }
  - { name: fine, match: { endpoint: /search* }, per: [api_key], quota: 9/1s, sub_windows: 4, on_failure: limit 3/1s }
  - { name: about, match: { endpoint: /about }, per: [], quota: 40/1500ms, estimate: interpolated, consistency: bounded, deadline: 9ms }
  - { name: bucket, match: { endpoint: /search* }, per: [ip], quota: 12/2s, algorithm: token_bucket, burst: 7 }
  - { name: fixed, match: { endpoint: /other }, per: [ip], quota: 9/1s, algorithm: fixed_window }
  - { name: queue, match: { endpoint: /other }, per: [api_key], quota: 30/1s, algorithm: leaky_bucket, burst: 12 }
  - { name: burst, group: g, match: { endpoint: /about }, per: [api_key], quota: 12/2s, burst: 18, consistency: bounded }
  - { name: narrower, group: g, match: { endpoint: /about, ip: { cidr: 10.0.0.4/30 } }, per: [api_key], quota: 8/1s }
  - { name: slots, match: { endpoint: /login }, per: [api_key], quota: 4/2s, algorithm: concurrency }
  - { name: each, match: { endpoint: /other }, per: [api_key], quota: 11/1s, algorithm: fixed_window, charge: each }
  - { name: shade, match: { endpoint: /login }, per: [ip], quota: 3/1s, shadow: true }
  - { name: tiered, per: [user], quota: tier, keys: { user-1: { quota: 25/1s } } }
lists: { allow: [{ ip: 10.0.0.7 }], deny: [{ ip: 10.0.0.9 }] }
tiers: { free: { quota: 9/1s }, pro: { quota: 14/1s }, free-for-all: { quota: unlimited } }
descriptors:
  tier: { of: ip, map: { 10.0.0.2: pro, 10.0.0.3: free-for-all }, default: free }
  user: { of: ip, map: { 10.0.0.1: user-1, 10.0.0.2: user-2, 10.0.0.3: user-3 } }
";

/// What happens in one run.
struct Plan {
    settings: Settings,
    calls: usize,
    callers: usize,
    outages: bool,
    bus_cuts: bool,
    crashes: bool,
}

/// What one run did.
struct Run {
    checks: Invariants,
    trace: u64,
}

fn rules() -> RuleSet {
    tollgate_rules::from_yaml("rules.yaml", RULES, 1).expect("valid rules")
}

fn plan(seed: u64, rng: &mut Rng) -> Plan {
    let faults = Faults {
        // Half of the worlds answer in time, half of them often do not.
        store_ms_max: if rng.bool() { 2 } else { 8 },
        bus_ms_max: rng.u64(1..60),
        bus_late_ms: 0,
        lost_percent: if rng.bool() { 0 } else { rng.u8(1..20) },
        twice_percent: rng.u8(0..30),
    };
    let settings = Settings {
        start: START,
        skews_ms: (0..rng.usize(1..5)).map(|_| rng.i64(-400..400)).collect(),
        partitions: rng.u32(1..5),
        counters_max: if rng.u8(0..4) == 0 { 64 } else { 10_000 },
        network: Network::new(seed, faults),
        heartbeats: true,
        threshold_permille: rng.u32(0..700),
    };
    Plan {
        settings,
        calls: rng.usize(200..700),
        callers: rng.usize(1..12),
        outages: rng.bool(),
        bus_cuts: rng.bool(),
        crashes: rng.bool(),
    }
}

fn call(rng: &mut Rng, callers: usize) -> Call<'static> {
    let caller = rng.usize(0..callers);
    let endpoint = ["/login", "/search/all", "/about", "/other"][rng.usize(0..4)];
    let call = Call::new().with("endpoint", endpoint).with("ip", format!("10.0.0.{caller}")).costing(rng.u64(1..3));
    let call = if rng.u8(0..20) == 0 { call.identified(format!("request-{}", rng.u8(0..30))) } else { call };
    if rng.u8(0..5) == 0 { call } else { call.with("api_key", format!("key-{caller}")) }
}

fn run(seed: u64, bug: Option<Bug>) -> Result<Run, String> {
    let mut rng = Rng::with_seed(seed);
    let plan = plan(seed, &mut rng);
    let mut checks = Invariants::new(rules(), plan.settings.partitions, plan.settings.counters_max);
    let mut world = World::new(plan.settings, &rules());
    if let Some(bug) = bug {
        world.plant(bug);
    }
    let mut trace = DefaultHasher::new();
    let (mut store_up, mut bus_up) = (true, true);
    for _ in 0..plan.calls {
        let until = world.now().plus_ms(rng.u64(0..25));
        while world.step_until(until) {
            checks.check(&mut world, store_up)?;
        }
        let agent = rng.usize(0..world.agents().len());
        world.arrive(agent, call(&mut rng, plan.callers));
        checks.arrived += 1;
        checks.check(&mut world, store_up)?;
        if let Some(Decided { agent, call, decision, .. }) = checks.last.take().filter(|_| rng.u8(0..8) == 0) {
            let call = &call;
            let adjustment = if rng.bool() {
                Operation::Settle { call, units: rng.i64(1..4), decided: None }
            } else {
                Operation::Release { call, decided: decision.at }
            };
            world.adjust(agent, adjustment);
        }
        match rng.u16(0..200) {
            0 if plan.outages => {
                store_up = !store_up;
                world.set_store_up(store_up);
            }
            1 if plan.bus_cuts => {
                bus_up = !bus_up;
                world.set_bus_up(bus_up);
            }
            2 if plan.crashes => world.crash_aggregator(),
            3 => reload(&world, agent),
            _ => {}
        }
        (world.now(), store_up, bus_up, world.in_flight()).hash(&mut trace);
    }
    world.set_store_up(true);
    let until = world.now().plus_ms(3_000);
    while world.step_until(until) {
        checks.check(&mut world, true)?;
    }
    checks.stand_alone(&world)?;
    for partition in 0..partitions(&world) {
        for (offset, record) in world.bus().from(partition, 0) {
            (offset, &record.appended.as_ms(), &record.payload).hash(&mut trace);
        }
    }
    Ok(Run { checks, trace: trace.finish() })
}

/// Rules that are broken or older never come into force.
fn reload(world: &World<'_>, agent: usize) {
    let broken = RULES.replace("quota: 20/2s", "quota: 0/2s");
    assert!(tollgate_rules::from_yaml("rules.yaml", &broken, 9).is_err());
    let older = RULES.replace("version: 5", "version: 4");
    let older = tollgate_rules::from_yaml("rules.yaml", &older, 9).expect("valid, but old");
    assert_eq!(world.agents()[agent].engine().set_rules(older), Err(5));
}

fn partitions(world: &World<'_>) -> u32 {
    u32::try_from(world.counts().len()).expect("few")
}

/// Invariants 1 (no-wait), 2 (stand-alone), 3 (never-over), 4 (true-denial), 5 (one-truth-of-time), 6 (exactly-counted),
/// 8 (capped) and 9 (last-good), after every step of every seed.
#[test]
fn the_invariants_hold_at_every_step_of_every_seed() {
    let mut sources = std::collections::BTreeMap::new();
    let (mut decided, mut compared, mut twice, mut worst) = (0, 0, 0, 0);
    for seed in 0..scaled(SEEDS) {
        let run = run(seed, None).unwrap_or_else(|broken| panic!("seed {seed}: {broken}"));
        for (source, calls) in run.checks.by_source {
            *sources.entry(source).or_insert(0) += calls;
        }
        decided += run.checks.decided;
        compared += run.checks.compared;
        twice += run.checks.seen_twice;
        worst = worst.max(run.checks.worst_permille);
    }
    println!(
        "{decided} calls, by source {sources:?}; {compared} counts compared, {twice} duplicates; fullest window {worst} permille of its quota"
    );
    // A world in which nothing ever went wrong would prove nothing.
    assert_eq!(sources.len(), 4, "every source decided");
    assert!(compared > 0 && twice > 0);
}

/// One seed replays everything: the same decisions at the same times, and the same bytes in the log.
#[test]
fn one_seed_replays_everything() {
    for seed in 0..5 {
        let (first, second) = (run(seed, None).expect("holds"), run(seed, None).expect("holds"));
        assert_eq!((first.trace, first.checks.by_source), (second.trace, second.checks.by_source), "seed {seed}");
    }
}

/// A planted bug is found within a few seeds.
#[test]
fn a_planted_bug_is_found() {
    for bug in [Bug::DuplicateCounted, Bug::SubWindowLost] {
        let found = (0..10).find_map(|seed| run(seed, Some(bug)).err());
        let found = found.unwrap_or_else(|| panic!("{bug:?} was not found"));
        assert!(found.starts_with("exactly-counted:"), "{bug:?}: {found}");
    }
}
