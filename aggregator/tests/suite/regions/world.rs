//! Two regions with a bus and a store each, one ledger, and the callers' log of admissions.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use tollgate_aggregator::regions::{GlobalRules, RegionBuses, RegionFeed, RegionRole, RegionRoleSettings};
use tollgate_aggregator::{Aggregator, NewestRules, WorkerSettings, api};
use tollgate_bus::embedded::{EmbeddedBus, EmbeddedWriter};
use tollgate_bus::link::{Link, LinkedBus, LinkedWriter};
use tollgate_bus::{Bus, LogWriter, Topic};
use tollgate_core::clock::{Clock, Stopwatch, SystemClock, Timestamp};
use tollgate_core::counter::{CounterId, DigestKey};
use tollgate_core::decision::Source;
use tollgate_core::messages::calls::{Batch, BatchName, CounterEntry, DenialCause, Outcome, Row};
use tollgate_core::messages::texts::Texts;
use tollgate_core::regions::RegionFloorRatio;
use tollgate_core::rules::{
    LimitPolicy, Numbering, Pattern, Quota, Rule, RuleSet, Scope, TimedCallers, TimedEnd, TimedEntry, TimedException,
};
use tollgate_core::window::Window;
use tollgate_wire::Record;

use super::region_store::{FLOOR, RULE, RegionStore, counter};
use crate::support::{get, serve};

pub(super) const PATIENCE: Duration = Duration::from_mins(1);
/// Time between two calls of the traffic.
pub(super) const PAUSE: Duration = Duration::from_millis(10);
/// Rule of each region for itself.
pub(super) const OWN_RULE: &str = "own";
const PARTITIONS: u32 = 2;
pub(super) const QUOTA: u64 = 100;
/// Units of one call: the demand is several quotas.
const COST: u64 = 5;

pub(crate) struct Region {
    name: &'static str,
    pub(crate) bus: LinkedBus<EmbeddedBus>,
    pub(crate) bus_link: Link,
    calls: LinkedWriter<EmbeddedWriter>,
    pub(super) store: RegionStore,
    window: Window,
    batches: u64,
}

/// A running aggregator; dropping it is its end.
pub(crate) struct Member {
    pub(crate) part: RegionRole,
    pub(crate) aggregator: Aggregator,
    pub(crate) http: SocketAddr,
}

pub(crate) struct World {
    pub(crate) clock: Arc<dyn Clock>,
    window: Window,
    pub(super) ledger: EmbeddedBus,
    pub(crate) regions: [Region; 2],
    admitted: Vec<(Timestamp, u64)>,
}

impl Region {
    fn new(name: &'static str, clock: &Arc<dyn Clock>, window: Window) -> Self {
        let bus_link = Link::new(Duration::ZERO);
        let bus = LinkedBus::new(EmbeddedBus::new(clock.clone(), PARTITIONS), bus_link.clone(), clock.clone());
        let (calls, store) = (bus.writer(Topic::Calls), RegionStore::new(clock.clone(), window));
        Self { name, bus, bus_link, calls, store, window, batches: 0 }
    }

    /// Makes one call; returns true if it was admitted. Its agent publishes it, or loses it while the bus is away.
    fn call(&mut self, now: Timestamp) -> bool {
        let is_admitted = self.store.charge(COST);
        self.publish(RULE, counter(), self.window, now, is_admitted);
        is_admitted
    }

    /// Publishes a call, as its agent does.
    pub(super) fn publish(&mut self, rule: &str, id: CounterId, window: Window, now: Timestamp, is_admitted: bool) {
        self.batches += 1;
        let partition = id.partition(PARTITIONS);
        let row = Row {
            call: self.batches,
            counter: Some(0),
            at: now,
            sub_window: window.sub_window(now),
            cost: i64::try_from(COST).expect("a small cost"),
            outcome: if is_admitted { Outcome::Charged } else { Outcome::Denied(DenialCause::Count) },
            shadow_denied: false,
            source: Source::Store,
            home: None,
        };
        let batch = Batch {
            traces: Vec::new(),
            name: BatchName { agent: "gw".into(), epoch: 1, partition, sequence: self.batches },
            region: self.name.into(),
            complete_through: now,
            counters: vec![CounterEntry {
                id,
                rule: rule.into(),
                label: "api_key=client".into(),
                generation: 1,
                quota: FLOOR,
                window,
            }],
            texts: Texts::default(),
            descriptor_sets: Vec::new(),
            rows: vec![row],
        };
        let _ = self.calls.append(partition, batch.encode(), 0);
    }
}

impl World {
    /// Creates regions with a quota of [`QUOTA`] in a window.
    pub(crate) fn new(window_ms: u64) -> Self {
        let window = Window::new(window_ms, 10).expect("a window");
        let clock: Arc<dyn Clock> = Arc::new(SystemClock::start());
        let ledger = EmbeddedBus::new(clock.clone(), 1);
        let regions = ["eu", "us"].map(|name| Region::new(name, &clock, window));
        Self { clock, window, ledger, regions, admitted: Vec::new() }
    }

    pub(crate) async fn start(&self, region: usize, id: &str, life: u64, coordinates: bool) -> Member {
        self.start_within(self.window.width_ms(), (region, id), life, coordinates).await
    }

    /// Starts an aggregator of a region whose rules have this window.
    pub(super) async fn start_within(
        &self,
        window_ms: u64,
        member: (usize, &str),
        life: u64,
        coordinates: bool,
    ) -> Member {
        self.start_on(&RegionBuses::on(self.ledger.clone()), window_ms, member, life, coordinates).await
    }

    /// Starts an aggregator of a region that reads and appends the ledger on these buses.
    pub(super) async fn start_on<B: Bus>(
        &self,
        buses: &RegionBuses<B>,
        window_ms: u64,
        (region, id): (usize, &str),
        life: u64,
        coordinates: bool,
    ) -> Member {
        let region = &self.regions[region];
        let mut rule = Rule::per(RULE, &["api_key"], Quota::new(QUOTA, window_ms).expect("a quota"));
        rule.scope = Scope::Global;
        let own = Rule::per(OWN_RULE, &["api_key"], "50/h".parse().expect("a quota"));
        let mut rules = RuleSet::new(1, [rule, own]);
        rules.regions = ["eu", "us"].map(|name| RegionFloorRatio { region: name.into(), floor_ppm: 100_000 }).into();
        let global_rules = GlobalRules::new(&DigestKey::default(), region.name);
        global_rules.set(&rules);
        let shown = NewestRules::default();
        shown.set(with_exceptions(rules, self.clock.now()));
        let settings = WorkerSettings {
            epoch: self.clock.now(),
            region: region.name.into(),
            shares: true,
            coordinates,
            ..WorkerSettings::new(id)
        };
        let feed = RegionFeed::default();
        let aggregator =
            Aggregator::start_with((&region.bus, None), settings, None, Some(feed.clone()), self.clock.clone())
                .expect("threads");
        let settings =
            RegionRoleSettings { id: id.into(), region: region.name.into(), coordinates, life, dead_letters: None };
        let store = Some(region.store.clone());
        let queries = aggregator.queries();
        let facts = (feed, queries.clone());
        let started = RegionRole::start(settings, buses, store, global_rules, facts, self.clock.clone());
        let part = started.expect("threads");
        let analytics = aggregator.analytics().with_rules(shown.known());
        let router = api::router(id.into(), (queries, analytics), Some(part.queries()), aggregator.metrics(), None);
        let http = serve(router).await;
        Member { part, aggregator, http }
    }

    /// Lets callers of one region call until a condition holds.
    pub(crate) fn call_until(&mut self, busy: usize, awaited: &str, mut is_reached: impl FnMut(&Self) -> bool) {
        let waited = Stopwatch::start();
        while !is_reached(self) {
            let limits = self.regions.each_ref().map(|region| region.store.limit());
            assert!(waited.elapsed() < PATIENCE, "{awaited}: the limits are {limits:?}");
            let now = self.clock.now();
            if self.regions[busy].call(now) {
                self.admitted.push((now, COST));
            }
            std::thread::park_timeout(PAUSE);
        }
    }

    pub(crate) fn limit(&self, region: usize) -> u64 {
        self.regions[region].store.limit()
    }

    /// Checks that no window of the callers' log holds more than the quota.
    pub(super) fn check_windows(&self) {
        for (end, (last, _)) in self.admitted.iter().enumerate() {
            let in_window = |(at, _): &&(Timestamp, u64)| last.ms_since(*at) < self.window.width_ms();
            let units: u64 = self.admitted[..=end].iter().rev().take_while(in_window).map(|(_, units)| units).sum();
            assert!(units <= QUOTA, "{units} units in the window before {last:?}");
        }
    }
}

/// Returns rules as they are published, with an exception and a list entry that end in an hour.
fn with_exceptions(mut rules: RuleSet, now: Timestamp) -> RuleSet {
    let end = TimedEnd { until: now.plus_ms(3_600_000), reason: "launch".into() };
    let gold = TimedException {
        callers: TimedCallers::Tier("gold".into()),
        policy: Some(LimitPolicy::of("90/h".parse().expect("a quota"))),
        by_tier: Vec::new(),
        end: end.clone(),
    };
    Arc::make_mut(&mut rules.rules[1]).timed.push(gold);
    let matches = vec![("api_key".into(), Pattern::Exact("leaked".into()))];
    rules.lists.timed.push(TimedEntry { denies: true, matches, end });
    rules.numbering = Numbering::Publication;
    rules
}

pub(super) fn regions_of(address: SocketAddr) -> Value {
    get(address, "/regions")
}
