//! The budgets of regions at a running aggregator: its threads, from start to stop.

use std::sync::Arc;

use parking_lot::Mutex;
use prometheus_client::registry::Registry;
use tokio::runtime::Handle;
use tollgate_aggregator_engine::budget::ledger::COUNTERS_LEN_MAX;
use tollgate_bus::{Bus, Topic};
use tollgate_core::clock::Clock;
use tollgate_core::regions::limit_store::LimitStore;

use super::agreement::Agreement;
use super::dead_entries::DeadEntries;
use super::feed::RegionFeed;
use super::global_rules::GlobalRules;
use super::home_buses::RegionBuses;
use super::ledger_identities::LedgerIdentities;
use super::ledger_link::LedgerLink;
use super::limit_writer::LimitWriter;
use super::metrics::RegionMetrics;
use super::region_loop::RegionLoop;
use super::role_settings::RegionRoleSettings;
use super::state::{RegionQueries, RegionState};
use super::usage_loop::UsageLoop;
use super::usage_state::UsageState;
use crate::queries::Queries;
use crate::thread_group::ThreadGroup;

/// A running part in the budgets; it stops when it is dropped.
pub struct RegionRole {
    threads: ThreadGroup,
    queries: RegionQueries,
    registry: Arc<Registry>,
}

impl RegionRole {
    /// Starts the threads inside a tokio runtime. Without a store, the aggregator coordinates and takes no part for its region.
    /// `feed` is that of the aggregator that `queries` ask.
    ///
    /// # Errors
    /// Fails if the system provides no thread.
    pub fn start<B: Bus, S: LimitStore>(
        settings: RegionRoleSettings,
        buses: &RegionBuses<B>,
        store: Option<S>,
        rules: GlobalRules,
        (feed, queries): (RegionFeed, Queries),
        clock: Arc<dyn Clock>,
    ) -> std::io::Result<Self> {
        tracing::info!(
            region = %settings.region,
            "at most {COUNTERS_LEN_MAX} counters of global rules hold or ask for more than their floors at a time, in all regions together; further ones have their floors only"
        );
        let mut registry = Registry::default();
        let metrics = RegionMetrics::register(&mut registry);
        let (budgets, coordinator) = settings.engines(&rules);
        let state = Arc::new(Mutex::new(RegionState {
            region: settings.region.clone(),
            budgets,
            coordinator,
            coordinated_by: None,
            agreement: Agreement::default(),
            seen: std::collections::BTreeMap::new(),
            moves: 0,
            position: None,
            is_complete: false,
            ledger_error: None,
            mirror_error: None,
            store_error: None,
        }));
        let mut threads = ThreadGroup::new("the budgets", "this region falls to its floors until a restart");
        let (ledger, connected) = (state.clone(), metrics.connected.clone());
        buses.ledger.supervise(Topic::Ledger, &mut threads, move |error| {
            connected.set(error.is_none().into());
            ledger.lock().ledger_error = error;
        })?;
        let usage = Arc::new(Mutex::new(UsageState::new(rules.clone())));
        let noted = usage.clone();
        buses.usage.supervise(Topic::Usage, &mut threads, move |error| noted.lock().error = error)?;
        let mut usage_loop =
            UsageLoop::new(&settings, &buses.usage, queries.clone(), usage.clone(), metrics.clone(), clock.clone());
        threads.run("tollgate-usage", move |stop| usage_loop.run(stop))?;
        let limits = store.map(|store| LimitWriter {
            store: Arc::new(store),
            runtime: Handle::current(),
            error: None,
            refused: None,
        });
        let identities = LedgerIdentities::watch(&buses.ledger, &mut threads)?;
        let mut region_loop = RegionLoop {
            link: LedgerLink::open(&buses.ledger, identities),
            dead_entries: DeadEntries::new(Topic::Ledger, settings.dead_letters.clone(), metrics.dead_letters.clone()),
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
        Ok(Self { threads, queries: RegionQueries { state, usage, clock }, registry: Arc::new(registry) })
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
