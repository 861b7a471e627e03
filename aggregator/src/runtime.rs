//! A running aggregator: its threads, from start to stop.
//!
//! One thread runs the event loop; another one keeps the bus prepared, so that the event loop never waits for a bus that is
//! unavailable.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::sync_channel;

use prometheus_client::registry::Registry;
use tollgate_aggregator_engine::worker::{Worker, WorkerSettings};
use tollgate_bus::{Bus, BusError, ReadFrom, Topic, supervise};
use tollgate_core::clock::{Clock, Timestamp};

use crate::analytics::Analytics;
use crate::dead_letters::DeadLetters;
use crate::event_loop::EventLoop;
use crate::fault::FaultState;
use crate::metrics::AggregatorMetrics;
use crate::queries::Queries;
use crate::regions::RegionFeed;
use crate::thread_group::ThreadGroup;

/// Maximum number of records of `rollups` and `live` that were passed over and wait to be kept; further ones are lost.
const PASSED_OVER_LEN_MAX: usize = 1_000;

/// A running aggregator; it stops when it is dropped.
pub struct Aggregator {
    threads: ThreadGroup,
    queries: Queries,
    analytics: Analytics,
    registry: Arc<Registry>,
}

impl Aggregator {
    /// Starts the threads. Counting begins when the bus is available. The bytes of dead letters are kept in a folder,
    /// if one is given.
    ///
    /// # Errors
    /// Fails if the system provides no thread.
    pub fn start<B: Bus>(
        bus: &B,
        settings: WorkerSettings,
        dead_letters: Option<PathBuf>,
        clock: Arc<dyn Clock>,
    ) -> std::io::Result<Self> {
        Self::start_with((bus, None), settings, dead_letters, None, clock)
    }

    /// Starts the threads, as [`Self::start`] does, with a bus of its own for the topics of analytics, so that a missing one stops no
    /// count. Facts are passed to the budgets of regions, if there are some.
    ///
    /// # Errors
    /// Fails if the system provides no thread.
    pub fn start_with<B: Bus>(
        (bus, of_analytics): (&B, Option<&B>),
        settings: WorkerSettings,
        dead_letters: Option<PathBuf>,
        regions: Option<RegionFeed>,
        clock: Arc<dyn Clock>,
    ) -> std::io::Result<Self> {
        let (id, has_analytics) = (settings.id.clone(), settings.analytics.is_some());
        let mut threads = ThreadGroup::new("the aggregator", "the next start restores the counts from the log");
        let ((queries, queue), bus_state) = (Queries::open(), FaultState::default());
        let mut registry = Registry::default();
        let metrics = AggregatorMetrics::register(&mut registry, bus.partitions(Topic::Calls));
        let analytics = Analytics::new(clock.clone());
        let (passed_over, letters) = sync_channel(PASSED_OVER_LEN_MAX);
        let bus_connected = metrics.bus_connected.clone();
        let mut event_loop = EventLoop {
            id: id.clone(),
            calls: bus.reader(Topic::Calls, &[], ReadFrom::Oldest),
            signals: bus.writer(Topic::Signals),
            rollups: of_analytics.unwrap_or(bus).writer(Topic::Rollups),
            live: of_analytics.unwrap_or(bus).writer(Topic::Live),
            passed_over: letters,
            presence: bus.reader(Topic::Presence, &[0], ReadFrom::Next),
            announcements: settings.shares.then(|| bus.writer(Topic::Presence)),
            metrics,
            metrics_updated_at: clock.now(),
            dead_letters: DeadLetters::new(dead_letters),
            queries: queue,
            regions,
            part_assigned_at: Timestamp::default(),
            has_all_counters: false,
            bus_state: bus_state.clone(),
            started_at: clock.now(),
            worker: Worker::new(settings, bus.partitions(Topic::Calls)),
            bus: bus.clone(),
            clock: clock.clone(),
        };
        // The bus is prepared on a thread of its own, and again whenever it was unavailable.
        let of_counts = id.clone();
        let of_state = clock.clone();
        let notify = move |prepared: Result<(), &BusError>| {
            bus_connected.set(prepared.is_ok().into());
            let error = prepared.as_ref().err().map(ToString::to_string);
            let has_recovered = bus_state.note(of_state.now(), error);
            match prepared {
                Ok(()) if !has_recovered => {}
                Ok(()) => tracing::info!(aggregator = %of_counts, "the bus is available; counting starts"),
                Err(why) if why.is_transient() => {
                    tracing::warn!(aggregator = %of_counts, "no calls are counted until the Kafka of the fleet is there; check that it runs, and --kafka: {why}");
                }
                Err(why) => {
                    tracing::error!(aggregator = %of_counts, "the bus is not as it should be, so counts or their signals are missing: {why}");
                }
            }
        };
        threads.start(|stop| supervise(bus.clone(), stop, notify))?;
        if has_analytics {
            if let Some(bus) = of_analytics {
                let (id, bus, state) = (id.clone(), bus.clone(), analytics.bus_state.clone());
                let notify = move |prepared: Result<(), &BusError>| note_analytics(&id, &state, clock.now(), prepared);
                threads.start(|stop| supervise(bus, stop, notify))?;
            }
            let (view, bus) = (analytics.clone(), of_analytics.unwrap_or(bus).clone());
            threads.run("tollgate-analytics", move |stop| view.run(&bus, stop, &passed_over))?;
        }
        threads.run("tollgate-events", move |stop| event_loop.run(stop))?;
        Ok(Self { threads, queries, analytics, registry: Arc::new(registry) })
    }

    /// Returns a handle for queries.
    #[must_use]
    pub fn queries(&self) -> Queries {
        self.queries.clone()
    }

    /// Returns a handle for questions about the whole fleet.
    #[must_use]
    pub fn analytics(&self) -> Analytics {
        self.analytics.clone()
    }

    /// Returns a function that returns the metrics in the OpenMetrics text format.
    pub fn metrics(&self) -> impl Fn() -> String + Send + Sync + use<> {
        let registry = self.registry.clone();
        move || tollgate_metrics::encode(&registry)
    }

    /// Counts the records that are there, publishes their signals, and ends the threads.
    pub fn stop(&mut self) {
        self.threads.stop();
    }
}

/// Notes whether the topics of analytics can be used, and logs each change.
fn note_analytics(id: &str, state: &FaultState, now: Timestamp, prepared: Result<(), &BusError>) {
    let reason = prepared.err().map(ToString::to_string);
    let has_recovered = state.note(now, reason);
    match prepared {
        Ok(()) if has_recovered => tracing::info!(aggregator = %id, "the topics of analytics are available"),
        Ok(()) => {}
        Err(why) if why.is_transient() => {
            tracing::warn!(aggregator = %id, "the page and its API lack the newest calls until Kafka is there; limits do not depend on it: {why}");
        }
        Err(why) => {
            tracing::error!(aggregator = %id, "the page and its API lack calls; counts and limits go on: {why}");
        }
    }
}
