//! Processes and servers that are killed in the middle of a transfer.

use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use tollgate_core::clock::Stopwatch;

use super::calls::{CallLog, Phase, quota, run_until, width_ms};
use super::regions::{KEY, TwoRegions};
use crate::support::wait_for;

const PER_SECOND: u64 = 80;
/// Time in which a killed server is away.
const AWAY_MS: u64 = 4_000;
/// Time in which another aggregator takes over: the removal of a silent member, and its next round.
const TAKEOVER_MS: u64 = 14_000;
/// Time in which free units get to a region.
const TRANSFER_MS: u64 = 3_000;
/// Time from the shift of the load to the crash.
const ACTS_AFTER_MS: u64 = 1_000;

/// Moves the load from home to far, and calls `act` a second after the shift. Returns the log, and the time that is
/// `after_ms` after the end of `act`.
fn shift_while(regions: &mut TwoRegions, after_ms: u64, act: impl FnOnce(&mut TwoRegions)) -> (CallLog, u64) {
    let shifted_at = 2 * width_ms();
    let phase = |agents, time_ms| Phase { agents, time_ms, per_second: PER_SECOND };
    let phases = [phase(regions.home.agents(), 0..shifted_at), phase(regions.far.agents(), shifted_at..u64::MAX)];
    acted_in(regions, &phases, shifted_at + ACTS_AFTER_MS, after_ms, act)
}

/// Calls `act` at `at_ms` of a load. Returns the log of the load, and the time that is `after_ms` after the end of
/// `act`. The load ends a window after that time.
fn acted_in(
    regions: &mut TwoRegions,
    phases: &[Phase],
    at_ms: u64,
    after_ms: u64,
    act: impl FnOnce(&mut TwoRegions),
) -> (CallLog, u64) {
    let (started, end) = (Stopwatch::start(), AtomicU64::new(u64::MAX));
    let now_ms = || u64::try_from(started.elapsed().as_millis()).expect("a short test");
    let (log, from_ms) = thread::scope(|scope| {
        let load = scope.spawn(|| run_until(KEY, phases, started, &end));
        thread::sleep(Duration::from_millis(at_ms).saturating_sub(started.elapsed()));
        act(regions);
        let from_ms = now_ms() + after_ms;
        end.store(from_ms + width_ms(), Ordering::Relaxed);
        (load.join().expect("no panic"), from_ms)
    });
    let fullest = log.fullest_window();
    assert!(fullest <= quota(), "{fullest} of {} in a window", quota());
    (log, from_ms)
}

/// Returns the time after which a budget that was lost on its way is back, as aggregators print it: a term, a window, and a margin.
fn lost_ms(regions: &TwoRegions) -> u64 {
    wait_for("the printed bound", || regions.home.budgets()?["rules"][0]["lost_transfer_ms"].as_u64())
}

/// Asserts that nearly the whole quota is used in the window from this time on.
fn has_whole_quota(log: &CallLog, from_ms: u64) {
    let (admitted, exact) =
        (log.admitted(from_ms..from_ms + width_ms()), log.admitted_by_exact(from_ms..from_ms + width_ms()));
    eprintln!("{admitted} admitted, {exact} by one exact limiter");
    assert!(admitted * 10 >= exact * 9, "{admitted} admitted, {exact} by one exact limiter");
}

/// J4: the coordinator is killed, and another aggregator of the home region takes over.
#[test]
fn a_killed_coordinator_loses_no_budget() {
    let mut regions = TwoRegions::start("coordinator", 2, 1);
    let (log, from_ms) = shift_while(&mut regions, TAKEOVER_MS + width_ms() + TRANSFER_MS, |regions| {
        let coordinator = regions.coordinator();
        regions.home.aggregators[coordinator].kill();
    });
    has_whole_quota(&log, from_ms);
}

/// J4: the coordinator is killed while units are free in the ledger, because the home region has been idle for a window. The load comes
/// at the same time.
#[test]
fn free_units_wait_for_the_takeover_only() {
    let mut regions = TwoRegions::start("takeover", 2, 1);
    let shifted_at = 2 * width_ms();
    let killed_at = shifted_at + width_ms() + TRANSFER_MS;
    let phase = |agents, time_ms| Phase { agents, time_ms, per_second: PER_SECOND };
    let phases = [phase(regions.home.agents(), 0..shifted_at), phase(regions.far.agents(), killed_at..u64::MAX)];
    let (log, from_ms) = acted_in(&mut regions, &phases, killed_at - 200, TAKEOVER_MS + TRANSFER_MS, |regions| {
        let counters = regions.home.budgets().expect("an aggregator answers")["counters"].clone();
        let free = counters[0]["free"].as_u64().unwrap_or_else(quota);
        assert!(free * 10 >= quota() * 9, "the home region has given its units back: {counters}");
        let coordinator = regions.coordinator();
        regions.home.aggregators[coordinator].kill();
    });
    has_whole_quota(&log, from_ms);
}

/// J4: the Kafka that holds the ledger is killed and comes back.
#[test]
fn a_killed_ledger_loses_no_budget() {
    let mut regions = TwoRegions::start("ledger", 1, 1);
    let lost_ms = lost_ms(&regions);
    let (log, from_ms) = shift_while(&mut regions, lost_ms, |regions| {
        regions.home.kafka.kill();
        thread::sleep(Duration::from_millis(AWAY_MS));
        regions.home.kafka.restart();
    });
    has_whole_quota(&log, from_ms);
}

/// J4: the Kafka of the region that gets the load is killed and comes back.
#[test]
fn a_killed_kafka_of_the_other_region_loses_no_budget() {
    let mut regions = TwoRegions::start("far-kafka", 1, 1);
    let lost_ms = lost_ms(&regions);
    let (log, from_ms) = shift_while(&mut regions, lost_ms, |regions| {
        regions.far.kafka.kill();
        thread::sleep(Duration::from_millis(AWAY_MS));
        regions.far.kafka.restart();
    });
    has_whole_quota(&log, from_ms);
}
