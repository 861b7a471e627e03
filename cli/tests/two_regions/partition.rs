//! A partition between the regions: the link stops forwarding.

use std::thread;
use std::time::Duration;

use tollgate_core::clock::Stopwatch;

use crate::calls::{Phase, quota, run, width_ms};
use crate::regions::{KEY, TwoRegions};

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
    let started = Stopwatch::start();
    let log = thread::scope(|scope| {
        scope.spawn(|| {
            for (at_ms, is_cut) in [(cut_at, true), (healed_at, false)] {
                thread::sleep(Duration::from_millis(at_ms).saturating_sub(started.elapsed()));
                regions.link.set_stopped(is_cut);
            }
        });
        run(KEY, &phases, started)
    });
    let fullest = log.fullest_window();
    assert!(fullest <= quota(), "{fullest} of {} in a window", quota());
    let (home, far) = (log.to(&regions.home.agents()), log.to(&regions.far.agents()));
    let floor = quota() * FLOOR_PERCENT / 100;
    let admitted = |time_ms: std::ops::Range<u64>| (home.admitted(time_ms.clone()), far.admitted(time_ms));
    let (before, cut, shared) =
        (admitted(cut_at - width_ms()..cut_at), admitted(healed_at - width_ms()..healed_at), admitted(shared_at..end));
    eprintln!("admitted in a window by home and far: {before:?} before, {cut:?} cut off, {shared:?} healed");
    assert!(before.1 * 10 >= (quota() - floor) * 8, "before: {before:?}");
    assert!(cut.1 <= floor && cut.1 * 10 >= floor * 8, "the far region keeps its floor of {floor}: {cut:?}");
    assert!(cut.0 * 10 >= (quota() - floor) * 8, "the home region has the rest: {cut:?}");
    assert!(shared.0.min(shared.1) * 10 >= quota() * 4, "both share again: {shared:?}");
}
