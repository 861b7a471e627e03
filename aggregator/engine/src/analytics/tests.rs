//! Rollups of a partition, and the view of the fleet that reads them.

use std::sync::Arc;

use tollgate_core::clock::Timestamp;
use tollgate_core::counter::CounterId;
use tollgate_core::decision::Source;
use tollgate_core::messages::calls::{Batch, BatchName, CounterEntry, DenialCause, Home, Outcome, Row};
use tollgate_core::messages::rollups::{LimitUse, MINUTE_MS, OTHERS, Rollup, RollupBatch, SECOND_MS, Subject, Totals};
use tollgate_core::window::Window;

use super::*;

mod closed_minutes;
mod estimates;

const START: Timestamp = Timestamp::from_ms(1_763_700_000_000);

fn home(denied: Option<DenialCause>, decider: u32) -> Home {
    Home { descriptors: 0, decider: Some(decider), shadow_denied: false, denied, remaining: Some(1) }
}

fn row(counter: Option<u32>, at_ms: u64, outcome: Outcome, home: impl Into<Option<Home>>) -> Row {
    let home = home.into();
    let (at, source) = (START.plus_ms(at_ms), Source::Store);
    Row { call: 1, counter, at, sub_window: 0, cost: 2, outcome, shadow_denied: false, source, home }
}

/// A batch with one counter for each caller.
fn batch(sequence: u64, callers: &[u32], rows: Vec<Row>) -> Batch {
    let counter = |caller: &u32| CounterEntry {
        id: CounterId::from_u128(u128::from(*caller)),
        rule: "per-key".into(),
        label: format!("k{caller}").into(),
        generation: 7,
        quota: 10,
        window: Window::new(60_000, 12).expect("a window"),
    };
    Batch {
        name: BatchName { agent: "gw-1".into(), epoch: 1, partition: 0, sequence },
        region: "r".into(),
        complete_through: START,
        counters: callers.iter().map(counter).collect(),
        texts: ["endpoint", "/x", "per-key", "lists.deny", "tier", "gold"].into_iter().collect(),
        descriptor_sets: vec![[(0, 1), (4, 5)].into_iter().collect()],
        rows,
        traces: Vec::new(),
    }
}

fn of(rollups: &[Rollup], subject: &Subject) -> Totals {
    let found: Vec<_> = rollups.iter().filter(|rollup| rollup.subject == *subject).collect();
    assert_eq!(found.len(), 1, "{subject:?} in {rollups:?}");
    found[0].totals
}

fn caller(label: &str) -> Subject {
    Subject::Caller { rule: "per-key".into(), caller: label.into() }
}

/// Reads records up to a minute after the batch, so that its minute is closed.
fn closed(rollups: &mut PartitionRollups, at_ms: u64) -> Vec<Rollup> {
    rollups.count(1_000 + at_ms, START.plus_ms(at_ms), &batch(0, &[], Vec::new()));
    rollups.take_minutes(START, false).into_iter().flat_map(|(_, taken)| taken).collect()
}

#[test]
fn a_minute_sums_calls_by_cause_authority_and_subject() {
    let mut rollups = PartitionRollups::new(AnalyticsSettings::default());
    let shadow = Row { shadow_denied: true, source: Source::Local, ..row(Some(1), 20, Outcome::Charged, None) };
    let rows = vec![
        row(Some(0), 10, Outcome::Charged, home(None, 2)),
        shadow,
        row(Some(0), 30, Outcome::Denied(DenialCause::Late), home(Some(DenialCause::Late), 2)),
        row(Some(1), 40, Outcome::Spared, None),
        row(None, 50, Outcome::Denied(DenialCause::List), home(Some(DenialCause::List), 3)),
        row(Some(0), 60, Outcome::Corrected, None),
        row(Some(0), 70, Outcome::Reset, None),
    ];
    rollups.count(0, START.plus_ms(100), &batch(1, &[1, 2], rows));
    let taken = closed(&mut rollups, MINUTE_MS + 5_000);
    let (store, local) = ([0, 1, 0, 0], [1, 0, 0, 0]);
    let late = [0, 0, 1, 0, 0];
    let first = Totals { admitted: 1, denied: late, units: 4, by_source: [0, 2, 0, 0], ..Totals::default() };
    let second = Totals { admitted: 1, shadow_denied: 1, units: 2, by_source: local, ..Totals::default() };
    assert_eq!((of(&taken, &caller("k1")), of(&taken, &caller("k2"))), (first, second));
    let mut rule = first;
    rule.add(&second);
    assert_eq!(of(&taken, &Subject::Rule("per-key".into())), rule);
    let list = Totals { denied: [0, 1, 0, 0, 0], by_source: store, ..Totals::default() };
    assert_eq!(of(&taken, &Subject::Rule("lists.deny".into())), list);
    let calls = Totals { admitted: 1, denied: [0, 1, 1, 0, 0], units: 2, by_source: [0, 3, 0, 0], ..Totals::default() };
    let named = ["/x", "gold", "gw-1"].map(Arc::<str>::from);
    let [endpoint, tier, agent] = named;
    for subject in [Subject::Calls, Subject::Endpoint(endpoint), Subject::Tier(tier), Subject::Agent(agent)] {
        assert_eq!(of(&taken, &subject), calls, "{subject:?}");
    }
    let limit = taken.iter().find(|rollup| rollup.subject == Subject::Rule("per-key".into())).and_then(|of| of.limit);
    assert_eq!(
        limit.map(|limit| (limit.quota, limit.window_ms, limit.generation, limit.callers)),
        Some((10, 60_000, 7, 2))
    );
}

/// A late charge is published with the whole minute; one that comes after the minute was dropped is tallied.
#[test]
fn a_late_charge_rewrites_its_minute() {
    let mut rollups = PartitionRollups::new(AnalyticsSettings::default());
    let call = |at_ms| row(Some(0), at_ms, Outcome::Charged, home(None, 2));
    rollups.count(0, START.plus_ms(100), &batch(1, &[1], vec![call(10)]));
    assert_eq!(of(&closed(&mut rollups, MINUTE_MS + 5_000), &caller("k1")).admitted, 1);
    assert_eq!(closed(&mut rollups, MINUTE_MS + 5_001), [], "nothing has changed");
    rollups.count(9_000_000, START.plus_ms(3 * MINUTE_MS), &batch(2, &[1], vec![call(20)]));
    assert_eq!(of(&closed(&mut rollups, 3 * MINUTE_MS + 1), &caller("k1")).admitted, 2);
    rollups.lost(START.as_ms());
    assert_eq!(of(&closed(&mut rollups, 3 * MINUTE_MS + 2), &caller("k1")).admitted, 2, "once more after a loss");
    rollups.count(9_000_001, START.plus_ms(9 * MINUTE_MS), &batch(3, &[1], vec![call(30)]));
    assert_eq!((closed(&mut rollups, 9 * MINUTE_MS + 1).len(), rollups.tally().too_late), (0, 1));
    assert_eq!(rollups.held().1, 0, "callers of a minute that was dropped");
}

/// A second in which a page looks has not ended; it is taken later, although no further call comes.
#[test]
fn the_second_of_a_single_call_is_taken_once_it_has_ended() {
    let mut rollups = PartitionRollups::new(AnalyticsSettings::default());
    rollups.count(0, START.plus_ms(100), &batch(1, &[1], vec![row(Some(0), 10, Outcome::Charged, home(None, 2))]));
    let mut look = |at_ms| (rollups.take_changed(), rollups.take_seconds(START.plus_ms(at_ms)).len());
    assert_eq!([look(500), look(999), look(1_000), look(2_000)], [(true, 0), (true, 0), (true, 3), (false, 0)]);
}

/// The minute of the first record that was read may have begun before.
#[test]
fn a_minute_that_was_read_in_part_is_not_summed() {
    let mut rollups = PartitionRollups::new(AnalyticsSettings::default());
    let rows = |at_ms| vec![row(Some(0), at_ms, Outcome::Charged, home(None, 2))];
    rollups.count(77, START.plus_ms(30_000), &batch(1, &[1], rows(30_000)));
    rollups.count(78, START.plus_ms(2 * MINUTE_MS), &batch(2, &[1], rows(2 * MINUTE_MS)));
    assert_eq!(rollups.held().0, [START.plus_ms(2 * MINUTE_MS).as_ms()]);
}

/// The clock of the bus was an hour ahead, and was set back: calls of the present are summed and published.
#[test]
fn a_step_back_of_the_clock_of_the_bus_makes_no_call_too_late() {
    let mut rollups = PartitionRollups::new(AnalyticsSettings::default());
    rollups.count(0, START.plus_ms(60 * MINUTE_MS), &batch(1, &[], Vec::new()));
    rollups.count(1, START.plus_ms(100), &batch(2, &[1], vec![row(Some(0), 10, Outcome::Charged, home(None, 2))]));
    assert_eq!(of(&closed(&mut rollups, MINUTE_MS + 5_000), &caller("k1")).admitted, 1);
    assert_eq!(rollups.tally().too_late, 0);

    // A partition that was taken over is whole from the minute after the step.
    let mut rollups = PartitionRollups::new(AnalyticsSettings::default());
    rollups.count(77, START.plus_ms(60 * MINUTE_MS), &batch(1, &[], Vec::new()));
    rollups.count(78, START.plus_ms(100), &batch(2, &[], Vec::new()));
    let at = 2 * MINUTE_MS + 10;
    let call = row(Some(0), at, Outcome::Charged, home(None, 2));
    rollups.count(79, START.plus_ms(at + 90), &batch(3, &[1], vec![call]));
    assert_eq!(of(&closed(&mut rollups, 3 * MINUTE_MS + 5_000), &caller("k1")).admitted, 1);
    assert_eq!(rollups.tally().too_late, 0);
}

/// A list of callers says if calls of others are missing from it, whether or not they are listed themselves.
#[test]
fn a_list_is_exact_unless_callers_share_sums() {
    let (mut view, now) = (FleetView::default(), START.plus_ms(MINUTE_MS));
    view.apply(now, Some(now), &published("a", 0, 1, vec![minute(caller("k1"), 5, 1)])).expect("credible rollups");
    assert!(!view.lacks_callers(now, 5, None));
    view.apply(now, Some(now), &published("a", 1, 1, vec![minute(caller(OTHERS), 1, 0)])).expect("credible rollups");
    let Subject::Caller { rule, .. } = caller("k1") else { panic!("a caller") };
    let found = [None, Some(&*rule), Some("other")].map(|rule| view.lacks_callers(now, 5, rule));
    // The first callers of an open minute are not all of them.
    let limit = Some(LimitUse { callers: 3, ..LimitUse::default() });
    let of_rule = Rollup { limit, ..minute(Subject::Rule(rule.clone()), 5, 1) };
    let mut open = FleetView::default();
    open.apply(now, Some(now), &published("a", 0, 1, vec![of_rule, minute(caller("k1"), 5, 1)]))
        .expect("credible rollups");
    assert!(open.lacks_callers(now, 5, Some(&rule)) && !open.lacks_callers(now, 5, Some("other")));
    assert_eq!((found, view.lacks_callers(now.plus_ms(10 * MINUTE_MS), 5, None)), ([true, true, false], false));
}

fn published(aggregator: &str, partition: u32, as_of: u64, rollups: Vec<Rollup>) -> RollupBatch {
    RollupBatch { aggregator: aggregator.into(), partition, log: 1, as_of, rollups }
}

fn minute(subject: Subject, admitted: u64, denied: u64) -> Rollup {
    let totals = Totals { admitted, denied: [denied, 0, 0, 0, 0], ..Totals::default() };
    Rollup { start: START, size_ms: MINUTE_MS, subject, totals, limit: None }
}

/// Two owners of a partition, repetitions and rewritten minutes: the rollup of the newest offset counts, once for each partition.
#[test]
fn the_view_adds_partitions_and_replaces_rollups() {
    let (mut view, now) = (FleetView::default(), START.plus_ms(MINUTE_MS));
    let batches = [
        published("a", 0, 10, vec![minute(Subject::Calls, 5, 1), minute(caller("k1"), 5, 1)]),
        published("b", 1, 3, vec![minute(Subject::Calls, 7, 0)]),
        published("b", 0, 12, vec![minute(Subject::Calls, 6, 1), minute(caller("k1"), 6, 1)]),
        published("a", 0, 11, vec![minute(Subject::Calls, 1, 0)]),
        published("b", 1, 3, vec![minute(Subject::Calls, 7, 0)]),
    ];
    for batch in &batches {
        view.apply(now, Some(now), batch).expect("credible rollups");
    }
    let series = view.series(&Subject::Calls, MINUTE_MS, START, now);
    assert_eq!(
        series.iter().map(|(at, sums)| (*at, sums.admitted, sums.denied())).collect::<Vec<_>>(),
        [(START, 13, 1)]
    );
    let callers = view.callers(now, 5, CallersOrder::Denied, |_, _| true);
    assert_eq!(callers.iter().map(|caller| (&*caller.caller, caller.totals.denied())).collect::<Vec<_>>(), [("k1", 1)]);
    let names: [Arc<str>; 3] = ["a", "b", "c"].map(Into::into);
    assert_eq!(view.silent(now, names.iter()), ["c".into()]);
    assert_eq!(view.silent(now.plus_ms(6_000), names.iter()).len(), 3);
    let ahead = Rollup { start: START.plus_ms(10 * MINUTE_MS), ..minute(Subject::Calls, 1, 0) };
    let error = view.apply(now, Some(now), &published("d", 0, 99, vec![ahead])).expect_err("a minute of the future");
    assert_eq!(error, "aggregator d reports calls of the future; set its clock");
}

/// Callers are new if their first denial came after the rules had changed.
#[test]
fn newly_denied_callers_are_those_since_the_rules_changed() {
    let (mut view, later) = (FleetView::default(), START.plus_ms(2 * MINUTE_MS));
    let rule = |start, generation| {
        let limit = LimitUse { quota: 10, window_ms: 60_000, generation, ..LimitUse::default() };
        Rollup { start, limit: Some(limit), ..minute(Subject::Rule("per-key".into()), 1, 0) }
    };
    let before = vec![rule(START, 1), minute(caller("old"), 1, 1)];
    view.apply(START, Some(START), &published("a", 0, 1, before)).expect("rollups");
    let denied = |label| Rollup { start: later, ..minute(caller(label), 1, 2) };
    let after = vec![rule(later, 2), denied("old"), denied("new")];
    view.apply(later, Some(later), &published("a", 0, 2, after)).expect("rollups");
    let names = |order| -> Vec<Arc<str>> {
        view.callers(later, 5, order, |_, _| true).into_iter().map(|caller| caller.caller).collect()
    };
    assert_eq!(names(CallersOrder::New), ["new".into()]);
    assert_eq!(names(CallersOrder::Denied), ["old".into(), "new".into()]);
    assert_eq!(view.rules_changed_at(), Some(later));
    assert_eq!((view.knows_rule("per-key"), view.knows_rule("other")), (true, false));
}
