//! The agent's link to the bus: threads that move what the limiter has to say and what it is to hear.
//!
//! No call waits for them. The writer hands batches over, brings delivery reports back and shows the agent's presence; the
//! reader brings signals, presence and published rules. A bus that is away is waited for on a thread of its own. On stopping,
//! the writer sends what is left and says goodbye.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use prometheus_client::metrics::histogram::Histogram;
use tollgate_bus::{Bus, BusError, LogReader, LogWriter, ReadFrom, Topic, supervise};
use tollgate_core::clock::{Clock, Timestamp};
use tollgate_core::counter::Partition;
use tollgate_core::messages::presence::{INTERVAL_MS, Presence};
use tollgate_core::messages::rules::Published;
use tollgate_core::messages::signals::SignalBatch;
use tollgate_wire::Record;

use crate::rules_source::RulesReceiver;
use tollgate_core::messages::calls::Batch;
use tollgate_engine::Engine;

/// How long the reader waits for records before it looks whether it should stop.
const READ_WAIT: Duration = Duration::from_millis(50);
const READ_RECORDS_MAX: usize = 1_000;
/// How long the writer sleeps at most, and at least, so that it neither misses its time nor spins.
const WRITE_SLEEP_MAX_MS: u64 = 5;
/// How long at most batches wait until those before them are in the log, in ms.
const ANSWER_MS_MAX: u64 = 100;
/// How often the limiter's housekeeping runs, in ms.
const TICK_MS: u64 = 100;
/// How long the last batches may take on their way.
const FLUSH_WAIT: Duration = Duration::from_secs(2);

pub(crate) struct Link {
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

/// Who hears what the link brings, beside the limiter.
pub(crate) struct Listeners {
    /// Lag of each signal.
    pub(crate) signal_lag: Histogram,
    /// Hears of published rules, unless the agent's are pinned.
    pub(crate) follower: Option<Arc<RulesReceiver>>,
    /// Sees each record of signals, and when it was appended, once the limiter has learnt it.
    pub(crate) observer: Option<Observer>,
}

pub(crate) type Observer = Box<dyn FnMut(&SignalBatch, Timestamp) + Send>;

impl Link {
    /// Starts the threads.
    pub(crate) fn start<B: Bus>(
        bus: &B,
        engine: &Arc<Engine>,
        clock: &Arc<dyn Clock>,
        listeners: Listeners,
    ) -> std::io::Result<Self> {
        let stop = Arc::new(AtomicBool::new(false));
        let mut link = Self { stop: stop.clone(), threads: Vec::new() };
        let told = engine.clone();
        link.threads.push(supervise(bus.clone(), stop.clone(), move |prepared| tell_of_bus(&told, prepared))?);

        let partitions: Vec<_> = (0..bus.partitions(Topic::Signals)).collect();
        let mut incoming = Incoming {
            engine: engine.clone(),
            clock: clock.clone(),
            signals: bus.reader(Topic::Signals, &partitions, ReadFrom::Next),
            presence: bus.reader(Topic::Presence, &[0], ReadFrom::Next),
            observer: listeners.observer,
            signal_lag: listeners.signal_lag,
            lags: Vec::new(),
            rules: listeners.follower.map(|follower| (follower, bus.reader(Topic::Rules, &[0], ReadFrom::Oldest))),
        };
        let stopped = stop.clone();
        let read = move || incoming.until(&stopped);
        link.threads.push(std::thread::Builder::new().name("tollgate-read".into()).spawn(read)?);

        let mut outgoing = Writer {
            engine: engine.clone(),
            clock: clock.clone(),
            calls: bus.writer(Topic::Calls),
            presence: bus.writer(Topic::Presence),
            on_the_way: HashMap::new(),
            unanswered: 0,
            sent_at: Timestamp::default(),
        };
        let write = move || outgoing.until(&stop);
        link.threads.push(std::thread::Builder::new().name("tollgate-write".into()).spawn(write)?);
        Ok(link)
    }

    /// Sends what is left and ends the threads.
    pub(crate) fn stop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            thread.thread().unpark();
            if thread.join().is_err() {
                tracing::error!("a thread of the bus link had died; what it held is lost");
            }
        }
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        self.stop();
    }
}

fn tell_of_bus(engine: &Engine, prepared: Result<(), &BusError>) {
    let node = &engine.settings().node;
    match prepared {
        Ok(()) => tracing::info!(%node, "the bus is there: calls are published, signals are heard"),
        Err(why) if why.transient => tracing::warn!(%node, "limiting without the bus until it is there: {why}"),
        Err(why) => tracing::error!(%node, "limiting without the bus: {why}"),
    }
    engine.set_bus_error(prepared.err().map(ToString::to_string));
}

/// What the limiter is to hear.
struct Incoming<R> {
    engine: Arc<Engine>,
    clock: Arc<dyn Clock>,
    signals: R,
    presence: R,
    observer: Option<Observer>,
    signal_lag: Histogram,
    lags: Vec<Duration>,
    rules: Option<(Arc<RulesReceiver>, R)>,
}

impl<R: LogReader> Incoming<R> {
    fn until(&mut self, stop: &AtomicBool) {
        let engine = &self.engine;
        while !stop.load(Ordering::Relaxed) {
            for record in self.signals.poll(READ_WAIT, READ_RECORDS_MAX) {
                let Ok(batch) = SignalBatch::decode(&record.payload) else {
                    engine.undecodable();
                    continue;
                };
                engine.receive_signals(self.clock.now(), record.appended, &batch, &mut self.lags);
                for lag in self.lags.drain(..) {
                    self.signal_lag.observe(lag.as_secs_f64());
                }
                if let Some(observe) = &mut self.observer {
                    observe(&batch, record.appended);
                }
            }
            for record in self.presence.poll(Duration::ZERO, READ_RECORDS_MAX) {
                match Presence::decode(&record.payload) {
                    Ok(presence) => engine.receive_presence(self.clock.now(), &presence),
                    Err(_) => engine.undecodable(),
                }
            }
            let Some((follower, rules)) = &mut self.rules else { continue };
            for record in rules.poll(Duration::ZERO, READ_RECORDS_MAX) {
                match Published::decode(&record.payload) {
                    Ok(published) => follower.receive(record.offset, Some(record.appended), published),
                    Err(_) => engine.undecodable(),
                }
            }
        }
    }
}

/// What the limiter has to say.
struct Writer<L> {
    engine: Arc<Engine>,
    clock: Arc<dyn Clock>,
    calls: L,
    presence: L,
    /// How many rows each batch holds of which no report came yet; the bus caps how many there are.
    on_the_way: HashMap<(Partition, u64), usize>,
    /// How many batches were sent last, and when, of which no report came yet.
    unanswered: usize,
    sent_at: Timestamp,
}

impl<L: LogWriter> Writer<L> {
    fn until(&mut self, stop: &AtomicBool) {
        let engine = self.engine.clone();
        let (mut shown_at, mut ticked_at) = (Timestamp::default(), Timestamp::default());
        while !stop.load(Ordering::Relaxed) {
            let now = self.clock.now();
            self.hear_reports();
            if self.may_send(now) {
                self.send(now, engine.batches_due(now));
            }
            if now.ms_since(shown_at) >= INTERVAL_MS {
                shown_at = now;
                self.show(now, false);
            }
            if now.ms_since(ticked_at) >= TICK_MS {
                ticked_at = now;
                engine.tick(now);
            }
            let sleep_ms = engine.batches_due_at().ms_since(self.clock.now()).clamp(1, WRITE_SLEEP_MAX_MS);
            std::thread::park_timeout(Duration::from_millis(sleep_ms));
        }
        let now = self.clock.now();
        self.send(now, engine.batches_left(now));
        self.show(now, true);
        self.calls.flush(FLUSH_WAIT);
        self.presence.flush(FLUSH_WAIT);
        self.hear_reports();
    }

    fn show(&mut self, now: Timestamp, leaving: bool) {
        // A presence that finds no room is shown again in a second.
        let _ = self.presence.append(0, self.engine.presence(now, leaving).encode(), 0);
        self.presence.reports();
    }

    /// Whether the batches that were sent last are in the log. When Kafka is slow, batches get longer and not more: each is
    /// a request there, and librdkafka's thread spins while more wait for a partition than it may have on the way.
    fn may_send(&self, now: Timestamp) -> bool {
        self.unanswered == 0 || now.ms_since(self.sent_at) >= ANSWER_MS_MAX
    }

    fn send(&mut self, now: Timestamp, batches: Vec<Batch>) {
        if batches.is_empty() {
            return;
        }
        (self.sent_at, self.unanswered) = (now, 0);
        let mut full = Vec::new();
        for batch in batches {
            let (partition, sequence) = (batch.name.partition, batch.name.sequence);
            // A batch never overtakes one that waits: signals count a partition's batches in their order.
            if full.contains(&partition) || self.calls.append(partition, batch.clone().encode(), sequence).is_err() {
                full.push(partition);
                self.engine.batch_refused(batch);
                continue;
            }
            self.on_the_way.insert((partition, sequence), batch.rows.len());
            self.unanswered += 1;
        }
    }

    fn hear_reports(&mut self) {
        for report in self.calls.reports() {
            self.unanswered = self.unanswered.saturating_sub(1);
            let rows = self.on_the_way.remove(&(report.partition, report.tag)).unwrap_or_default();
            self.engine.delivered(report.partition, report.tag, report.offset, rows);
        }
    }
}
