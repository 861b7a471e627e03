//! Load that shifts from one region to the other.

use std::ops::Range;

use tollgate_core::clock::Stopwatch;

use super::calls::{CallLog, Phase, WIDTH_FULL_MS, quota, run, width_ms};
use super::regions::{KEY, TwoRegions};

/// Time after which the budget of an idle region must be where the load is. A busy one first waits for its window.
const TRANSFER_MS: u64 = 3_000;
/// Calls to each agent of the busy region: 1.6 quotas in all.
const PER_SECOND: u64 = 80;

/// J1, J3: a region is busy, then the other one is; the first one has been idle for a window when it is busy again.
#[test]
fn the_budget_follows_the_load() {
    let regions = TwoRegions::start("shift", 1, 1);
    let phase = |agents, time_ms| Phase { agents, time_ms, per_second: PER_SECOND };
    let shifted_at = TRANSFER_MS + width_ms();
    let paused_at = shifted_at + width_ms() + TRANSFER_MS + width_ms();
    let back_at = paused_at + width_ms();
    let end = back_at + TRANSFER_MS + width_ms();
    let phases = [
        phase(regions.home.agents(), 0..shifted_at),
        phase(regions.far.agents(), shifted_at..paused_at),
        phase(regions.home.agents(), back_at..end),
    ];
    let log = run(KEY, &phases, Stopwatch::start());
    let fullest = log.fullest_window();
    assert!(fullest <= quota(), "{fullest} of {} in a window", quota());
    is_as_exact(&log, "the first load", TRANSFER_MS..shifted_at);
    is_as_exact(&log, "after a busy donor", shifted_at + width_ms() + TRANSFER_MS..paused_at);
    is_as_exact(&log, "after an idle donor", back_at + TRANSFER_MS..end);
}

/// Asserts that a time has as many admissions as an exact limiter makes of the same calls, within 5%. Half the window has half the units,
/// and every delay weighs twice as much.
fn is_as_exact(log: &CallLog, what: &str, time_ms: Range<u64>) {
    let (admitted, exact) = (log.admitted(time_ms.clone()), log.admitted_by_exact(time_ms.clone()));
    eprintln!("{what}: {} calls, {admitted} admitted, {exact} by one exact limiter", log.sent(time_ms));
    let percent = 5 * WIDTH_FULL_MS / width_ms();
    assert!(
        exact > 0 && admitted.abs_diff(exact) * 100 <= exact * percent,
        "{what}: {admitted}, {exact} by one exact limiter"
    );
}
