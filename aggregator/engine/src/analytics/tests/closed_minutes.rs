//! Minutes of the view that are closed, by the time of the log.

use super::*;

/// A minute of before the start is read from the log, closed, and keeps its sums.
#[test]
fn a_closed_minute_keeps_its_sums_and_first_callers() {
    let (mut view, mut now) = (FleetView::default(), START.plus_ms(60 * MINUTE_MS));
    let callers: Vec<Rollup> = (0..200).map(|number| minute(caller(&format!("k{number}")), number, 0)).collect();
    view.apply(now, Some(now), &published("a", 0, 1, callers)).expect("rollups");
    view.apply(now, Some(now), &published("a", 1, 1, vec![minute(Subject::Calls, 9, 0)])).expect("rollups");
    for _ in 0..3 {
        now = now.plus_ms(MINUTE_MS);
        let second = Rollup { start: now, size_ms: SECOND_MS, ..minute(Subject::Calls, 1, 0) };
        view.apply(now, Some(now), &published("a", 0, 2, vec![second])).expect("rollups");
    }
    view.apply(now, Some(now), &published("a", 1, 3, vec![minute(Subject::Calls, 99, 0)])).expect("rollups");
    let sums = view.callers(now, 100, CallersOrder::Calls, |_, _| true);
    let (total, first): (u64, &CallerSums) = (sums.iter().map(|caller| caller.totals.admitted).sum(), &sums[1]);
    assert_eq!((sums.len(), total, &*first.caller), (51, (0..200).sum(), "k199"), "{:?}", sums[0]);
    assert_eq!(
        view.series(&Subject::Calls, MINUTE_MS, START, START.plus_ms(1))[0].1.admitted,
        9,
        "it is replaced no more"
    );
}

/// An aggregator that starts reads a day of closed minutes at once. It holds no more of them open than one that reads them as they come.
#[test]
fn a_day_that_is_read_at_once_is_closed_by_the_time_of_its_log() {
    const CALLERS: usize = 300;
    let (mut view, now) = (FleetView::default(), START.plus_ms(24 * 60 * MINUTE_MS - 1));
    let mut most = 0;
    for number in 0..24 * 60 {
        let start = START.plus_ms(number * MINUTE_MS);
        let rollup = |subject| Rollup { start, ..minute(subject, 1, 0) };
        let callers = (0..CALLERS).map(|number| rollup(caller(&format!("k{number}"))));
        let endpoints = (0..CALLERS).map(|number| rollup(Subject::Endpoint(format!("/{number}").into())));
        let written = start.plus_ms(MINUTE_MS + 3_000);
        let batch = published("a", 0, number, callers.chain(endpoints).collect());
        view.apply(now, Some(written), &batch).expect("rollups");
        most = most.max(view.entries());
    }
    // A closed minute has 50 callers, 200 endpoints, and the others of both. An open one has all, each with its partition.
    let (closed, open) = (24 * 60 * (50 + 200 + 2), 12 * 4 * CALLERS);
    assert!(most <= closed + open, "{most} entries");
    for (name, sums) in [
        ("callers", &view.sums(1_440, now, |subject| matches!(subject, Subject::Caller { .. }).then(|| "all".into()))),
        ("endpoints", &view.sums(1_440, now, |subject| matches!(subject, Subject::Endpoint(_)).then(|| "all".into()))),
    ] {
        assert_eq!(sums[0].1.admitted, 24 * 60 * CALLERS as u64, "{name}");
    }
}

/// The clock of the bus is ahead: a minute that is being counted stays open.
#[test]
fn a_clock_of_the_bus_that_is_ahead_closes_no_minute_that_changes() {
    let (mut view, now) = (FleetView::default(), START.plus_ms(30_000));
    view.apply(now, None, &published("a", 0, 1, vec![minute(Subject::Calls, 3, 0)])).expect("rollups");
    let ahead = now.plus_ms(11 * MINUTE_MS);
    view.apply(now, Some(ahead), &published("a", 1, 1, vec![minute(Subject::Calls, 4, 0)])).expect("rollups");
    let later = START.plus_ms(MINUTE_MS + 3_000);
    let written = Some(later.plus_ms(11 * MINUTE_MS));
    view.apply(later, written, &published("a", 0, 2, vec![minute(Subject::Calls, 9, 0)])).expect("rollups");
    assert_eq!(view.series(&Subject::Calls, MINUTE_MS, START, later)[0].1.admitted, 13);
}

/// The log of closed minutes cannot be written, and the newest seconds can: no minute stays open for a day.
#[test]
fn a_minute_that_is_never_published_is_closed_in_the_end() {
    let mut view = FleetView::default();
    let callers = |start| (0..200).map(move |number| Rollup { start, ..minute(caller(&format!("k{number}")), 1, 0) });
    for number in 0..60 {
        let start = START.plus_ms(number * MINUTE_MS);
        view.apply(start, None, &published("a", 0, number, callers(start).collect())).expect("rollups");
    }
    assert!(view.entries() < 40 * 51 + 22 * 400, "{} entries", view.entries());
}

/// The clock of an aggregator is set a day ahead and back: minutes are closed as before, and none is replaced after that.
#[test]
fn minutes_are_closed_after_a_step_of_the_clock() {
    let mut view = FleetView::default();
    let second = |at: Timestamp| Rollup { start: at, size_ms: SECOND_MS, ..minute(Subject::Calls, 1, 0) };
    let later = START.plus_ms(30 * MINUTE_MS);
    let ahead = later.plus_ms(24 * 60 * MINUTE_MS);
    view.apply(ahead, Some(ahead), &published("a", 0, 1, vec![second(ahead)])).expect("rollups");
    view.apply(later, Some(later), &published("a", 0, 2, vec![minute(Subject::Calls, 5, 0)])).expect("rollups");
    let closing = later.plus_ms(MINUTE_MS);
    view.apply(closing, Some(closing), &published("a", 0, 3, vec![second(closing)])).expect("rollups");
    view.apply(closing, Some(closing), &published("a", 0, 4, vec![minute(Subject::Calls, 9, 0)])).expect("rollups");
    assert_eq!(view.series(&Subject::Calls, MINUTE_MS, START, START.plus_ms(1))[0].1.admitted, 5);
}
