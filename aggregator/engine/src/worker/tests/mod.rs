//! Workers in rounds: assignment, restore, hand-over, signals, dead letters.

mod bus;
mod completeness;

use super::*;

use tollgate_core::messages::signals::LogEnd;

use bus::{Node, TestBus, at, batch, run, used, used_in};

#[test]
fn a_record_over_the_threshold_is_signalled_with_the_tick_after_it() {
    let mut bus = TestBus::new(2);
    let mut node = Node::new("a", false, &bus);
    node.round(at(0), &mut bus);
    assert_eq!(node.owned(), [0, 1], "alone, it assigns all partitions at once");
    bus.append(1, 60);
    node.round(at(20), &mut bus);
    assert_eq!((bus.signals.len(), used(bus.newest_signal(1))), (1, 60));
    assert!(bus.presence.is_empty(), "nobody is there to read its heartbeats");
}

#[test]
fn nothing_is_signalled_before_the_log_is_read_to_the_end_that_it_had() {
    let mut bus = TestBus::new(1);
    bus.append(0, 60);
    bus.undelivered = 1;
    let mut node = Node::new("a", false, &bus);
    run(&mut [&mut node], &mut bus, 0, 60);
    assert!(bus.signals.is_empty() && node.worker.restoring().eq([0]));
    bus.append(0, 20);
    node.round(at(60), &mut bus);
    assert_eq!((used(bus.newest_signal(0)), node.worker.restoring().count()), (80, 0));
}

#[test]
fn a_position_past_the_end_restores_a_partition_whose_records_are_gone() {
    let mut bus = TestBus::new(1);
    bus.append(0, 60);
    let mut node = Node::new("a", false, &bus);
    node.round(at(0), &mut bus);
    node.input(at(20), WorkerInput::Position { partition: 0, next: 1 }, &mut bus);
    node.input(at(20), WorkerInput::Tick, &mut bus);
    assert_eq!(node.worker.restoring().count(), 0);
}

#[test]
fn a_partition_is_announced_once_it_is_restored() {
    let mut bus = TestBus::new(1);
    bus.undelivered = 1;
    let mut node = Node::new("a", true, &bus);
    let announced = |bus: &TestBus| bus.presence.last().unwrap().1.partitions.clone();
    run(&mut [&mut node], &mut bus, 0, 2_000);
    assert_eq!((node.owned(), announced(&bus)), (vec![0], vec![]));
    bus.append(0, 20);
    run(&mut [&mut node], &mut bus, 2_000, 2_400);
    assert_eq!(announced(&bus), [0]);
}

/// E3, E6: partitions are handed over without a gap in their signals, and with the same counts.
#[test]
fn a_partition_is_kept_until_its_new_owner_counts_it() {
    let mut bus = TestBus::new(8);
    (0..8).for_each(|partition| bus.append(partition, 60));
    let mut first = Node::new("a", true, &bus);
    run(&mut [&mut first], &mut bus, 0, 3_000);
    assert_eq!(first.owned(), (0..8).collect::<Vec<_>>());
    let mut second = Node::new("b", true, &bus);
    let mut assigned_in_round = 0;
    for ms in (3_000..6_000).step_by(20) {
        run(&mut [&mut first, &mut second], &mut bus, ms, ms + 20);
        let held = second.worker.assigned().count();
        assert!(held <= assigned_in_round + 1, "one assignment in each round");
        assigned_in_round = held;
        for partition in 0..8 {
            let (published, signal) = bus.newest_signal(partition).unwrap();
            assert!(at(ms).ms_since(*published) <= 220, "partition {partition} is silent at {ms}");
            assert_eq!(signal.as_of, 0);
        }
    }
    let (kept, taken) = (first.owned(), second.owned());
    assert!(!kept.is_empty() && !taken.is_empty());
    assert!((0..8).all(|partition| kept.contains(&partition) != taken.contains(&partition)), "{kept:?} {taken:?}");
    assert_eq!(first.worker.assigned().count(), kept.len(), "what is handed over is revoked");
    for (_, assigned) in first.worker.assigned().chain(second.worker.assigned()) {
        assert_eq!(assigned.counting.counters().next().map(|counter| counter.used(at(6_000))), Some(60));
    }
}

/// E7: the partitions of a dead aggregator are assigned again within two seconds; those of one that leaves, at once.
#[test]
fn partitions_of_an_aggregator_that_is_gone_are_assigned_to_the_others() {
    for (leaves, gone_within_ms) in [(false, 2_000), (true, 300)] {
        let mut bus = TestBus::new(8);
        let (mut first, mut second) = (Node::new("a", true, &bus), Node::new("b", true, &bus));
        run(&mut [&mut first, &mut second], &mut bus, 0, 3_000);
        assert!(!second.owned().is_empty());
        if leaves {
            second.input(at(3_000), WorkerInput::Stop, &mut bus);
            let (_, last) = bus.presence.last().unwrap();
            assert!(last.leaving && last.partitions.is_empty());
        }
        run(&mut [&mut first], &mut bus, 3_000, 3_000 + gone_within_ms);
        assert_eq!(first.owned().len(), 8, "leaves: {leaves}");
        assert_eq!(first.worker.unassigned(), 0);
    }
}

#[test]
fn a_partition_whose_log_end_is_unknown_does_not_delay_the_others() {
    let mut bus = TestBus::new(4);
    bus.silent = vec![1];
    let mut node = Node::new("a", true, &bus);
    run(&mut [&mut node], &mut bus, 0, 2_000);
    assert_eq!((node.owned(), node.worker.unassigned()), (vec![0, 2, 3], 1));
    bus.silent.clear();
    run(&mut [&mut node], &mut bus, 2_000, 2_200);
    assert_eq!(node.owned(), [0, 1, 2, 3]);
}

#[test]
fn signals_that_find_no_room_are_produced_again_with_the_newest_counts() {
    let mut bus = TestBus::new(3);
    let mut node = Node::new("a", false, &bus);
    node.round(at(0), &mut bus);
    (0..3).for_each(|partition| bus.append(partition, 60));
    bus.room = 1;
    node.round(at(20), &mut bus);
    (0..3).for_each(|partition| bus.append(partition, 10));
    node.round(at(40), &mut bus);
    assert_eq!(bus.signals.len(), 1);
    assert_eq!(node.worker.wait_ms(), 20, "it does not spin");
    bus.room = usize::MAX;
    node.round(at(60), &mut bus);
    let partitions: Vec<_> = bus.signals.iter().map(|(_, batch)| (batch.partition, used_in(batch))).collect();
    assert_eq!(partitions, [(0, 60), (0, 70), (1, 70), (2, 70)]);
    node.round(at(80), &mut bus);
    assert_eq!(bus.signals.len(), 4, "once");
    let sent = node.worker.assigned().map(|(_, assigned)| assigned.counting.tally().signals);
    assert_eq!(sent.collect::<Vec<_>>(), [2, 1, 1], "those without room are not counted");
}

#[test]
fn a_heartbeat_that_finds_no_room_follows_with_the_next_tick() {
    let mut bus = TestBus::new(1);
    bus.append(0, 1);
    let mut node = Node::new("a", false, &bus);
    node.round(at(0), &mut bus);
    bus.room = 0;
    run(&mut [&mut node], &mut bus, 20, 300);
    let before = bus.signals.len();
    bus.room = usize::MAX;
    node.round(at(300), &mut bus);
    assert_eq!(bus.signals.len(), before + 1);
}

#[test]
fn counters_whose_signals_were_lost_are_signalled_again_at_once() {
    let mut bus = TestBus::new(1);
    let mut node = Node::new("a", false, &bus);
    node.round(at(0), &mut bus);
    bus.append(0, 60);
    bus.loses = true;
    node.round(at(20), &mut bus);
    bus.loses = false;
    assert!(bus.signals.is_empty());
    node.round(at(40), &mut bus);
    assert_eq!((bus.signals.len(), used(bus.newest_signal(0))), (1, 60));
    node.round(at(60), &mut bus);
    assert_eq!(bus.signals.len(), 1, "once");
}

#[test]
fn a_late_report_of_loss_repeats_the_signals_although_newer_ones_were_published() {
    let mut bus = TestBus::new(1);
    let mut node = Node::new("a", false, &bus);
    node.acknowledges = false;
    node.round(at(0), &mut bus);
    bus.append(0, 60);
    node.round(at(20), &mut bus);
    node.round(at(220), &mut bus);
    let (_, heartbeat) = bus.newest_signal(0).unwrap();
    assert!(heartbeat.signals.is_empty());
    node.input(at(230), WorkerInput::Reported { tag: 1, is_lost: true }, &mut bus);
    node.round(at(240), &mut bus);
    assert_eq!(bus.signals.len(), 2, "the heartbeat is in flight");
    node.round(at(320), &mut bus);
    assert_eq!((bus.signals.len(), used(bus.newest_signal(0))), (3, 60));
}

#[test]
fn signals_wait_for_acknowledgements_of_earlier_ones_for_at_most_100_ms() {
    let mut bus = TestBus::new(1);
    let mut node = Node::new("a", false, &bus);
    node.acknowledges = false;
    node.round(at(0), &mut bus);
    bus.append(0, 60);
    node.round(at(20), &mut bus);
    bus.append(0, 10);
    node.round(at(40), &mut bus);
    assert_eq!((used(bus.newest_signal(0)), node.worker.wait_ms()), (60, 1), "in flight; the next tick follows soon");
    node.round(at(119), &mut bus);
    assert_eq!(used(bus.newest_signal(0)), 60);
    node.round(at(120), &mut bus);
    assert_eq!((used(bus.newest_signal(0)), node.worker.wait_ms()), (70, 20));
}

/// capped: the cap is one over all partitions, so callers that a hash spreads unevenly are counted up to it.
#[test]
fn the_cap_on_counters_is_one_over_all_partitions() {
    let mut bus = TestBus::new(2);
    let mut node = Node::new("a", false, &bus);
    node.worker.settings.counters_max = 3;
    node.round(at(0), &mut bus);
    let add = |bus: &mut TestBus, partition: Partition, counter: u128| {
        let sequence = bus.calls[partition as usize].len() as u64 + 1;
        let mut batch = batch(partition, sequence, 1);
        batch.counters[0].id = CounterId::from_u128(counter);
        bus.calls[partition as usize].push(Some(batch));
    };
    for counter in [10, 11, 12] {
        add(&mut bus, 0, counter);
    }
    node.round(at(20), &mut bus);
    add(&mut bus, 1, 20);
    add(&mut bus, 0, 10);
    node.round(at(40), &mut bus);
    let tallies: Vec<_> = node.worker.assigned().map(|(_, assigned)| assigned.counting.tally()).collect();
    let counted: Vec<_> = tallies.iter().map(|tally| (tally.counters, tally.uncounted)).collect();
    assert_eq!(counted, [(3, 0), (0, 1)]);
}

#[test]
fn an_undecodable_record_is_a_dead_letter_and_stops_nothing() {
    let mut bus = TestBus::new(1);
    let mut node = Node::new("a", false, &bus);
    node.round(at(0), &mut bus);
    bus.calls[0].push(None);
    bus.append(0, 60);
    node.round(at(20), &mut bus);
    let letter = DeadLetter { topic: Topic::Calls, partition: 0, offset: 0, appended: at(0), reason: "torn".into() };
    assert!(node.effects.contains(&WorkerEffect::DeadLetter { letter, unlogged: Some(0) }));
    assert_eq!(used(bus.newest_signal(0)), 60);
}

/// Records of an agent's name that no agent writes: each is a dead letter, and the agent's next batch still counts.
#[test]
fn an_absurd_batch_is_a_dead_letter_and_hides_no_later_one() {
    let jump = batch(0, 1 << 63, 7);
    let mut generation = batch(0, 2, 7);
    generation.counters[0].generation = 1 << 40;
    let mut last_generation = batch(0, 2, 7);
    last_generation.counters[0].generation = u64::MAX;
    let cases = [
        ("sequence", jump, "jump to number 9223372036854775808"),
        ("generation", generation, "generation 1099511627776"),
        ("last generation", last_generation, "generation 18446744073709551615"),
        ("partition", batch(3, 2, 7), "a batch for partition 3 to partition 0"),
    ];
    for (name, absurd, expected) in cases {
        let mut bus = TestBus::new(1);
        let mut node = Node::new("a", false, &bus);
        node.round(at(0), &mut bus);
        bus.append(0, 60);
        node.round(at(20), &mut bus);
        bus.calls[0].push(Some(absurd));
        bus.append(0, 10);
        node.round(at(40), &mut bus);
        let reasons = node.effects.iter().filter_map(|effect| match effect {
            WorkerEffect::DeadLetter { letter, .. } => Some(letter.reason.as_str()),
            _ => None,
        });
        let reasons: Vec<_> = reasons.collect();
        assert!(matches!(reasons[..], [reason] if reason.contains(expected)), "{name}: {reasons:?}");
        assert_eq!(used(bus.newest_signal(0)), 70, "{name}");
    }
}

#[test]
fn a_recreated_log_is_counted_from_its_beginning() {
    // The log after its topic was recreated, or after it lost records: its identity, and the units of its records.
    for (log, records) in [(7, vec![]), (7, vec![80]), (8, vec![80, 1, 1])] {
        let mut bus = TestBus::new(1);
        let mut node = Node::new("a", false, &bus);
        node.round(at(0), &mut bus);
        (0..2).for_each(|_| bus.append(0, 30));
        node.round(at(20), &mut bus);
        assert_eq!(used(bus.newest_signal(0)), 60);
        (bus.log, bus.calls) = (log, vec![Vec::new()]);
        for units in &records {
            bus.append(0, *units);
        }
        node.round(at(6_000), &mut bus);
        assert_eq!(node.notices(), [WorkerNotice::Recreated(0)]);
        run(&mut [&mut node], &mut bus, 6_020, 6_080);
        let counted = node.worker.assigned().map(|(_, assigned)| assigned.counting.log).collect::<Vec<_>>();
        assert_eq!(counted, [log]);
        if !records.is_empty() {
            let (_, signal) = bus.newest_signal(0).unwrap();
            assert_eq!((signal.log, used_in(signal)), (log, records.iter().sum::<i64>().unsigned_abs()));
        }
    }
}

#[test]
fn a_late_answer_about_the_end_of_a_log_is_no_sign_of_a_recreated_one() {
    let mut bus = TestBus::new(1);
    let mut node = Node::new("a", false, &bus);
    node.round(at(0), &mut bus);
    bus.append(0, 60);
    node.round(at(20), &mut bus);
    let mut effects = Vec::new();
    node.worker.poll(at(6_000), WorkerInput::Tick, &mut effects);
    assert!(effects.contains(&WorkerEffect::FindLogEnd(0)));
    bus.append(0, 5);
    node.round(at(6_020), &mut bus);
    let end = Some(LogEnd { log: 7, next: 1 });
    node.input(at(6_040), WorkerInput::LogEnd { partition: 0, end }, &mut bus);
    assert_eq!((node.owned(), node.notices()), (vec![0], vec![]));
}
