//! Processes and servers that are killed in the middle of a transfer.

use std::thread;
use std::time::Duration;

use tollgate_core::clock::Stopwatch;

use crate::calls::{CallLog, Phase, quota, run, width_ms};
use crate::regions::{KEY, TwoRegions};

const PER_SECOND: u64 = 80;
/// Time of the longest term of these tests and the margin. A budget that was lost on its way is back after them and a window, as the
/// aggregators print it.
const LOST_MS: u64 = 13_000;
/// Time in which a killed server is away.
const AWAY_MS: u64 = 4_000;
/// Time in which another aggregator takes over: the removal of a silent member, and its next round.
const TAKEOVER_MS: u64 = 14_000;

/// Moves the load from home to far, and does something a second after the shift. Returns the log, and the time of the shift.
fn shift_while(regions: &mut TwoRegions, until_ms: u64, act: impl FnOnce(&mut TwoRegions)) -> (CallLog, u64) {
    let shifted_at = 2 * width_ms();
    let phase = |agents, time_ms| Phase { agents, time_ms, per_second: PER_SECOND };
    let end = shifted_at + until_ms + width_ms();
    let phases = [phase(regions.home.agents(), 0..shifted_at), phase(regions.far.agents(), shifted_at..end)];
    let started = Stopwatch::start();
    let log = thread::scope(|scope| {
        let load = scope.spawn(|| run(KEY, &phases, started));
        thread::sleep(Duration::from_millis(shifted_at + 1_000).saturating_sub(started.elapsed()));
        act(regions);
        load.join().expect("no panic")
    });
    let fullest = log.fullest_window();
    assert!(fullest <= quota(), "{fullest} of {} in a window", quota());
    (log, shifted_at)
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
    let (log, shifted_at) = shift_while(&mut regions, TAKEOVER_MS + width_ms() + 3_000, |regions| {
        let coordinator = regions.coordinator();
        regions.home.aggregators[coordinator].kill();
    });
    has_whole_quota(&log, shifted_at + TAKEOVER_MS + width_ms() + 3_000);
}

/// J4: the Kafka that holds the ledger is killed and comes back.
#[test]
fn a_killed_ledger_loses_no_budget() {
    let mut regions = TwoRegions::start("ledger", 1, 1);
    let (log, shifted_at) = shift_while(&mut regions, AWAY_MS + LOST_MS + width_ms(), |regions| {
        regions.home.kafka.kill();
        thread::sleep(Duration::from_millis(AWAY_MS));
        regions.home.kafka.restart();
    });
    has_whole_quota(&log, shifted_at + AWAY_MS + LOST_MS + width_ms());
}

/// J4: the Kafka of the region that gets the load is killed and comes back.
#[test]
fn a_killed_kafka_of_the_other_region_loses_no_budget() {
    let mut regions = TwoRegions::start("far-kafka", 1, 1);
    let (log, shifted_at) = shift_while(&mut regions, AWAY_MS + LOST_MS + width_ms(), |regions| {
        regions.far.kafka.kill();
        thread::sleep(Duration::from_millis(AWAY_MS));
        regions.far.kafka.restart();
    });
    has_whole_quota(&log, shifted_at + AWAY_MS + LOST_MS + width_ms());
}
