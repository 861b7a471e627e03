//! The exchange against a bus that takes, refuses, acknowledges and loses what the tests say.

use std::sync::Arc;

use tollgate_core::call::Call;
use tollgate_core::decision::Source;
use tollgate_core::messages::calls::Outcome;
use tollgate_core::rules::RuleSet;

use super::*;
use crate::call::{CallHome, CallRow};
use crate::engine::Context;
use crate::tests::WakeUps;
use crate::time::TimeBounds;

/// Time of all tests' first tick, long after the epoch, so that everything is due.
const START: Timestamp = Timestamp::from_ms(1_000_000);
const PARTITIONS: u32 = 2;

/// An exchange and the bus that its effects went to.
struct Fixture {
    engine: Arc<Engine>,
    exchange: Exchange,
    /// Partitions that have no room.
    full: Vec<Partition>,
    /// Batches that the bus took: partition, sequence, rows.
    taken: Vec<(Partition, u64, usize)>,
    announced: Vec<Presence>,
}

impl Fixture {
    /// An exchange whose first empty batches are acknowledged.
    fn new() -> Self {
        let mut settings = EngineSettings::new("a", START);
        settings.partitions = PARTITIONS;
        let engine = Arc::new(Engine::new(settings, RuleSet::none_yet()));
        let exchange = Exchange::new(engine.clone());
        let mut fixture = Self { engine, exchange, full: Vec::new(), taken: Vec::new(), announced: Vec::new() };
        fixture.tick(0);
        assert_eq!(fixture.taken, [(0, 1, 0), (1, 1, 0)], "every partition gets a batch");
        fixture.acknowledge_all(0);
        fixture
    }

    fn poll(&mut self, ms: u64, input: ExchangeInput) {
        let (mut inputs, mut effects) = (vec![input], Vec::new());
        while let Some(input) = inputs.pop() {
            self.exchange.poll(START.plus_ms(ms), input, &mut effects);
            for effect in effects.drain(..) {
                match effect {
                    ExchangeEffect::Announce(presence) => self.announced.push(presence),
                    ExchangeEffect::Append(batch) if self.full.contains(&batch.name.partition) => {
                        inputs.push(ExchangeInput::Refused(batch));
                    }
                    ExchangeEffect::Append(batch) => {
                        let partition = batch.name.partition;
                        self.taken.push((partition, batch.name.sequence, batch.rows.len()));
                        inputs.push(ExchangeInput::Accepted { partition });
                    }
                }
            }
        }
    }

    fn tick(&mut self, ms: u64) {
        self.poll(ms, ExchangeInput::Tick);
    }

    fn report(&mut self, ms: u64, partition: Partition, sequence: u64, offset: Option<Offset>) {
        self.poll(ms, ExchangeInput::Delivered { partition, sequence, offset });
    }

    fn acknowledge_all(&mut self, ms: u64) {
        for (partition, sequence, _) in std::mem::take(&mut self.taken) {
            self.report(ms, partition, sequence, Some(sequence));
        }
    }

    fn add_rows(&self, ms: u64, partition: Partition, rows: usize) {
        let key = &self.engine.settings.digest_key;
        let names: Vec<_> = (0..100).map(|name| name.to_string()).collect();
        let is_there = |name: &&String| key.call([("k", name.as_str())]).partition(PARTITIONS) == partition;
        let name = names.iter().find(is_there).expect("a caller of the partition");
        let active = self.engine.rules.load().clone();
        let (now, bounds) = (START.plus_ms(ms), TimeBounds::exactly(START));
        let context = Context { now, bounds, active: &active, store: &self.engine.store };
        for _ in 0..rows {
            let row = CallRow::new(self.engine.ids.next(), START, 1, Outcome::Admitted, Source::Local);
            let home = CallHome { decider: None, shadow_denied: false, denied: None, remaining: None };
            self.engine.publish(&context, &Call::new().with("k", name), None, row, Some(home));
        }
    }

    fn wake_ms(&self, ms: u64) -> u64 {
        self.exchange.wake_at(START.plus_ms(ms)).ms_since(START)
    }
}

#[test]
fn rows_linger_and_a_silent_partition_gets_an_empty_batch_each_second() {
    let mut fixture = Fixture::new();
    fixture.add_rows(10, 0, 3);
    fixture.tick(14);
    assert_eq!(fixture.taken, [], "the batch lingers");
    fixture.tick(15);
    assert_eq!(fixture.taken, [(0, 2, 3)]);
    fixture.acknowledge_all(16);
    fixture.tick(1_000);
    assert_eq!(fixture.taken, [(1, 2, 0)], "partition 0 was written to later");
}

/// A batch describes each of its callers once, so many short ones would cost more than one long one.
#[test]
fn rows_that_are_taken_because_a_buffer_is_full_wait_for_their_linger() {
    let mut fixture = Fixture::new();
    fixture.add_rows(10, 0, 4_096);
    fixture.tick(11);
    assert_eq!((&fixture.taken, fixture.wake_ms(11), fixture.engine.held().waiting_rows), (&vec![], 15, 4_096));
    fixture.add_rows(12, 1, 7);
    fixture.tick(15);
    assert_eq!(fixture.taken, [(0, 2, 4_096), (1, 2, 7)]);
}

#[test]
fn a_round_waits_for_the_acknowledgement_of_the_one_before_it_or_100_ms() {
    // Time of the report, and the times at which ticks find the next batch sent or not.
    let cases = [
        (Some(12), [(11, false), (12, true)]),
        (Some(60), [(59, false), (60, true)]),
        (None, [(104, false), (105, true)]),
    ];
    for (reported_ms, ticks) in cases {
        let mut fixture = Fixture::new();
        fixture.add_rows(0, 0, 1);
        fixture.tick(5);
        fixture.add_rows(5, 0, 1);
        fixture.tick(10);
        assert_eq!(fixture.taken, [(0, 2, 1)], "{reported_ms:?}");
        for (ms, is_sent) in ticks {
            if reported_ms.is_some_and(|reported_ms| reported_ms <= ms) {
                fixture.report(ms, 0, 2, Some(7));
            }
            fixture.tick(ms);
            assert_eq!(fixture.taken.len() == 2, is_sent, "{reported_ms:?} at {ms}");
        }
    }
}

#[test]
fn a_refused_batch_waits_in_front_and_none_overtakes_it() {
    let mut fixture = Fixture::new();
    fixture.full = vec![0];
    let mut ms = 0;
    for _ in 0..5 {
        fixture.add_rows(ms, 0, 1);
        fixture.add_rows(ms, 1, 1);
        ms += 200;
        fixture.tick(ms);
        let partitions: Vec<_> = fixture.taken.iter().map(|(partition, ..)| *partition).collect();
        assert_eq!(partitions, [1], "the other partition has room");
        fixture.acknowledge_all(ms);
    }
    assert_eq!(fixture.engine.held().waiting_batches, 5);
    fixture.tick(ms + 50);
    fixture.full.clear();
    fixture.tick(ms + 99);
    assert_eq!(fixture.taken, [], "a full bus is tried again after 100 ms");
    fixture.tick(ms + 100);
    assert_eq!(fixture.taken, [(0, 2, 1), (0, 3, 1), (0, 4, 1), (0, 5, 1), (0, 6, 1)]);
    assert_eq!(fixture.engine.dropped_rows(), 0);
}

#[test]
fn rows_past_the_caps_are_dropped_and_counted() {
    let mut fixture = Fixture::new();
    fixture.full = vec![0];
    for turn in 0..200 {
        fixture.add_rows(turn * 100, 0, 1);
        fixture.tick(turn * 100 + 100);
    }
    assert_eq!(fixture.engine.held().waiting_batches, 64, "then the open batch grows");
    fixture.add_rows(30_000, 0, 5_000);
    fixture.tick(30_100);
    assert!(fixture.engine.dropped_rows() > 0);
}

#[test]
fn lost_batches_count_as_dropped_rows() {
    let mut fixture = Fixture::new();
    fixture.add_rows(0, 0, 3);
    fixture.add_rows(0, 1, 4);
    fixture.tick(5);
    fixture.report(6, 0, 2, None);
    fixture.report(7, 1, 2, Some(3));
    fixture.report(8, 1, 2, None);
    assert_eq!(fixture.engine.dropped_rows(), 3, "a second report of the same batch changes nothing");
    assert!(fixture.exchange.reports_at(START).is_none());
}

/// C9: what an agent has counted is published before it stops.
#[test]
fn a_stop_sends_everything_that_is_left_and_nothing_afterwards() {
    let mut fixture = Fixture::new();
    fixture.add_rows(0, 0, 1);
    fixture.tick(5);
    fixture.add_rows(6, 0, 2);
    fixture.add_rows(6, 1, 3);
    fixture.poll(7, ExchangeInput::Stop);
    let mut taken = std::mem::take(&mut fixture.taken);
    taken.sort_unstable();
    assert_eq!(taken, [(0, 2, 1), (0, 3, 2), (1, 2, 3)], "without waiting for reports or company");
    assert!(fixture.announced.last().is_some_and(|presence| presence.leaving));
    fixture.add_rows(10, 0, 1);
    fixture.tick(5_000);
    assert_eq!(fixture.taken, []);
    assert!(fixture.wake_ms(5_000) > 1_000_000_000);
}

/// capped: nobody takes rows after a stop. They are dropped and counted, and take no memory.
#[test]
fn rows_after_a_stop_are_dropped() {
    let mut fixture = Fixture::new();
    fixture.add_rows(10, 0, 3);
    fixture.poll(12, ExchangeInput::Stop);
    assert!(fixture.taken.contains(&(0, 2, 3)), "those before it are sent");
    fixture.acknowledge_all(13);
    fixture.add_rows(20, 0, 200_000);
    assert_eq!((fixture.engine.dropped_rows(), fixture.engine.bus.rows().waiting_rows()), (200_000, 0));
    fixture.poll(21, ExchangeInput::Stop);
    assert!(fixture.taken.iter().all(|(_, _, rows)| *rows == 0));
}

#[test]
fn a_batch_refused_at_a_stop_is_sent_once_more_and_then_counts_as_dropped() {
    for (is_full_again, sent, dropped) in [(false, vec![(0, 2, 2), (0, 3, 1)], 0), (true, vec![], 3)] {
        let mut fixture = Fixture::new();
        fixture.full = vec![0];
        fixture.add_rows(0, 0, 2);
        fixture.tick(5);
        fixture.add_rows(6, 0, 1);
        fixture.poll(7, ExchangeInput::Stop);
        fixture.acknowledge_all(8);
        assert_eq!(fixture.engine.dropped_rows(), 0);
        if !is_full_again {
            fixture.full.clear();
        }
        fixture.poll(9, ExchangeInput::Stop);
        fixture.taken.retain(|(_, _, rows)| *rows > 0);
        assert_eq!((fixture.taken, fixture.engine.dropped_rows()), (sent, dropped));
        assert_eq!(fixture.engine.held().waiting_batches, 0);
    }
}

#[test]
fn an_idle_exchange_wakes_for_presence_and_empty_batches_only() {
    let mut fixture = Fixture::new();
    let (mut ms, mut ticks) = (0, 0);
    while ms < 10_000 {
        ms = fixture.wake_ms(ms);
        fixture.tick(ms);
        fixture.acknowledge_all(ms);
        ticks += 1;
    }
    assert!((10..=21).contains(&ticks), "{ticks} in ten seconds");
    assert_eq!(fixture.announced.len(), 11);
}

/// Batches that fill the queue to the bus at each second must not starve the heartbeats.
#[test]
fn a_heartbeat_that_finds_no_room_is_sent_again_soon() {
    let mut fixture = Fixture::new();
    fixture.tick(0);
    fixture.poll(0, ExchangeInput::Unannounced);
    assert_eq!((fixture.wake_ms(0), fixture.announced.len()), (100, 1));
    fixture.tick(100);
    assert_eq!(fixture.announced.len(), 2);
    fixture.acknowledge_all(100);
    fixture.tick(1_000);
    assert_eq!(fixture.announced.len(), 2, "the next one is due a second after it");
}

#[test]
fn the_first_row_wakes_a_shell_that_sleeps() {
    let mut fixture = Fixture::new();
    let woken = Arc::new(WakeUps::default());
    fixture.exchange.set_waker(woken.clone().into());
    let count = || woken.count();
    assert_eq!(fixture.wake_ms(1), 1_000);
    fixture.add_rows(2, 0, 2);
    fixture.add_rows(2, 1, 2);
    assert_eq!((count(), fixture.wake_ms(2)), (1, 7), "once");
    fixture.tick(7);
    assert_eq!(fixture.wake_ms(7), 12, "another look, for rows that were not seen");
    fixture.tick(12);
    assert_eq!(fixture.wake_ms(12), 1_000);
    fixture.acknowledge_all(13);
    fixture.add_rows(13, 0, 1);
    assert_eq!(count(), 2);
}

#[test]
fn reports_are_fetched_less_often_the_longer_they_take() {
    let mut fixture = Fixture::new();
    fixture.add_rows(0, 0, 1);
    fixture.tick(5);
    let waits = |fixture: &Fixture, ms: u64| {
        let at = START.plus_ms(ms);
        fixture.exchange.reports_at(at).map(|reports_at| reports_at.ms_since(at))
    };
    assert_eq!([6, 45, 405, 60_005].map(|ms| waits(&fixture, ms)), [5, 10, 100, 100].map(Some));
    fixture.add_rows(6, 0, 1);
    assert_eq!(waits(&fixture, 11), Some(1), "a batch that is due waits for them");
}
