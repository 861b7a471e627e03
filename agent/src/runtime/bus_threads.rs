//! Threads between an agent and its bus, which no call waits for.
//!
//! The writer ([`bus_writer`](super::bus_writer)) executes the effects of the exchange. The reader decodes signals, presence and published rules and hands
//! them to the engine. A third thread keeps the bus prepared and waits for one that is unavailable. When they
//! end, the writer sends what is left and announces that the agent leaves.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{JoinHandle, Thread};
use std::time::Duration;

use tollgate_bus::{Bus, BusError, BusRecord, LogReader, ReadFrom, Topic, supervise};
use tollgate_core::clock::{Clock, Timestamp};
use tollgate_core::counter::Partition;
use tollgate_core::messages::presence::Presence;
use tollgate_core::messages::rules::{PublicationOrder, Published};
use tollgate_core::messages::signals::{LogEnd, SignalBatch};
use tollgate_core::one_line::excerpt;
use tollgate_engine::{Engine, IgnoredRecord, Incoming, Receipt};
use tollgate_wire::{Record, WireError};

use super::bus_writer::{BusWriter, report_panic};
use super::listeners::RulesListener;
#[cfg(feature = "metrics")]
use crate::metrics::AgentMetrics;

/// Time for which the reader waits for records before it checks whether to stop.
const READ_WAIT: Duration = Duration::from_millis(50);
const READ_RECORDS_LEN_MAX: usize = 1_000;
const LOG_END_KEPT_MS: u64 = 1_000;

/// Running threads of one agent. A drop tells them to end and does not wait for them.
pub(crate) struct BusThreads {
    stop: Arc<AtomicBool>,
    /// The thread that prepares the bus; the writer joins it.
    supervisor: Thread,
    threads: Vec<JoinHandle<()>>,
}

pub(crate) struct BusListeners {
    #[cfg(feature = "metrics")]
    pub(crate) metrics: AgentMetrics,
    /// Receives published rules, unless the agent's rules are given.
    pub(crate) rules: Option<RulesListener>,
    /// Receives each record of signals after the engine.
    pub(crate) observer: Option<SignalObserver>,
}

/// Receiver of records of signals and the times at which the bus appended them.
pub(crate) type SignalObserver = Box<dyn FnMut(&SignalBatch, Timestamp) + Send>;

struct BusReader<B: Bus> {
    bus: B,
    engine: Arc<Engine>,
    clock: Arc<dyn Clock>,
    signals: B::Reader,
    presence: B::Reader,
    rules: Option<B::Reader>,
    publications: PublicationOrder,
    listeners: BusListeners,
    /// End of the log of `calls` by partition, and the instant at which the bus was asked for it.
    log_ends: HashMap<Partition, (Timestamp, Option<LogEnd>)>,
    lags: Vec<Duration>,
}

impl BusThreads {
    pub(crate) fn start<B: Bus>(
        bus: &B,
        engine: &Arc<Engine>,
        clock: &Arc<dyn Clock>,
        listeners: BusListeners,
    ) -> std::io::Result<Self> {
        let stop = Arc::new(AtomicBool::new(false));
        let prepared_for = engine.clone();
        let report = move |prepared: Result<(), &BusError>| report_bus(&prepared_for, prepared);
        let supervisor = supervise(bus.clone(), stop.clone(), report)?;
        let mut threads = Self { stop: stop.clone(), supervisor: supervisor.thread().clone(), threads: Vec::new() };

        let partitions: Vec<_> = (0..bus.partitions(Topic::Signals)).collect();
        let mut reader = BusReader {
            bus: bus.clone(),
            engine: engine.clone(),
            clock: clock.clone(),
            signals: bus.reader(Topic::Signals, &partitions, ReadFrom::Next),
            presence: bus.reader(Topic::Presence, &[0], ReadFrom::Next),
            rules: listeners.rules.as_ref().map(|_| bus.reader(Topic::Rules, &[0], ReadFrom::Oldest)),
            publications: PublicationOrder::default(),
            listeners,
            log_ends: HashMap::new(),
            lags: Vec::new(),
        };
        let stopped = stop.clone();
        threads.spawn("tollgate-read", move || reader.run(&stopped))?;

        let mut writer = BusWriter::new(engine, clock, bus.writer(Topic::Calls), bus.writer(Topic::Presence));
        threads.spawn("tollgate-write", move || writer.run(&stop, supervisor))?;
        Ok(threads)
    }

    /// Ends the threads, and waits until they have sent what is left.
    pub(crate) fn join(mut self) {
        self.stop();
        for thread in self.threads.drain(..) {
            report_panic(&thread.join());
        }
    }

    fn stop(&self) {
        self.stop.store(true, Ordering::Relaxed);
        self.supervisor.unpark();
        self.threads.iter().for_each(|thread| thread.thread().unpark());
    }

    fn spawn(&mut self, name: &str, run: impl FnOnce() + Send + 'static) -> std::io::Result<()> {
        self.threads.push(std::thread::Builder::new().name(name.into()).spawn(run)?);
        Ok(())
    }
}

impl Drop for BusThreads {
    fn drop(&mut self) {
        self.stop();
    }
}

fn report_bus(engine: &Engine, prepared: Result<(), &BusError>) {
    let node = &engine.settings().node;
    match prepared {
        Ok(()) if engine.bus_error().is_none() => {}
        Ok(()) => tracing::info!(%node, "the bus is ready: calls are published and signals are read"),
        Err(error) if error.is_transient() => {
            tracing::warn!(%node, "limiting without the bus until it is ready; check that Kafka runs, and its address: {error}");
        }
        Err(error) => {
            let limits = if engine.settings().lacks_store { "`on_failure` alone" } else { "the store alone" };
            tracing::error!(%node, "the bus is not as it should be, and {limits} limits: {error}");
        }
    }
    engine.set_bus_error(prepared.err().map(ToString::to_string));
}

impl<B: Bus> BusReader<B> {
    fn run(&mut self, stop: &AtomicBool) {
        while !stop.load(Ordering::Relaxed) {
            for record in self.signals.poll(READ_WAIT, READ_RECORDS_LEN_MAX) {
                self.receive_signals(&record);
            }
            for record in self.presence.poll(Duration::ZERO, READ_RECORDS_LEN_MAX) {
                let appended = record.appended;
                let decoded = Presence::decode(&record.payload);
                let incoming = decoded.as_ref().map(|presence| Incoming::Presence { appended, presence });
                let receipt = self.receive(Topic::Presence, incoming);
                self.log_dead_letter(Topic::Presence, &record, receipt);
            }
            let rules = self.rules.as_mut().map(|rules| rules.poll(Duration::ZERO, READ_RECORDS_LEN_MAX));
            for record in rules.unwrap_or_default() {
                match (Published::decode(&record.payload), &self.listeners.rules) {
                    (Ok(published), Some(receive)) if self.publications.accept(record.offset, &published) => {
                        receive(record.offset, Some(record.appended), published);
                    }
                    (Ok(_), _) => {}
                    (Err(error), _) => {
                        let receipt = self.receive(Topic::Rules, Err(&error));
                        self.log_dead_letter(Topic::Rules, &record, receipt);
                    }
                }
            }
        }
    }

    fn receive_signals(&mut self, record: &BusRecord) {
        let (appended, decoded) = (record.appended, SignalBatch::decode(&record.payload));
        let incoming = |end| decoded.as_ref().map(|batch| Incoming::Signals { appended, batch, end });
        let mut receipt = self.receive(Topic::Signals, incoming(None));
        if let Receipt::NeedsLogEnd(partition) = receipt {
            let Some(end) = self.log_end(partition) else { return };
            receipt = self.receive(Topic::Signals, incoming(Some(end)));
        }
        if let (Receipt::Applied, Ok(batch), Some(observe)) = (&receipt, &decoded, &mut self.listeners.observer) {
            observe(batch, appended);
        }
        self.log_dead_letter(Topic::Signals, record, receipt);
    }

    /// Returns the end of the log of `calls`. The bus is asked at most once a second: it answers slowly, and anybody
    /// may write records that call for it.
    fn log_end(&mut self, partition: Partition) -> Option<LogEnd> {
        let now = self.clock.now();
        match self.log_ends.get(&partition) {
            Some((asked, end)) if now.ms_since(*asked) < LOG_END_KEPT_MS => *end,
            _ => {
                let end = self.bus.log_end(Topic::Calls, partition);
                self.log_ends.insert(partition, (self.clock.now(), end));
                end
            }
        }
    }

    /// Passes a record to the engine, or the reason why it could not be decoded.
    fn receive(&mut self, topic: Topic, incoming: Result<Incoming<'_>, &WireError>) -> Receipt {
        let reason = incoming.as_ref().err().map(ToString::to_string).unwrap_or_default();
        let incoming = incoming.unwrap_or(Incoming::Undecodable(topic, &reason));
        let receipt = self.engine.receive(self.clock.now(), incoming, &mut self.lags);
        #[cfg(feature = "metrics")]
        self.lags.iter().for_each(|lag| self.listeners.metrics.signal_lag.observe(lag.as_secs_f64()));
        self.lags.clear();
        receipt
    }

    fn log_dead_letter(&self, topic: Topic, record: &BusRecord, receipt: Receipt) {
        let Receipt::DeadLetter(IgnoredRecord { reason, unlogged: Some(unlogged) }) = receipt else { return };
        let (node, topic, BusRecord { partition, offset, .. }) = (&self.engine.settings().node, topic.as_str(), record);
        tracing::error!(
            %node, topic, partition, offset, reason = %excerpt(&reason), unlogged,
            "a record is a dead letter and changes nothing; find the producer that writes such records, and let only Tollgate write to this topic"
        );
    }
}
