//! `grants-within-quota`: regions in virtual time, with faults of everything, never hold or admit more than the quota together.

use fastrand::Rng;
use tollgate_core::messages::ledger::Terms;
use tollgate_experiments::regions::{
    CallerPlan, LinkFaults, ProcessFaults, RegionMistake, RegionSettings, RegionsOutcome, RegionsSettings,
    RegionsWorld, TermsChange,
};
use tollgate_experiments::size::scaled;

const NAMES: [&str; 6] = ["af", "ap", "eu", "me", "sa", "us"];
const SEEDS: u64 = 1_000;
const RUN_MS: u64 = 240_000;
const CALM_MS: u64 = 160_000;

fn terms(quota: u64, floor: u64, names: &[&'static str]) -> Terms {
    Terms {
        rule: "global".into(),
        generation: 0,
        quota,
        window_ms: 10_000,
        term_ms: 12_000,
        key_fingerprint: 42,
        floors: names.iter().map(|name| ((*name).into(), floor)).collect(),
    }
}

/// Returns the settings of a seed.
fn world(seed: u64) -> RegionsSettings {
    let mut rng = Rng::with_seed(seed);
    let count = rng.usize(2..=NAMES.len());
    let names = &NAMES[..count];
    let counters = rng.u32(1..=2);
    let jitters = [0, 50, 1_000, 5_000, 30_000];
    // In a part of the worlds all regions want one counter by turns.
    let is_contended = rng.bool();
    let region = |(index, name): (usize, &&'static str), rng: &mut Rng| {
        let mut cuts = Vec::new();
        if rng.u64(0..3) == 0 {
            let from = rng.u64(0..CALM_MS);
            cuts.push((from, (from + rng.u64(1_000..60_000)).min(CALM_MS)));
        }
        let callers = (0..rng.usize(0..=3)).map(|_| {
            let from_ms = rng.u64(0..RUN_MS);
            let per_minute = [30, 300, 1_200][rng.usize(..3)];
            CallerPlan { counter: rng.u32(..counters), from_ms, until_ms: from_ms + rng.u64(5_000..90_000), per_minute }
        });
        let mut callers: Vec<CallerPlan> = callers.collect();
        for from_ms in (0..RUN_MS).step_by(20_000).filter(|_| is_contended && rng.bool()) {
            callers.push(CallerPlan { counter: 0, from_ms, until_ms: from_ms + 20_000, per_minute: 400 });
        }
        RegionSettings {
            name,
            processes: rng.usize(1..=2),
            store_clock: (rng.u64(0..36_000_000), rng.i64(-200..=200)),
            drift_ppm_max: 200,
            link: LinkFaults {
                delay_ms: if index == 0 { 1 } else { rng.u64(1..200) },
                jitter_ms: jitters[rng.usize(..jitters.len())],
                lost_permille: rng.u64(0..100),
                doubled_permille: rng.u64(0..100),
                repeated_permille: if index == 0 { 0 } else { rng.u64(0..100) },
                cuts: if index == 0 { Vec::new() } else { cuts },
            },
            faults: ProcessFaults {
                suspended_permille: [0, 5, 30][rng.usize(..3)],
                suspended_ms_max: [500, 15_000, 120_000][rng.usize(..3)],
                restart_every_ms: [0, 20_000, 60_000][rng.usize(..3)],
            },
            callers,
        }
    };
    let regions = names.iter().enumerate().map(|named| region(named, &mut rng)).collect();
    let mut changes = vec![TermsChange { at_ms: 0, terms: terms(60, rng.u64(0..=60 / count as u64), names) }];
    for _ in 0..rng.u64(0..=2) {
        let quota = [12, 60, 200][rng.usize(..3)];
        let floor = rng.u64(0..=quota / count as u64);
        changes.push(TermsChange { at_ms: rng.u64(0..CALM_MS), terms: terms(quota, floor, names) });
    }
    changes.sort_by_key(|change| change.at_ms);
    (1..).zip(&mut changes).for_each(|(generation, change)| change.terms.generation = generation);
    RegionsSettings {
        seed,
        run_ms: RUN_MS,
        tick_ms: [200, 1_000][rng.usize(..2)],
        regions,
        coordinators: rng.usize(1..=3),
        coordinator_faults: ProcessFaults {
            suspended_permille: [0, 30, 200][rng.usize(..3)],
            suspended_ms_max: [15_000, 60_000][rng.usize(..2)],
            restart_every_ms: 0,
        },
        counters,
        terms: changes,
        calm_from_ms: CALM_MS,
    }
}

fn run(seed: u64, mistake: Option<RegionMistake>) -> RegionsOutcome {
    RegionsWorld::new(world(seed), mistake).run()
}

/// J3, J4: delays to 30 s, loss, repetition, partitions, restarts, doubled and suspended processes, clocks off by hours, changed
/// quotas and floors.
#[test]
fn regions_never_hold_more_than_the_quota() {
    let (mut entries, mut void, mut admitted, mut calls) = (0, 0, 0, 0);
    for seed in 0..scaled(SEEDS) {
        let outcome = run(seed, None);
        assert_eq!(outcome.violation, None, "seed {seed}");
        assert_eq!(outcome.beyond_at_end, 0, "a lowered quota is not reached: seed {seed}");
        entries += outcome.entries;
        void += outcome.void;
        admitted += outcome.admitted.iter().map(Vec::len).sum::<usize>();
        calls += outcome.calls.iter().map(Vec::len).sum::<usize>();
    }
    println!("{entries} entries, {void} void; {admitted} of {calls} calls admitted");
    assert!(entries > 100 * scaled(SEEDS) && void > scaled(SEEDS), "the regions share nothing");
    assert!(admitted > calls / 10, "the regions admit nothing");
}

/// Each mistake breaks the check in a part of the worlds.
#[test]
fn mistakes_are_found() {
    let mut missed = Vec::new();
    for mistake in RegionMistake::ALL {
        let found = (0..scaled(SEEDS)).filter(|seed| run(*seed, Some(mistake)).violation.is_some()).count();
        println!("{mistake:?}: {found}");
        missed.extend((found == 0).then_some(mistake));
    }
    assert_eq!(missed, []);
}

#[test]
fn one() {
    let seed = std::env::var("SEED").unwrap().parse().unwrap();
    println!("{:?}", run(seed, None).violation);
}
