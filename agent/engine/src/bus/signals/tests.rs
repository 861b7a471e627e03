//! Freshness of signals, and the own batches that they contain.

use super::*;

const fn at(ms: u64) -> Timestamp {
    Timestamp::from_ms(ms)
}

/// Signals of one partition, over a bus whose clock is this agent's.
fn signals() -> Signals {
    let signals = Signals::new(1);
    signals.note_bus_time(at(9_000), at(9_000), at(9_000));
    signals
}

fn heartbeat(log: LogId, as_of: Offset, appended: u64) -> SignalBatch {
    SignalBatch {
        aggregator: "g".into(),
        partition: 0,
        log,
        as_of,
        as_of_appended: at(appended),
        threshold_permille: 500,
        agents: Vec::new(),
        signals: Vec::new(),
    }
}

fn heard(signals: &Signals, ms: u64) -> Option<FreshSignals> {
    match signals.authority(0, at(ms), TimeBounds::exactly(at(ms))) {
        Authority::Signals(fresh) => Some(fresh),
        _ => None,
    }
}

/// E6: an outdated record changes nothing.
#[test]
fn signals_are_fresh_for_a_while_and_an_older_one_changes_nothing() {
    let signals = signals();
    assert!(signals.received(at(10_000), at(10_000), &heartbeat(1, 5, 10_000)));
    assert!(heard(&signals, 10_500).is_none(), "not read long enough");
    assert!(signals.received(at(12_000), at(12_000), &heartbeat(1, 9, 12_000)));
    assert!(!signals.received(at(12_100), at(12_100), &heartbeat(1, 5, 10_000)));
    assert!(heard(&signals, 14_990).is_some());
    assert!(heard(&signals, 15_000).is_none());
}

/// one-truth-of-time: signals age by the bus's clock, whatever the agent's own and the store's show; they count nothing that
/// a store could compare if its clock is not that of the bus.
#[test]
fn signals_age_by_the_clock_of_the_bus() {
    // The agent's clock minus that of the bus, and the store's minus that of the bus; if fresh signals decide.
    let cases = [
        (0, 0, true),
        (30_000, 0, true),
        (-30_000, 0, true),
        (0, 2_000, true),
        (0, -2_000, true),
        (0, 3_600_000, false),
        (0, -3_600_000, false),
    ];
    for (own_ms, store_ms, expected) in cases {
        let signals = Signals::new(1);
        let own = |bus: u64| at(bus.saturating_add_signed(own_ms));
        for appended in (5_000_000..=5_004_000).step_by(1_000) {
            signals.note_bus_time(own(appended - 10), own(appended + 10), at(appended));
            signals.received(own(appended + 10), at(appended), &heartbeat(1, appended, appended));
        }
        let store = |bus: u64| TimeBounds::exactly(at(bus.saturating_add_signed(store_ms)));
        let fresh_at = |bus| matches!(signals.authority(0, own(bus), store(bus)), Authority::Signals(_));
        assert_eq!((fresh_at(5_004_100), fresh_at(5_007_100)), (expected, false), "{own_ms} {store_ms}");
    }
}

/// E6: the bus's clock was ahead by an hour for a second. Signals of before are as old as they are by the agent's own clock,
/// and those of after are read by the time of then.
#[test]
fn signals_age_while_the_clock_of_the_bus_was_ahead() {
    const AHEAD_MS: u64 = 3_600_000;
    let signals = signals();
    let hear = |ms: u64, ahead_ms: u64| {
        signals.note_bus_time(at(ms), at(ms), at(ms + ahead_ms));
        assert!(signals.received(at(ms), at(ms + ahead_ms), &heartbeat(1, ms, ms + ahead_ms)));
    };
    (10_000..=13_000).step_by(200).for_each(|ms| hear(ms, 0));
    (13_200..=14_200).step_by(200).for_each(|ms| hear(ms, AHEAD_MS));
    signals.note_bus_time(at(14_400), at(14_400), at(14_400));
    assert!(heard(&signals, 17_199).is_some(), "the last signal came 2,999 ms ago");
    assert!(heard(&signals, 17_200).is_none(), "it came 3 s ago");
    hear(17_400, 0);
    assert!(heard(&signals, 17_400).is_some());
}

/// E6: an agent that starts while the bus's clock is ahead reads signals for long enough by the time of then.
#[test]
fn signals_that_were_read_first_while_the_clock_of_the_bus_was_ahead_count_as_read() {
    let signals = signals();
    assert!(signals.received(at(10_000), at(3_610_000), &heartbeat(1, 1, 3_610_000)));
    for ms in (10_200..=12_200).step_by(200) {
        assert!(signals.received(at(ms), at(ms), &heartbeat(1, ms, ms)));
        assert_eq!(heard(&signals, ms).is_some(), ms == 12_200, "{ms}");
    }
}

/// E6: a heartbeat that counts no further than the one before shows nothing new.
#[test]
fn heartbeats_of_an_aggregator_that_counts_nothing_more_keep_no_signal_fresh() {
    let signals = signals();
    assert!(signals.received(at(10_000), at(10_000), &heartbeat(1, 5, 13_600_000)));
    for ms in (10_200..=14_000).step_by(200) {
        assert!(signals.received(at(ms), at(ms), &heartbeat(1, 5, 13_600_000)));
        assert_eq!(heard(&signals, ms).is_some(), (12_000..13_000).contains(&ms), "{ms}");
    }
}

/// E6: a record that was appended 6 s ago changes nothing, and the signals count as read from then on.
#[test]
fn a_record_that_arrives_late_changes_nothing() {
    let signals = signals();
    signals.received(at(10_000), at(10_000), &heartbeat(1, 5, 10_000));
    signals.received(at(12_000), at(12_000), &heartbeat(1, 6, 12_000));
    assert!(!signals.received(at(19_000), at(13_000), &heartbeat(1, 9, 13_000)));
    assert!(signals.received(at(19_100), at(19_000), &heartbeat(1, 10, 19_000)));
    assert!(heard(&signals, 19_100).is_none(), "records between them may be missing");
    assert!(signals.received(at(21_100), at(21_000), &heartbeat(1, 11, 21_000)));
    assert!(heard(&signals, 21_100).is_some());
}

/// E6: after a forged record beyond the end, nothing that it said remains, and real ones are followed again.
#[test]
fn a_partition_that_begins_anew_follows_the_next_record() {
    let signals = signals();
    signals.delivered(0, 1, 3);
    for (ms, as_of) in [(10_000, 2), (12_000, 9_000)] {
        assert!(signals.received(at(ms), at(ms), &heartbeat(1, as_of, ms)));
    }
    assert!(!signals.received(at(12_100), at(12_100), &heartbeat(1, 4, 12_100)), "it is behind");
    signals.begin_anew(0);
    signals.applied(&heartbeat(1, 9_000, 12_000));
    signals.delivered(0, 9, 20);
    assert!(signals.received(at(13_100), at(13_100), &heartbeat(1, 5, 13_100)) && heard(&signals, 13_100).is_none());
    assert!(signals.received(at(15_100), at(15_100), &heartbeat(1, 6, 15_100)));
    let covered = heard(&signals, 15_100).expect("fresh signals").covered;
    assert!(covered.none_through >= 3, "batches that the forged record seemed to count may be in no signal");
    assert!(covered.through < 9, "the forged record covers no later batch");
}

#[test]
fn own_batches_are_covered_once_signals_count_them() {
    let signals = signals();
    signals.delivered(0, 1, 3);
    signals.lost(0, 2..=2);
    signals.delivered(0, 3, 8);
    let take = |ms, batch: &SignalBatch| {
        signals.received(at(ms), at(ms), batch);
        signals.applied(batch);
    };
    signals.received(at(10_000), at(10_000), &heartbeat(1, 5, 10_000));
    signals.received(at(12_000), at(12_000), &heartbeat(1, 5, 12_000));
    let covered = heard(&signals, 12_000).unwrap().covered;
    assert_eq!(covered.through, 0, "the counters' views do not contain the signals yet");
    take(12_000, &heartbeat(1, 5, 12_000));
    let covered = heard(&signals, 12_000).unwrap().covered;
    assert_eq!(covered, CoveredRounds { none_through: 0, through: 1, lost: [2].into() });
    take(12_001, &heartbeat(1, 9, 12_001));
    signals.delivered(0, 4, 9);
    signals.delivered(0, 5, 10);
    let covered = heard(&signals, 12_001).unwrap().covered;
    assert_eq!(covered.through, 4, "the report on a batch may come after the signal that counts it");
    take(12_001, &heartbeat(2, 0, 12_001));
    let covered = heard(&signals, 12_001).unwrap().covered;
    assert!(covered.none_through >= 3, "a new log contains nothing of the old one");
}
