//! The event loop over the embedded bus: records in, signals and dead letters out.

use std::sync::Arc;
use std::time::Duration;

use prometheus_client::registry::Registry;
use tollgate_aggregator::{Aggregator, CounterFilter, WorkerSettings};
use tollgate_bus::embedded::EmbeddedBus;
use tollgate_bus::{Bus, LogReader, LogWriter, ReadFrom, Topic};
use tollgate_core::clock::{Clock, Stopwatch, SystemClock};
use tollgate_core::counter::CounterId;
use tollgate_core::messages::calls::{Batch, BatchName, CounterEntry, Outcome, Row};
use tollgate_core::messages::signals::SignalBatch;
use tollgate_core::window::Window;
use tollgate_wire::Record;

const PATIENCE: Duration = Duration::from_secs(10);

fn batch(clock: &dyn Clock, units: i64) -> Batch {
    let (now, window) = (clock.now(), Window::new(3_600_000, 1).expect("a window"));
    let row = Row {
        call: 1,
        counter: Some(0),
        at: now,
        sub_window: window.sub_window(now),
        cost: units,
        outcome: Outcome::Admitted,
        home: None,
    };
    Batch {
        name: BatchName { agent: "gw".into(), epoch: 1, partition: 1, sequence: 1 },
        region: "r".into(),
        complete_through: now,
        counters: vec![CounterEntry {
            id: CounterId::from_u128(7),
            rule: "per-key".into(),
            label: "k".into(),
            generation: 1,
            quota: 100,
            window,
        }],
        texts: Vec::new(),
        descriptor_sets: Vec::new(),
        rows: vec![row],
    }
}

#[tokio::test]
async fn records_become_signals_counters_and_dead_letters() {
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::start());
    let bus = EmbeddedBus::new(clock.clone(), 2);
    let mut registry = Registry::default();
    let settings = WorkerSettings::new("counting");
    let mut aggregator = Aggregator::start(&bus, settings, None, clock.clone(), &mut registry).expect("threads");
    let mut signals = bus.reader(Topic::Signals, &[0, 1], ReadFrom::Oldest);
    let mut calls = bus.writer(Topic::Calls);
    calls.append(1, b"no batch".to_vec(), 0).expect("there is room");
    calls.append(1, batch(&*clock, 60).encode(), 0).expect("there is room");

    let waited = Stopwatch::start();
    let signal = loop {
        assert!(waited.elapsed() < PATIENCE, "no signal came");
        let records = signals.poll(Duration::from_millis(10), 100);
        let mut batches = records.iter().map(|record| SignalBatch::decode(&record.payload).expect("a signal"));
        if let Some(batch) = batches.find(|batch| !batch.signals.is_empty()) {
            break batch;
        }
    };
    assert_eq!((&*signal.aggregator, signal.partition, signal.as_of), ("counting", 1, 1));

    let queries = aggregator.queries();
    let found = queries.counters(CounterFilter { limit: 10, ..CounterFilter::default() }).await.expect("an answer");
    assert_eq!((found.matched, found.counters[0].1.used(found.now)), (1, 60));
    let letters = queries.dead_letters().await.expect("an answer");
    assert_eq!((letters.len(), letters[0].letter.offset, letters[0].len), (1, 0, 8));
    let status = queries.status().await.expect("an answer");
    assert!(status.settled && status.unassigned == 0 && status.partitions.iter().all(|partition| partition.restored));
    aggregator.stop();
    assert!(queries.status().await.is_none(), "a stopped aggregator answers nothing");
}
