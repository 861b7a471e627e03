//! A running aggregator: its threads, from start to stop.
//!
//! One thread runs the event loop; another one keeps the bus prepared, so that the event loop never waits for a bus that is
//! unavailable.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{Builder, JoinHandle};

use parking_lot::Mutex;
use prometheus_client::registry::Registry;
use tollgate_aggregator_engine::worker::{Worker, WorkerSettings};
use tollgate_bus::{Bus, ReadFrom, Topic, supervise};
use tollgate_core::clock::Clock;

use crate::dead_letters::DeadLetters;
use crate::event_loop::EventLoop;
use crate::metrics::AggregatorMetrics;
use crate::queries::Queries;

/// The settings of an aggregator.
#[derive(Clone, Debug)]
pub struct AggregatorSettings {
    /// The settings of its engine.
    pub worker: WorkerSettings,
    /// The folder for the bytes of dead letters.
    pub dead_letters: Option<PathBuf>,
}

/// A running aggregator; it stops when it is dropped.
pub struct Aggregator {
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
    queries: Queries,
}

impl AggregatorSettings {
    /// Returns the settings of an aggregator that is alone on its bus and keeps no bytes of dead letters.
    #[must_use]
    pub fn new(id: &str) -> Self {
        Self { worker: WorkerSettings::new(id), dead_letters: None }
    }
}

impl Aggregator {
    /// Starts the threads. Counting begins when the bus is available.
    ///
    /// # Errors
    /// Fails if the system provides no thread.
    pub fn start<B: Bus>(
        bus: &B,
        settings: &AggregatorSettings,
        clock: Arc<dyn Clock>,
        registry: &mut Registry,
    ) -> std::io::Result<Self> {
        let AggregatorSettings { worker, dead_letters } = settings.clone();
        let (stop, bus_error) = (Arc::new(AtomicBool::new(false)), Arc::default());
        let (queries, queue) = Queries::open();
        let presence = || (bus.writer(Topic::Presence), bus.reader(Topic::Presence, &[0], ReadFrom::Next));
        let mut event_loop = EventLoop {
            id: worker.id.clone(),
            calls: bus.reader(Topic::Calls, &[], ReadFrom::Oldest),
            signals: bus.writer(Topic::Signals),
            presence: worker.shares.then(presence),
            metrics: AggregatorMetrics::register(registry),
            metrics_updated_at: clock.now(),
            dead_letters: DeadLetters::new(dead_letters),
            queries: queue,
            bus_error: Arc::clone(&bus_error),
            worker: Worker::new(worker, bus.partitions(Topic::Calls)),
            bus: bus.clone(),
            clock,
        };
        let keeper = keep_bus(bus.clone(), stop.clone(), settings.worker.id.clone(), bus_error)?;
        let stopped = stop.clone();
        let event_loop = Builder::new().name("tollgate-events".into()).spawn(move || event_loop.run(&stopped))?;
        Ok(Self { stop, threads: vec![keeper, event_loop], queries })
    }

    /// Returns a handle for queries.
    #[must_use]
    pub fn queries(&self) -> Queries {
        self.queries.clone()
    }

    /// Counts the records that are there, publishes their signals, and ends the threads.
    pub fn stop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            thread.thread().unpark();
            if thread.join().is_err() {
                tracing::error!("a thread of the aggregator panicked; the next start restores the counts from the log");
            }
        }
    }
}

impl Drop for Aggregator {
    fn drop(&mut self) {
        self.stop();
    }
}

/// Prepares the bus on a thread of its own, and again whenever it was unavailable.
fn keep_bus<B: Bus>(
    bus: B,
    stop: Arc<AtomicBool>,
    id: Arc<str>,
    bus_error: Arc<Mutex<Option<String>>>,
) -> std::io::Result<JoinHandle<()>> {
    supervise(bus, stop, move |prepared| {
        *bus_error.lock() = prepared.as_ref().err().map(ToString::to_string);
        match prepared {
            Ok(()) => tracing::info!(aggregator = %id, "the bus is available; counting starts"),
            Err(why) if why.transient => tracing::warn!(aggregator = %id, "waiting for the bus: {why}"),
            Err(why) => tracing::error!(aggregator = %id, "nothing is counted: {why}"),
        }
    })
}
