//! A partition between the regions: the link stops forwarding.

use std::ops::Range;
use std::thread;
use std::time::Duration;

use tollgate_core::clock::Stopwatch;

use super::calls::{CallLog, Phase, quota, run, width_ms};
use super::regions::{KEY, TwoRegions};

/// Part of the quota that each region holds always, in percent.
const FLOOR_PERCENT: u64 = 10;
/// Time from the healing to the window in which both regions have their parts, beside a window: a busy donor waits for it.
const HEALED_MS: u64 = 3_000;
const PER_SECOND: u64 = 80;

/// J4: the far region is cut off while it holds most of the quota. Both regions have more calls than the quota. The sum never
/// exceeds it; the far region falls to its floor, the home region gets the rest, and both share again when the link is healed.
#[test]
fn regions_that_are_cut_off_stay_within_the_quota() {
    let regions = TwoRegions::start("partition", 1, FLOOR_PERCENT);
    // The partition is longer than a term and a window.
    let (cut_at, healed_at) = (2 * width_ms(), 6 * width_ms());
    let shared_at = healed_at + width_ms() + HEALED_MS;
    let end = shared_at + width_ms();
    let phase = |agents, time_ms| Phase { agents, time_ms, per_second: PER_SECOND };
    let phases = [phase(regions.far.agents(), 0..end), phase(regions.home.agents(), cut_at..end)];
    let log = run_cut(&regions, &phases, cut_at..healed_at);
    let (home, far) = (log.to(&regions.home.agents()), log.to(&regions.far.agents()));
    let floor = quota() * FLOOR_PERCENT / 100;
    let admitted = |time_ms: Range<u64>| (home.admitted(time_ms.clone()), far.admitted(time_ms));
    let (before, cut, shared) =
        (admitted(cut_at - width_ms()..cut_at), admitted(healed_at - width_ms()..healed_at), admitted(shared_at..end));
    eprintln!("admitted in a window by home and far: {before:?} before, {cut:?} cut off, {shared:?} healed");
    assert!(before.1 * 10 >= (quota() - floor) * 8, "before: {before:?}");
    assert!(cut.1 <= floor && cut.1 * 10 >= floor * 8, "the far region keeps its floor of {floor}: {cut:?}");
    assert!(cut.0 * 10 >= (quota() - floor) * 8, "the home region has the rest: {cut:?}");
    assert!(shared.0.min(shared.1) * 10 >= quota() * 4, "both share again: {shared:?}");
}

/// J4: the far region is cut off until it has its floor only. The home region has been idle for a window when the link is healed: the far
/// one has the units 3 s later.
#[test]
fn a_region_that_is_heard_again_has_what_is_free_within_3_s() {
    let regions = TwoRegions::start("heard-again", 1, FLOOR_PERCENT);
    let (cut_at, idle_at) = (2 * width_ms(), 5 * width_ms());
    let healed_at = idle_at + width_ms();
    let heard_at = healed_at + HEALED_MS;
    let end = heard_at + width_ms();
    let phase = |agents, time_ms| Phase { agents, time_ms, per_second: PER_SECOND };
    let phases = [phase(regions.far.agents(), 0..end), phase(regions.home.agents(), cut_at..idle_at)];
    let log = run_cut(&regions, &phases, cut_at..healed_at);
    let far = log.to(&regions.far.agents());
    let (cut, heard) = (far.admitted(idle_at..healed_at), far.admitted(heard_at..end));
    let exact = log.admitted_by_exact(heard_at..end);
    eprintln!("admitted in a window by far: {cut} cut off, {heard} heard again, {exact} by one exact limiter");
    let floor = quota() * FLOOR_PERCENT / 100;
    assert!(cut <= floor, "the far region has its floor of {floor}: {cut}");
    // The floor of the home region stays reserved for it.
    let free = exact.min(quota() - floor);
    assert!(free > floor && heard * 10 >= free * 9, "{heard} admitted of {free} that are free");
}

/// Makes the calls while the link stops forwarding for a time, and asserts that no window holds more than the quota.
fn run_cut(regions: &TwoRegions, phases: &[Phase], cut_ms: Range<u64>) -> CallLog {
    let started = Stopwatch::start();
    let log = thread::scope(|scope| {
        scope.spawn(|| {
            for (at_ms, is_cut) in [(cut_ms.start, true), (cut_ms.end, false)] {
                thread::sleep(Duration::from_millis(at_ms).saturating_sub(started.elapsed()));
                regions.link.set_stopped(is_cut);
            }
        });
        run(KEY, phases, started)
    });
    let fullest = log.fullest_window();
    assert!(fullest <= quota(), "{fullest} of {} in a window", quota());
    log
}
