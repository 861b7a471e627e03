//! Callers past the caps: sums that they share, and estimates.

use std::collections::BTreeMap;

use super::*;

/// capped: callers past a cap share one sum, so no call is lost or counted twice.
#[test]
fn callers_past_a_cap_are_summed_as_others() {
    for settings in [
        AnalyticsSettings { callers_max: 5, ..AnalyticsSettings::default() },
        AnalyticsSettings { rollups_max: 5, ..AnalyticsSettings::default() },
        AnalyticsSettings { callers_max: 8, rollups_max: 5, ..AnalyticsSettings::default() },
    ] {
        let mut rollups = PartitionRollups::new(settings);
        let mut newest: BTreeMap<Subject, Totals> = BTreeMap::new();
        for round in 0..3 {
            let callers: Vec<u32> = (round * 5..20 + round * 5).collect();
            let rows = (0..20).map(|place| row(Some(place), 10, Outcome::Charged, home(None, 2))).collect();
            let at_ms = MINUTE_MS + 5_000 * u64::from(round + 1);
            rollups.count(u64::from(round), START.plus_ms(at_ms), &batch(round.into(), &callers, rows));
            for rollup in closed(&mut rollups, at_ms + 1) {
                if matches!(rollup.subject, Subject::Caller { .. }) {
                    newest.insert(rollup.subject, rollup.totals);
                }
            }
            let sum: u64 = newest.values().map(|totals| totals.admitted).sum();
            assert_eq!((sum, newest.len()), (20 * u64::from(round + 1), 6), "{settings:?}: {newest:?}");
            assert!(newest.contains_key(&caller(OTHERS)));
        }
    }
}

/// A caller that comes once the cap is reached, and makes many calls, has a rollup of its own. It lacks at most as many calls as it
/// says. All rollups together have each call once, also those of a minute that changes after it was published.
#[test]
fn a_busy_caller_past_the_cap_has_sums_of_its_own_with_their_error() {
    let settings = AnalyticsSettings { callers_max: 1_000, ..AnalyticsSettings::default() };
    let (mut rollups, mut made): (_, BTreeMap<Subject, u64>) = (PartitionRollups::new(settings), BTreeMap::new());
    let mut newest: BTreeMap<Subject, Rollup> = BTreeMap::new();
    for round in 0..200_u32 {
        // 100 callers of one call, and from the 20th round on three busy ones.
        let mut callers: Vec<u32> = (0..100).map(|place| 100 * round + place).collect();
        callers.extend((round >= 20).then_some([900_001, 900_002, 900_003]).into_iter().flatten());
        let calls = |place: u32| if place < 100 { 1 } else { 5 * (place - 99) };
        let places = (0..).zip(&callers).flat_map(|(place, _)| std::iter::repeat_n(place, calls(place) as usize));
        let rows = places.map(|place| row(Some(place), 10, Outcome::Charged, home(None, 2))).collect();
        for (place, number) in (0..).zip(&callers) {
            *made.entry(caller(&format!("k{number}"))).or_default() += u64::from(calls(place));
        }
        // The minute is published after 150 rounds, and once more at the end.
        let at_ms = if round < 150 { 100 } else { MINUTE_MS + 5_000 };
        rollups.count(round.into(), START.plus_ms(at_ms), &batch(round.into(), &callers, rows));
        if round >= 149 {
            for rollup in closed(&mut rollups, MINUTE_MS + 5_000) {
                newest.insert(rollup.subject.clone(), rollup);
            }
        }
    }
    let (callers, all): (u64, u64) = (made.len() as u64, made.values().sum());
    let rule = &newest[&Subject::Rule("per-key".into())];
    let limit = rule.limit.expect("the limit of a rule");
    assert_eq!(rule.totals.admitted, all);
    assert!(limit.callers_error > 0 && limit.callers.abs_diff(callers) <= limit.callers_error, "{limit:?}: {callers}");
    let of_callers = newest.iter().filter(|(subject, _)| matches!(subject, Subject::Caller { .. }));
    assert_eq!(of_callers.clone().map(|(_, rollup)| rollup.totals.admitted).sum::<u64>(), all);
    assert_eq!(of_callers.clone().count(), 1_000 + 3 + 1, "the first ones, the busy ones and the others");
    for (subject, rollup) in of_callers.filter(|(subject, _)| **subject != caller(OTHERS)) {
        let missing_max = rollup.limit.map_or(0, |limit| limit.missing_max);
        let (shown, made) = (rollup.totals.admitted, made[subject]);
        assert!((shown..=shown + missing_max).contains(&made), "{subject:?}: {shown} and {missing_max} of {made}");
        assert!(missing_max <= made / 20, "{subject:?}: {missing_max} of {made}");
    }
}

/// The view adds the errors of the partitions, and replaces them with the rollups.
#[test]
fn the_view_adds_the_errors_of_partitions() {
    let (mut view, now) = (FleetView::default(), START.plus_ms(MINUTE_MS));
    let limit = |callers, callers_error, missing_max| {
        Some(LimitUse { callers, callers_error, missing_max, quota: 10, ..LimitUse::default() })
    };
    let rule =
        |callers, error| Rollup { limit: limit(callers, error, 0), ..minute(Subject::Rule("per-key".into()), 9, 0) };
    let busy = |missing_max| Rollup { limit: limit(0, 0, missing_max), ..minute(caller("k1"), 5, 1) };
    let batches = [
        published("a", 0, 10, vec![rule(30_000, 800), busy(7)]),
        published("b", 1, 3, vec![rule(100, 0)]),
        published("b", 0, 12, vec![rule(31_000, 900), busy(8)]),
    ];
    for batch in &batches {
        view.apply(now, Some(now), batch).expect("credible rollups");
    }
    let rules = view.rules(now);
    assert_eq!((rules[0].limit.callers, rules[0].limit.callers_error), (31_100, 900));
    let callers = view.callers(now, 5, CallersOrder::Calls, |_, _| true);
    assert_eq!((callers[0].totals.calls(), callers[0].limit.missing_max), (6, 8));
}

/// A caller that a page has shown has a rollup of its own in the closed minute, so no call is in two sums. Past the cap, none is shown.
#[test]
fn a_caller_that_was_shown_is_not_among_the_others() {
    let mut rollups = PartitionRollups::new(AnalyticsSettings { callers_max: 100, rollups_max: 5, entries_max: 100 });
    let calls = |caller: u32, calls: usize| {
        (0..calls).map(move |_| row(Some(caller), 10, Outcome::Charged, (caller == 0).then(|| home(None, 2))))
    };
    let rows = calls(0, 1).chain(calls(1, 1)).chain(calls(2, 5)).chain(calls(3, 5)).collect();
    rollups.count(0, START.plus_ms(100), &batch(1, &[1, 2, 3, 4], rows));
    let (minute, _, _) = rollups.open_minute(START.plus_ms(100), 9).expect("the minute has begun");
    assert!(rollups.open_minute(minute.minus_ms(1), 9).is_none(), "the clocks were set back");
    let shown = [1, 2, 3, 1].map(|id| rollups.choose_caller(minute, CounterId::from_u128(id)));
    assert_eq!(shown.map(|sums| sums.map(|(totals, _)| totals.admitted)), [Some(1), Some(1), None, Some(1)]);
    // A caller that comes late with many calls has a rollup of its own, too.
    let rows = (0..9).map(|_| row(Some(0), 50, Outcome::Charged, None)).collect();
    rollups.count(1, START.plus_ms(200), &batch(2, &[5], rows));
    let many = (10..20).collect::<Vec<u32>>();
    let rows = (0..10).map(|counter| row(Some(counter), 60, Outcome::Charged, None)).collect();
    rollups.count(2, START.plus_ms(300), &batch(3, &many, rows));
    let taken = closed(&mut rollups, MINUTE_MS + 5_000);
    let admitted = ["k1", "k2", "k3", "k4", "k5", OTHERS].map(|label| of(&taken, &caller(label)).admitted);
    assert_eq!(admitted, [1, 1, 5, 5, 9, 10]);
}
