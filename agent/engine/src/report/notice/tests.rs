//! Tests of the notices.

use super::*;

const LOST: Notice = Notice::StoreUnavailable(StoreError::TimedOut);
const FOUND: Notice = Notice::StoreRecovered;

fn taken(queue: &mut NoticeQueue, ms: u64) -> Vec<Notice> {
    let mut written = Vec::new();
    queue.take(Timestamp::from_ms(ms), |notice| written.push(notice));
    written
}

#[test]
fn a_change_is_told_at_once() {
    let mut queue = NoticeQueue::default();
    assert_eq!((queue.due_at(), taken(&mut queue, 1_000)), (None, vec![]));
    for outage in 0..3 {
        let at = 20_000 * outage;
        queue.push(LOST);
        assert_eq!(queue.due_at(), Some(Timestamp::default()));
        assert_eq!(taken(&mut queue, at), [LOST]);
        queue.push(FOUND);
        assert_eq!((taken(&mut queue, at + 300), queue.due_at()), (vec![FOUND], None));
    }
}

#[test]
fn a_state_that_comes_and_goes_is_told_once_in_a_period_with_the_number_of_changes() {
    let mut queue = NoticeQueue::default();
    let mut lines = Vec::new();
    for ms in (0..35_000).step_by(100) {
        queue.push(if ms % 200 == 0 { LOST } else { FOUND });
        lines.extend(taken(&mut queue, ms).into_iter().map(|notice| (ms, notice)));
    }
    let held = |changes| Notice::HeldBack { changes };
    let expected = [
        (0, LOST),
        (100, FOUND),
        (10_000, held(99)),
        (10_000, LOST),
        (20_000, held(100)),
        (20_000, LOST),
        (30_000, held(100)),
        (30_000, LOST),
    ];
    assert_eq!(lines, expected);
    assert_eq!(queue.due_at(), Some(Timestamp::from_ms(40_000)), "the last change is not lost");
    assert_eq!(taken(&mut queue, 40_000), [held(49), FOUND]);
    queue.push(LOST);
    assert_eq!(taken(&mut queue, 50_000), [LOST], "after a quiet period a change is told at once");
}

#[test]
fn one_state_does_not_hold_back_another() {
    let mut queue = NoticeQueue::default();
    for notice in [LOST, FOUND, LOST] {
        queue.push(notice);
    }
    let stepped = Notice::StoreClockSteppedBack(Duration::from_secs(5));
    queue.push(stepped);
    assert_eq!(taken(&mut queue, 0), [LOST, FOUND, stepped]);
}

#[test]
fn the_queue_has_a_cap() {
    let mut queue = NoticeQueue::default();
    (0..100).for_each(|_| queue.push(LOST));
    assert_eq!(
        (taken(&mut queue, 0).len(), taken(&mut queue, PERIOD_MS)),
        (2, vec![Notice::HeldBack { changes: 62 }, LOST])
    );
}
