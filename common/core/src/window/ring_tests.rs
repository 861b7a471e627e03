//! Tests of the ring against a list of all additions.

use proptest::prelude::*;

use super::{Estimate, Ring, Window};
use crate::clock::Timestamp;

const fn at(ms: u64) -> Timestamp {
    Timestamp::from_ms(ms)
}

/// A9: previous 60, current 0 at second 43 of the minute reads 17.
#[test]
fn previous_minute_is_weighted_by_its_remaining_share() {
    let minute = Window::new(60_000, 1).unwrap();
    let mut ring = Ring::new(minute);
    ring.add(0, 60);
    assert_eq!(ring.used(at(60_000 + 43_000), Estimate::Interpolated), 17);
    assert_eq!(ring.used(at(60_000 + 43_000), Estimate::Conservative), 60);
}

#[test]
fn a_sub_window_counts_until_it_has_left() {
    let mut ring = Ring::new(Window::new(60, 6).unwrap());
    ring.add(0, 5);
    assert_eq!(ring.used(at(69), Estimate::Conservative), 5);
    assert_eq!(ring.used(at(70), Estimate::Conservative), 0);
    assert!(ring.add(6, 1));
    assert!(ring.add(0, 1), "the sub-window before the n whole ones is still held");
    assert!(ring.add(7, 1));
    assert!(!ring.add(0, 1));
}

#[test]
fn a_clock_that_stepped_back_keeps_the_counts() {
    let mut ring = Ring::new(Window::new(60, 6).unwrap());
    ring.add(100, 3);
    ring.add(102, 4);
    let rebased = |ring: &Ring, ms, estimate| {
        let mut ring = ring.clone();
        ring.rebase(at(ms), estimate);
        ring.counts().collect::<Vec<_>>()
    };
    assert_eq!(rebased(&ring, 500, Estimate::Conservative), [(49, 3), (50, 4)], "one sub-window newer");
    assert_eq!(rebased(&ring, 500, Estimate::Ignored), [(48, 3), (50, 4)], "a window by itself");
    assert_eq!(rebased(&ring, 1_020, Estimate::Conservative), [(100, 3), (102, 4)], "the clock is still there");
    ring.add(101, 5);
    assert_eq!(rebased(&ring, 500, Estimate::Interpolated), [(49, 3), (50, 9)], "the two newest are one");
}

/// Reference for [`Ring::used`]: sums the additions that lie in the window.
fn used_by_list(window: Window, additions: &[(u64, u64)], now: Timestamp, estimate: Estimate) -> u64 {
    let (part, sub_windows) = (window.sub_window_ms(), u64::from(window.sub_windows()));
    let current = now.as_ms() / part;
    let of = |index: u64| -> u64 { additions.iter().filter(|(i, _)| *i == index).map(|(_, units)| units).sum() };
    let whole: u64 = (0..sub_windows).filter_map(|back| current.checked_sub(back)).map(of).sum();
    let oldest = current.checked_sub(sub_windows).map_or(0, of);
    match estimate {
        Estimate::Conservative => whole + oldest,
        Estimate::Interpolated => whole + oldest * (part - now.as_ms() % part) / part,
        Estimate::Ignored => whole,
    }
}

proptest! {
    /// never-over: whenever units were added and wherever the clock steps back to, each unit counts for a whole window.
    #[test]
    fn no_unit_leaves_early_after_a_clock_stepped_back(
        sub_windows in 1_u32..14,
        sub_window_ms in 1_u64..40,
        waits_ms in prop::collection::vec(0_u64..60, 1..20),
        back_ms in 1_u64..2_000,
        since_ms in 0_u64..600,
    ) {
        let window = Window::new(sub_window_ms * u64::from(sub_windows), sub_windows).unwrap();
        let (mut ring, mut now, mut added) = (Ring::new(window), at(10_000), Vec::new());
        for wait_ms in waits_ms {
            now = now.plus_ms(wait_ms);
            ring.add(window.sub_window(now), 1);
            added.push(now);
        }
        ring.rebase(now.minus_ms(back_ms), Estimate::Conservative);
        let inside = added.iter().filter(|at| at.plus_ms(window.width_ms()) > now.plus_ms(since_ms)).count();
        let used = ring.used(now.minus_ms(back_ms).plus_ms(since_ms), Estimate::Conservative);
        prop_assert!(used >= inside as u64, "{} of {} units, {:?}", used, inside, ring);
        let latest = window.width_ms() + sub_window_ms;
        let left = ring.used(now.minus_ms(back_ms).plus_ms(latest), Estimate::Conservative);
        prop_assert_eq!(left, 0, "all leave within a window and a sub-window");
    }

    #[test]
    fn a_ring_equals_the_list_of_all_additions(
        sub_windows in 1_u32..14,
        sub_window_ms in 1_u64..40,
        steps in prop::collection::vec((0_u64..30, 0_u64..9), 1..60),
        room in 0_u64..40,
        which in 0_usize..3,
    ) {
        let window = Window::new(sub_window_ms * u64::from(sub_windows), sub_windows).unwrap();
        let estimate = [Estimate::Interpolated, Estimate::Conservative, Estimate::Ignored][which];
        let mut ring = Ring::new(window);
        let mut additions = Vec::new();
        let mut now = at(1_000);
        for (wait_ms, units) in steps {
            now = now.plus_ms(wait_ms);
            prop_assert_eq!(ring.used(now, estimate), used_by_list(window, &additions, now, estimate));
            ring.add(window.sub_window(now), units);
            additions.push((window.sub_window(now), units));
        }
        let free_at = ring.falls_to(room, now, estimate);
        prop_assert!(used_by_list(window, &additions, free_at, estimate) <= room);
        if free_at > now {
            prop_assert!(used_by_list(window, &additions, free_at.minus_ms(1), estimate) > room);
        }
    }
}
