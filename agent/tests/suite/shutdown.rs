//! The end of an agent whose bus is slow: neither a drop nor a shutdown blocks a thread of the runtime.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use parking_lot::{Condvar, Mutex};
use tollgate::{Agent, Call, Rule};
use tollgate_bus::embedded::{EmbeddedBus, EmbeddedWriter};
use tollgate_bus::{Bus, DeliveryReport, LogReader, LogWriter, QueueFull, ReadFrom, Topic};
use tollgate_core::clock::{Stopwatch, SystemClock};
use tollgate_core::counter::Partition;
use tollgate_core::messages::calls::Batch;
use tollgate_core::messages::signals::{LogId, Offset};
use tollgate_wire::Record;

const TIMEOUT: Duration = Duration::from_secs(20);

/// Gate that a flush of the bus waits for.
#[derive(Default)]
struct Gate {
    is_open: Mutex<bool>,
    opened: Condvar,
    /// True if a flush has waited in vain.
    timed_out: AtomicBool,
    /// True if the bus acknowledges no record, and if it takes none.
    is_mute: AtomicBool,
    is_full: AtomicBool,
}

/// Embedded bus that flushes only once its gate is open.
#[derive(Clone)]
struct SlowBus(EmbeddedBus, Arc<Gate>);

struct SlowWriter(EmbeddedWriter, Arc<Gate>);

impl Gate {
    fn open(&self) {
        *self.is_open.lock() = true;
        self.opened.notify_all();
    }

    fn wait(&self) {
        let mut is_open = self.is_open.lock();
        if self.opened.wait_while_for(&mut is_open, |is_open| !*is_open, TIMEOUT).timed_out() {
            self.timed_out.store(true, Ordering::Relaxed);
        }
    }
}

impl Bus for SlowBus {
    type Reader = <EmbeddedBus as Bus>::Reader;
    type Writer = SlowWriter;

    fn partitions(&self, topic: Topic) -> u32 {
        self.0.partitions(topic)
    }

    fn is_shared(&self) -> bool {
        self.0.is_shared()
    }

    fn log_id(&self, topic: Topic) -> LogId {
        self.0.log_id(topic)
    }

    fn writer(&self, topic: Topic) -> SlowWriter {
        SlowWriter(self.0.writer(topic), self.1.clone())
    }

    fn reader(&self, topic: Topic, partitions: &[Partition], from: ReadFrom) -> Self::Reader {
        self.0.reader(topic, partitions, from)
    }

    fn next_offset(&self, topic: Topic, partition: Partition) -> Option<Offset> {
        self.0.next_offset(topic, partition)
    }
}

impl LogWriter for SlowWriter {
    fn append(&mut self, partition: Partition, payload: Vec<u8>, tag: u64) -> Result<(), QueueFull> {
        if self.1.is_full.load(Ordering::Relaxed) {
            Err(QueueFull(payload))
        } else {
            self.0.append(partition, payload, tag)
        }
    }

    fn reports(&mut self) -> Vec<DeliveryReport> {
        let reports = self.0.reports();
        if self.1.is_mute.load(Ordering::Relaxed) { Vec::new() } else { reports }
    }

    fn flush(&mut self, wait: Duration) {
        self.1.wait();
        self.0.flush(wait);
    }
}

/// Starts an agent with a slow bus and admits one call.
fn agent() -> (Agent, SlowBus) {
    let bus = SlowBus(EmbeddedBus::new(Arc::new(SystemClock::start()), 1), Arc::default());
    let rule = Rule::per("per-key", &["api_key"], "10/min".parse().unwrap());
    let agent = Agent::builder().rule(rule).bus(bus.clone()).start().unwrap();
    assert!(agent.try_check(&Call::new().with("api_key", "k1")).expect("a decision").is_ok());
    (agent, bus)
}

fn published(bus: &SlowBus) -> usize {
    let records = bus.reader(Topic::Calls, &[0], ReadFrom::Oldest).poll(Duration::ZERO, 10);
    records.iter().map(|record| Batch::decode(&record.payload).expect("a batch").rows.len()).sum()
}

/// Regression: dropping the last clone joined the threads of the bus, up to several seconds on a thread of the runtime.
#[tokio::test(flavor = "current_thread")]
async fn dropping_the_last_agent_never_blocks_the_runtime() {
    let (agent, bus) = agent();
    drop(agent);
    bus.1.open();
    let waited = Stopwatch::start();
    while published(&bus) == 0 {
        assert!(waited.elapsed() < TIMEOUT, "timed out waiting for the call in the log");
        tokio::task::yield_now().await;
    }
    assert!(!bus.1.timed_out.load(Ordering::Relaxed), "the drop waited for the bus");
}

/// The thread of the runtime opens the gate while the shutdown waits for it; afterwards, the call is in the log.
#[tokio::test(flavor = "current_thread")]
async fn a_shutdown_flushes_and_lets_other_tasks_run() {
    let (agent, bus) = agent();
    let open = async {
        tokio::task::yield_now().await;
        bus.1.open();
    };
    tokio::join!(agent.shutdown(), open);
    assert_eq!(published(&bus), 1);
    assert!(!bus.1.timed_out.load(Ordering::Relaxed), "the shutdown blocked the only thread of the runtime");
    assert!(agent.check(&Call::new().with("api_key", "k1")).await.is_ok(), "calls are decided as before");
}

#[derive(Clone, Default)]
struct CapturedLog(Arc<Mutex<Vec<u8>>>);

impl std::io::Write for CapturedLog {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// The log tells of calls that the bus did not acknowledge before the agent ended.
#[tokio::test]
async fn calls_without_an_acknowledgement_are_told_of_at_the_end() {
    let log = CapturedLog::default();
    let writer = log.clone();
    let subscriber = tracing_subscriber::fmt().with_ansi(false).with_writer(move || writer.clone()).finish();
    tracing::subscriber::set_global_default(subscriber).expect("it is the only one");
    for (is_mute, is_full, warnings) in [(false, false, 0), (true, false, 1), (false, true, 2)] {
        let (agent, bus) = agent();
        bus.1.is_mute.store(is_mute, Ordering::Relaxed);
        bus.1.is_full.store(is_full, Ordering::Relaxed);
        bus.1.open();
        agent.shutdown().await;
        let text = String::from_utf8(log.0.lock().clone()).expect("UTF-8");
        assert_eq!(text.matches("ends before the bus has acknowledged").count(), warnings, "{text}");
    }
}
