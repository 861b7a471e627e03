//! The event loop over the embedded bus: records in, signals, counters and dead letters out.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use tollgate_aggregator::{Aggregator, WorkerSettings, api};
use tollgate_bus::embedded::EmbeddedBus;
use tollgate_bus::{Bus, LogReader, LogWriter, ReadFrom, Topic};
use tollgate_core::clock::{Clock, Stopwatch, SystemClock};
use tollgate_core::counter::CounterId;
use tollgate_core::decision::Source;
use tollgate_core::messages::calls::{Batch, BatchName, CounterEntry, Outcome, Row};
use tollgate_core::messages::signals::SignalBatch;
use tollgate_core::messages::texts::Texts;
use tollgate_core::window::Window;
use tollgate_wire::Record;

use crate::support::{ask, get, serve};

const PATIENCE: Duration = Duration::from_secs(10);

/// Returns a batch with an admitted call of one caller of the rule `per-key`.
pub(crate) fn batch(clock: &dyn Clock, units: i64) -> Batch {
    let (now, window) = (clock.now(), Window::new(3_600_000, 1).expect("a window"));
    let row = Row {
        call: 1,
        counter: Some(0),
        at: now,
        sub_window: window.sub_window(now),
        cost: units,
        outcome: Outcome::Admitted,
        shadow_denied: false,
        source: Source::Store,
        home: None,
    };
    Batch {
        traces: Vec::new(),
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
        texts: Texts::default(),
        descriptor_sets: Vec::new(),
        rows: vec![row],
    }
}

/// Returns a folder for dead letters whose name is not UTF-8.
fn folder() -> PathBuf {
    let mut name = OsString::from(format!("tollgate-embedded-{}-", std::process::id()));
    name.push(OsStr::from_bytes(b"\xff"));
    std::env::temp_dir().join(name)
}

#[tokio::test(flavor = "multi_thread")]
async fn records_become_signals_counters_and_dead_letters() {
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::start());
    let bus = EmbeddedBus::new(clock.clone(), 2);
    let settings = WorkerSettings::new("counting");
    let mut aggregator = Aggregator::start(&bus, settings, Some(folder()), clock.clone()).expect("threads");
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

    let router = api::router(
        "counting".into(),
        (aggregator.queries(), aggregator.analytics()),
        None,
        aggregator.metrics(),
        None,
    );
    let address = serve(router).await;
    let found = get(address, "/counters?rule=per-key&label=k&limit=10");
    assert_eq!((&found["matched"], &found["counters"][0]["admitted"]), (&json!(1), &json!(60)));
    for other in ["rule=other", "label=other"] {
        assert_eq!(get(address, &format!("/counters?{other}"))["matched"], 0, "{other}");
    }
    let letters = get(address, "/dead-letters");
    let letters = letters["dead_letters"].as_array().expect("a list");
    assert_eq!((letters.len(), &letters[0]["offset"], &letters[0]["bytes"]), (1, &json!(0), &json!(8)));
    assert!(letters[0]["file"].as_str().is_some_and(|file| file.ends_with("calls-1-0.bin")), "{letters:?}");
    assert_eq!(get(address, "/readyz"), json!({ "ready": true, "missing": [] }));
    let health = get(address, "/healthz");
    let partitions = health["partitions"].as_array().expect("a list");
    assert!(partitions.len() == 2 && partitions.iter().all(|partition| partition["restored"] == true));
    aggregator.stop();
    assert_eq!(ask(address, "GET", "/healthz").status, 503, "a stopped aggregator answers nothing");
    std::fs::remove_dir_all(folder()).expect("it is there");
}
