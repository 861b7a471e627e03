//! The random world: many seeds, each another fleet with other delays, losses, outages and crashes. The invariants are
//! checked after every step. A failing seed is run alone with `TOLLGATE_SEED`, and a part of it with `TOLLGATE_KEEP`.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use crate::scenario::regions::{self, RegionsPlan};
use crate::scenario::{Plan, Rest, Run, shrink};
use tollgate_servers::scaled;
use tollgate_sim::PlantedBug;

/// Number of seeds of the full test.
const SEEDS: u64 = 1_000;
/// Minimum number of admissions of a seed that are compared with the bound of their rule, on average.
const STRICT_MIN: usize = 20;
const BOUNDED_MIN: usize = 10;
const THREADS: usize = 2;
/// Seeds that broke an invariant once. They always run.
const KEPT_SEEDS: [u64; 7] = [256, 784, 1_208, 1_519, 1_931, 1_944, 2_329];

/// Command that runs the random world.
const COMMAND: &str = "cargo test -p tollgate-sim --test suite random_world";

/// Returns true if the world of a seed has several regions. The others have the plans that they had before there were regions.
pub(crate) fn has_regions(seed: u64) -> bool {
    seed % 4 == 2
}

/// Runs the world of a seed. Returns the run of each region.
pub(crate) fn run(seed: u64, bug: Option<PlantedBug>) -> Result<Vec<Run>, String> {
    if has_regions(seed) {
        return reported(|| regions::run(&RegionsPlan::draw(seed), bug, None));
    }
    run_plan(&Plan::draw(seed), bug).map(|run| vec![run])
}

pub(crate) fn run_plan(plan: &Plan, bug: Option<PlantedBug>) -> Result<Run, String> {
    reported(|| crate::scenario::run(plan, bug))
}

/// Reports an assertion that fails within the run like a broken invariant.
pub(crate) fn reported<R>(run: impl FnOnce() -> Result<R, String>) -> Result<R, String> {
    catch_unwind(AssertUnwindSafe(run)).unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().map(String::as_str).or(panic.downcast_ref::<&str>().copied());
        Err(format!("panic: {}", text.unwrap_or("without a text")))
    })
}

pub(crate) fn name_of(broken: &str) -> &str {
    broken.split(':').next().unwrap_or_default()
}

/// Returns a small part of a plan that breaks the same invariant.
pub(crate) fn shrunk(plan: &Plan, broken: &str, bug: Option<PlantedBug>) -> Rest {
    let breaks = |part: &Rest| run_plan(&part.of(plan), bug).is_err_and(|other| name_of(&other) == name_of(broken));
    shrink(plan, &breaks)
}

/// Returns the report on a seed that failed: the commands that run it alone, and a small part of it.
fn report(seed: u64, broken: &str) -> String {
    if has_regions(seed) {
        let kind = RegionsPlan::draw(seed).kind;
        return format!("seed {seed}: {broken}\n{kind:?} regions\nTOLLGATE_SEED={seed} {COMMAND}");
    }
    let plan = Plan::draw(seed);
    let part = shrunk(&plan, broken, None);
    let summary = part.summary(&plan);
    format!(
        "seed {seed}: {broken}\nTOLLGATE_SEED={seed} {COMMAND}\n{:?} traffic, shrunk to {summary}\nTOLLGATE_SEED={seed} \
         TOLLGATE_KEEP='{part}' {COMMAND}",
        plan.pattern
    )
}

/// Runs of the regions of each world.
type RunsBySeed = BTreeMap<u64, Vec<Run>>;

/// Returns the time for which this thread has run, in ms; 0 where the system does not tell it.
fn thread_ms() -> u64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    text.split(' ').next().and_then(|ns| ns.parse::<u64>().ok()).unwrap_or(0) / 1_000_000
}

/// Runs seeds on several threads. Returns the runs by seed, or the first seed that broke an invariant, and the time for which all
/// threads ran, in ms.
fn run_all(seeds: &[u64]) -> Result<(RunsBySeed, u64), (u64, String)> {
    let (next, runs, busy_ms) = (AtomicUsize::new(0), Mutex::new(BTreeMap::new()), AtomicU64::new(0));
    std::thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                while let Some(seed) = seeds.get(next.fetch_add(1, Ordering::Relaxed)).copied() {
                    let run = run(seed, None);
                    if run.is_err() {
                        next.store(seeds.len(), Ordering::Relaxed);
                    }
                    runs.lock().expect("no thread panicked").insert(seed, run);
                }
                busy_ms.fetch_add(thread_ms(), Ordering::Relaxed);
            });
        }
    });
    let runs = runs.into_inner().expect("no thread panicked");
    let runs = runs.into_iter().map(|(seed, run)| run.map(|run| (seed, run)).map_err(|broken| (seed, broken)));
    Ok((runs.collect::<Result<_, _>>()?, busy_ms.into_inner()))
}

/// Invariants 1 (no-wait), 2 (stand-alone), 3 (never-over), 4 (true-denial), 5 (one-truth-of-time), 6 (exactly-counted),
/// 8 (capped) and 9 (last-good), and wake-ups in time, after every step of every seed.
#[test]
fn the_invariants_hold_at_every_step_of_every_seed() {
    if let Ok(seed) = std::env::var("TOLLGATE_SEED") {
        let seed = seed.parse().expect("TOLLGATE_SEED is a number");
        let Ok(part) = std::env::var("TOLLGATE_KEEP") else {
            let run = run(seed, None).unwrap_or_else(|broken| panic!("{}", report(seed, &broken)));
            return println!("seed {seed}: {run:?}");
        };
        let part: Rest = part.parse().unwrap_or_else(|error| panic!("TOLLGATE_KEEP: {error}"));
        let run = run_plan(&part.of(&Plan::draw(seed)), None);
        return println!("{part}: {:?}", run.unwrap_or_else(|broken| panic!("{broken}")));
    }
    let seeds = scaled(SEEDS);
    let kept = KEPT_SEEDS.into_iter().filter(|seed| *seed >= seeds);
    let seeds: Vec<_> = (0..seeds).chain(kept).collect();
    let (runs, busy_ms) = run_all(&seeds).unwrap_or_else(|(seed, broken)| panic!("{}", report(seed, &broken)));
    let (worlds, runs): (_, Vec<_>) = (runs.len(), runs.into_values().flatten().collect());
    let mut sources = BTreeMap::new();
    for (source, calls) in runs.iter().flat_map(|run| &run.totals.by_source) {
        *sources.entry(*source).or_insert(0) += calls;
    }
    let sum = |of: fn(&Run) -> usize| runs.iter().map(of).sum::<usize>();
    println!(
        "{} seeds, {} calls, {} of them tried again, by source {sources:?}; {} lost in crashes; {} partitions restored, \
         {} owned twice; {} counts and {} rollups compared, {} duplicates; {} accounts balanced, {} admissions by on_failure bounded, {} \
         by the store charged, {} by leases ({} of them beside a request), {} by parts, {} admissions and {} denials by \
         a rule that counts each call, {} under strict and {} under bounded rules as callers see them, {} of \
         these after a change of the window; {} answers to request ids; {} before a late answer; {} calls shared a charge; {} forged \
         records; {} units opened again; fullest window {} permille of its quota",
        worlds,
        sum(|run| run.calls),
        sum(|run| run.retried),
        sum(|run| run.totals.lost_in_crashes),
        sum(|run| run.totals.restored),
        sum(|run| run.totals.doubled),
        sum(|run| run.totals.compared),
        sum(|run| run.totals.rollups),
        sum(|run| run.totals.duplicates),
        sum(|run| run.totals.balanced),
        sum(|run| run.totals.bounded),
        sum(|run| run.totals.charged),
        sum(|run| run.totals.leased),
        sum(|run| run.totals.leased_in_part),
        sum(|run| run.totals.by_part),
        sum(|run| run.totals.admitted_each),
        sum(|run| run.totals.denied_each),
        sum(|run| run.totals.admitted_strict),
        sum(|run| run.totals.admitted_bounded),
        sum(|run| run.totals.after_changes),
        sum(|run| run.totals.named),
        sum(|run| run.totals.late),
        sum(|run| run.totals.coalesced),
        sum(|run| run.totals.forged),
        runs.iter().map(|run| run.totals.reopened).sum::<u64>(),
        runs.iter().map(|run| run.totals.worst_permille).max().unwrap_or_default(),
    );
    // A world in which nothing ever goes wrong proves nothing.
    assert_eq!(sources.len(), 4, "every source decided");
    assert!(runs.iter().any(|run| run.totals.reopened > 0), "agents entered lost units again");
    assert!(sum(|run| run.totals.doubled) > 0, "two aggregators counted a partition");
    assert!(sum(|run| run.totals.late) > 0, "answers came late");
    assert!(sum(|run| run.totals.leased) > 0, "agents leased units");
    assert!(
        sum(|run| run.totals.leased_in_part) > 0,
        "leases paid for calls that asked the store about other counters"
    );
    assert!(sum(|run| run.totals.by_part) > 0, "agents admitted late calls by their parts");
    let (admitted, denied) = (sum(|run| run.totals.admitted_each), sum(|run| run.totals.denied_each));
    assert!(admitted > 0 && denied > 0, "a rule that counts each call admitted {admitted} and denied {denied}");
    let seeds = worlds;
    let (strict, bounded) = (sum(|run| run.totals.admitted_strict), sum(|run| run.totals.admitted_bounded));
    assert!(strict > STRICT_MIN * seeds, "{strict} admissions under strict rules were compared with their quota");
    assert!(bounded > BOUNDED_MIN * seeds, "{bounded} admissions under bounded rules were compared with their bound");
    assert!(sum(|run| run.totals.after_changes) > 0, "the windows of counters changed while they were used");
    assert!(sum(|run| run.totals.named) > 0, "calls had request ids");
    assert!(sum(|run| run.totals.coalesced) > 0, "calls shared a charge");
    assert!(sum(|run| run.retried) > 0, "clients tried again");
    let (granted, entries) = (sum(|run| run.totals.granted), sum(|run| run.totals.entries));
    let simulated_s = runs.iter().map(|run| run.simulated_ms).sum::<u64>() / 1_000;
    println!(
        "{granted} admissions were compared with a quota of all regions; {entries} entries of ledgers; {simulated_s} s were \
         simulated, {} per second of a core",
        1_000 * simulated_s / busy_ms.max(1)
    );
    assert!(granted > 0 && entries > 0, "regions share a quota");
    assert!(sum(|run| run.totals.members) > 0, "agents noticed that the fleet had changed");
    assert!(sum(|run| run.totals.duplicates) > 0 && sum(|run| run.totals.balanced) > 0);
}

/// One seed replays everything: the same answers at the same times, and the same bytes in the logs. Hashes differ from run to
/// run, and a thread that has run another seed knows other calls.
#[test]
fn one_seed_replays_everything() {
    for seed in 0..10 {
        let first = std::thread::spawn(move || run(seed, None)).join().expect("a run");
        let second = run(seed, None);
        assert_eq!(first, second, "seed {seed} does not replay");
    }
}
