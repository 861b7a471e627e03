//! The budgets of regions at a running aggregator: its threads, from start to stop.

use std::path::PathBuf;
use std::sync::Arc;

use parking_lot::Mutex;
use prometheus_client::registry::Registry;
use tokio::runtime::Handle;
use tollgate_bus::{Bus, BusError, supervise};
use tollgate_core::clock::Clock;
use tollgate_core::messages::ledger::Region;
use tollgate_core::regions::limit_store::LimitStore;

use super::dead_entries::DeadEntries;
use super::feed::RegionFeed;
use super::global_rules::GlobalRules;
use super::ledger_link::LedgerLink;
use super::limit_writer::LimitWriter;
use super::metrics::RegionMetrics;
use super::region_loop::RegionLoop;
use super::state::{RegionQueries, RegionState};
use crate::queries::Queries;
use crate::thread_group::ThreadGroup;

/// Part of an aggregator in the budgets of regions.
#[derive(Clone, Debug)]
pub struct RegionRoleSettings {
    /// Name of the aggregator, as its presence has it.
    pub id: Arc<str>,
    /// Name of the region.
    pub region: Region,
    /// True if it may coordinate.
    pub coordinates: bool,
    /// Number that no other life of a process has.
    pub life: u64,
    /// Folder for undecodable records of the ledger.
    pub dead_letters: Option<PathBuf>,
}

/// Buses that carry the ledger.
#[derive(Clone, Debug)]
pub struct LedgerBuses<B> {
    /// The home cluster, to which entries are appended.
    pub home: B,
    /// A mirror from which entries are read, if there is one.
    pub mirror: Option<B>,
}

/// A running part in the budgets; it stops when it is dropped.
pub struct RegionRole {
    threads: ThreadGroup,
    queries: RegionQueries,
    registry: Arc<Registry>,
}

impl RegionRoleSettings {
    pub(super) const fn writer(&self) -> u64 {
        self.life
    }
}

impl RegionRole {
    /// Starts the threads inside a tokio runtime. Without a store, the aggregator coordinates and takes no part for its region.
    /// `feed` is that of the aggregator that `queries` ask.
    ///
    /// # Errors
    /// Fails if the system provides no thread.
    pub fn start<B: Bus, S: LimitStore>(
        settings: RegionRoleSettings,
        ledger: LedgerBuses<B>,
        store: Option<S>,
        rules: GlobalRules,
        (feed, queries): (RegionFeed, Queries),
        clock: Arc<dyn Clock>,
    ) -> std::io::Result<Self> {
        let mut registry = Registry::default();
        let metrics = RegionMetrics::register(&mut registry);
        let (budgets, coordinator) = settings.engines(&rules);
        let state = Arc::new(Mutex::new(RegionState {
            region: settings.region.clone(),
            budgets,
            coordinator,
            coordinated_by: None,
            seen: std::collections::BTreeMap::new(),
            position: None,
            is_complete: false,
            ledger_error: None,
            store_error: None,
        }));
        let mut threads = ThreadGroup::new("the budgets", "this region falls to its floors until a restart");
        let buses: Vec<B> = std::iter::once(ledger.home.clone()).chain(ledger.mirror.clone()).collect();
        let errors: Arc<Mutex<Vec<Option<String>>>> =
            Arc::new(Mutex::new(vec![Some("not connected yet".into()); buses.len()]));
        for (number, bus) in buses.into_iter().enumerate() {
            let (errors, state, connected) = (errors.clone(), state.clone(), metrics.connected.clone());
            let notify = move |prepared: Result<(), &BusError>| {
                log_change(number, prepared);
                let mut errors = errors.lock();
                errors[number] = prepared.err().map(ToString::to_string);
                let error = errors.iter().flatten().next().cloned();
                connected.set(error.is_none().into());
                state.lock().ledger_error = error;
            };
            threads.start(|stop| supervise(bus, stop, notify))?;
        }
        let limits = store.map(|store| LimitWriter { store: Arc::new(store), runtime: Handle::current(), error: None });
        let source = ledger.mirror.unwrap_or_else(|| ledger.home.clone());
        let mut region_loop = RegionLoop {
            link: LedgerLink::open(&ledger.home, source),
            dead_entries: DeadEntries::new(settings.dead_letters.clone()),
            settings,
            limits,
            feed,
            rules,
            queries,
            state: state.clone(),
            metrics,
            ticked_at: clock.now(),
            coordinated_at: clock.now(),
            has_news: false,
            store_time_at: None,
            terms_at: None,
            is_excluded: false,
            clock: clock.clone(),
        };
        threads.run("tollgate-regions", move |stop| region_loop.run(stop))?;
        Ok(Self { threads, queries: RegionQueries { state, clock }, registry: Arc::new(registry) })
    }

    /// Returns a handle for queries.
    #[must_use]
    pub fn queries(&self) -> RegionQueries {
        self.queries.clone()
    }

    /// Returns a function that returns the metrics in the OpenMetrics text format.
    pub fn metrics(&self) -> impl Fn() -> String + Send + Sync + use<> {
        let registry = self.registry.clone();
        move || tollgate_metrics::encode(&registry)
    }

    /// Ends the threads. What the region holds stays in its store until its terms end.
    pub fn stop(&mut self) {
        self.threads.stop();
    }
}

/// Logs the change of the bus of the ledger, or of its mirror.
fn log_change(number: usize, prepared: Result<(), &BusError>) {
    let bus = if number == 0 { "ledger" } else { "mirror of the ledger" };
    match prepared {
        Ok(()) => tracing::info!("the {bus} is available"),
        Err(why) if why.is_transient() => tracing::warn!(
            "waiting for the {bus}; until it is back, this region keeps its units until their terms end, and then its floors: {why}"
        ),
        Err(why) => tracing::error!("the {bus} cannot be used, so this region has its floors only: {why}"),
    }
}
