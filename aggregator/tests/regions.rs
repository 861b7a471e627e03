//! Two regions over one ledger: budgets follow the demand, the coordinator is replaced, and no window holds more than the quota.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::net::TcpListener;
use tollgate_aggregator::regions::{GlobalRules, RegionBuses, RegionFeed, RegionRole, RegionRoleSettings};
use tollgate_aggregator::{Aggregator, WorkerSettings, api};
use tollgate_bus::embedded::{EmbeddedBus, EmbeddedWriter};
use tollgate_bus::{Bus, LogReader, LogWriter, ReadFrom, Topic};
use tollgate_core::clock::{Clock, Stopwatch, SystemClock, Timestamp};
use tollgate_core::counter::{CounterId, DigestKey, StoreError};
use tollgate_core::messages::calls::{Batch, BatchName, CounterEntry, Outcome, Row};
use tollgate_core::messages::texts::Texts;
use tollgate_core::regions::RegionFloorPart;
use tollgate_core::regions::limit_store::LimitStore;
use tollgate_core::regions::stored_limit::{LimitAnswer, LimitWrite, StoredLimit};
use tollgate_core::rules::{Rule, RuleSet, Scope};
use tollgate_core::window::{Estimate, Ring, Window};
use tollgate_wire::Record;

const PATIENCE: Duration = Duration::from_mins(1);
/// Time between two calls of the traffic.
const PAUSE: Duration = Duration::from_millis(10);
const PARTITIONS: u32 = 2;
const QUOTA: u64 = 100;
const FLOOR: u64 = 10;
const WINDOW_MS: u64 = 1_000;
/// Units of one call: the demand is several quotas.
const COST: u64 = 5;
const RULE: &str = "global";
/// Rule of each region for itself.
const OWN_RULE: &str = "own";

fn counter() -> CounterId {
    DigestKey::default().counter(RULE, ["client"])
}

fn window() -> Window {
    Window::new(WINDOW_MS, 10).expect("a window")
}

/// Store of a region, which admits calls as the script does; clones share it.
#[derive(Clone)]
struct RegionStore {
    clock: Arc<dyn Clock>,
    records: Arc<Mutex<StoreRecords>>,
}

#[derive(Default)]
struct StoreRecords {
    limits: BTreeMap<CounterId, StoredLimit>,
    floor: Option<StoredLimit>,
    admitted: Option<Ring>,
    is_away: bool,
}

impl RegionStore {
    fn new(clock: Arc<dyn Clock>) -> Self {
        Self { clock, records: Arc::default() }
    }

    /// Charges a call; returns if it was admitted.
    fn charge(&self, units: u64) -> bool {
        let now = self.clock.now();
        let mut records = self.records.lock().expect("no panic");
        let limit = records.limit(now);
        let ring = records.admitted.get_or_insert_with(|| Ring::new(window()));
        let is_admitted = ring.used(now, Estimate::Conservative) + units <= limit;
        if is_admitted {
            ring.add(window().sub_window(now), units);
        }
        is_admitted
    }

    fn limit(&self) -> u64 {
        self.records.lock().expect("no panic").limit(self.clock.now())
    }

    fn set_away(&self, is_away: bool) {
        self.records.lock().expect("no panic").is_away = is_away;
    }

    fn records(&self) -> Result<std::sync::MutexGuard<'_, StoreRecords>, StoreError> {
        let records = self.records.lock().expect("no panic");
        if records.is_away { Err(StoreError::Unreachable) } else { Ok(records) }
    }
}

impl StoreRecords {
    fn limit(&self, now: Timestamp) -> u64 {
        let granted = self.limits.get(&counter()).map_or(0, |limit| limit.units_at(now));
        self.floor.map_or(FLOOR, |floor| floor.units) + granted
    }
}

impl LimitStore for RegionStore {
    async fn write_limit(
        &self,
        _: &str,
        counter: CounterId,
        write: &LimitWrite,
    ) -> Result<(Timestamp, LimitAnswer), StoreError> {
        let (now, mut records) = (self.clock.now(), self.records()?);
        let limit = records.limits.get(&counter).copied().unwrap_or_default().after(write);
        records.limits.insert(counter, limit);
        let used = records.admitted.as_ref().map_or(0, |ring| ring.used(now, Estimate::Conservative));
        Ok((now, LimitAnswer { limit, floor: records.floor.map_or(FLOOR, |floor| floor.units), used }))
    }

    async fn write_floor(&self, rule: &str, write: &LimitWrite) -> Result<(Timestamp, StoredLimit), StoreError> {
        assert_eq!(rule, RULE);
        let mut records = self.records()?;
        let floor = records.floor.unwrap_or_default().after(write);
        records.floor = Some(floor);
        Ok((self.clock.now(), floor))
    }

    async fn time(&self) -> Result<Timestamp, StoreError> {
        self.records().map(|_| self.clock.now())
    }
}

/// Region with its own bus and store.
struct Region {
    name: &'static str,
    bus: EmbeddedBus,
    calls: EmbeddedWriter,
    store: RegionStore,
    batches: u64,
}

/// A running aggregator; dropping it is its end.
struct Member {
    part: RegionRole,
    _aggregator: Aggregator,
    http: SocketAddr,
}

/// All regions, and the calls that were admitted.
struct World {
    clock: Arc<dyn Clock>,
    ledger: EmbeddedBus,
    regions: [Region; 2],
    admitted: Vec<(Timestamp, u64)>,
}

impl Region {
    fn new(name: &'static str, clock: &Arc<dyn Clock>) -> Self {
        let bus = EmbeddedBus::new(clock.clone(), PARTITIONS);
        let (calls, store) = (bus.writer(Topic::Calls), RegionStore::new(clock.clone()));
        Self { name, bus, calls, store, batches: 0 }
    }

    /// Makes one call; returns if it was admitted. Its agent publishes it.
    fn call(&mut self, now: Timestamp) -> bool {
        let is_admitted = self.store.charge(COST);
        self.publish(RULE, counter(), window(), now, is_admitted);
        is_admitted
    }

    /// Publishes a call, as its agent does.
    fn publish(&mut self, rule: &str, id: CounterId, window: Window, now: Timestamp, is_admitted: bool) {
        self.batches += 1;
        let partition = id.partition(PARTITIONS);
        let row = Row {
            call: self.batches,
            counter: Some(0),
            at: now,
            sub_window: window.sub_window(now),
            cost: i64::try_from(COST).expect("a small cost"),
            outcome: if is_admitted { Outcome::Charged } else { Outcome::Denied },
            home: None,
        };
        let batch = Batch {
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
        self.calls.append(partition, batch.encode(), 0).expect("the queue has room");
    }
}

impl World {
    fn new() -> Self {
        let clock: Arc<dyn Clock> = Arc::new(SystemClock::start());
        let ledger = EmbeddedBus::new(clock.clone(), 1);
        let regions = ["eu", "us"].map(|name| Region::new(name, &clock));
        Self { clock, ledger, regions, admitted: Vec::new() }
    }

    /// Starts an aggregator of a region.
    async fn start(&self, region: usize, id: &str, life: u64, coordinates: bool) -> Member {
        let region = &self.regions[region];
        let mut rule = Rule::per(RULE, &["api_key"], "100/s".parse().expect("a quota"));
        rule.scope = Scope::Global;
        let own = Rule::per(OWN_RULE, &["api_key"], "50/h".parse().expect("a quota"));
        let mut rules = RuleSet::new(1, [rule, own]);
        rules.regions = ["eu", "us"].map(|name| RegionFloorPart { region: name.into(), floor_ppm: 100_000 }).into();
        let global_rules = GlobalRules::new(&DigestKey::default(), region.name);
        global_rules.set(&rules);
        let settings = WorkerSettings {
            epoch: self.clock.now(),
            region: region.name.into(),
            shares: true,
            coordinates,
            ..WorkerSettings::new(id)
        };
        let feed = RegionFeed::default();
        let aggregator = Aggregator::start_with(&region.bus, settings, None, Some(feed.clone()), self.clock.clone())
            .expect("threads");
        let settings =
            RegionRoleSettings { id: id.into(), region: region.name.into(), coordinates, life, dead_letters: None };
        let buses = RegionBuses::on(self.ledger.clone());
        let store = Some(region.store.clone());
        let queries = aggregator.queries();
        let facts = (feed, queries.clone());
        let started = RegionRole::start(settings, &buses, store, global_rules, facts, self.clock.clone());
        let part = started.expect("threads");
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let http = listener.local_addr().expect("an address");
        let router = api::router(id.into(), queries, Some(part.queries()), aggregator.metrics());
        tokio::spawn(async { axum::serve(listener, router).await });
        Member { part, _aggregator: aggregator, http }
    }

    /// Lets callers of one region call until a condition holds.
    fn call_until(&mut self, busy: usize, awaited: &str, mut is_reached: impl FnMut(&Self) -> bool) {
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

    fn limit(&self, region: usize) -> u64 {
        self.regions[region].store.limit()
    }

    /// Checks that no window of the callers' log holds more than the quota.
    fn check_windows(&self) {
        for (end, (last, _)) in self.admitted.iter().enumerate() {
            let in_window = |(at, _): &&(Timestamp, u64)| last.ms_since(*at) < WINDOW_MS;
            let units: u64 = self.admitted[..=end].iter().rev().take_while(in_window).map(|(_, units)| units).sum();
            assert!(units <= QUOTA, "{units} units in the window before {last:?}");
        }
    }
}

/// Returns the JSON of an aggregator's budgets.
fn regions_of(address: SocketAddr) -> Value {
    get(address, "/regions")
}

fn get(address: SocketAddr, path: &str) -> Value {
    let mut stream = TcpStream::connect(address).expect("a connection");
    write!(stream, "GET {path} HTTP/1.1\r\nhost: aggregator\r\nconnection: close\r\n\r\n").expect("it is sent");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("an answer");
    serde_json::from_str(answer.split_once("\r\n\r\n").expect("a body").1).expect("JSON")
}

/// J3: a budget moves to the demand and back, also after the coordinator's end.
#[tokio::test(flavor = "multi_thread")]
async fn a_budget_follows_the_demand_and_survives_its_coordinator() {
    const MOST: u64 = 60;
    let (mut world, [eu, us]) = (World::new(), [0, 1]);
    let first = world.start(eu, "eu-a", 11, true).await;
    let second = world.start(eu, "eu-b", 12, true).await;
    let _third = world.start(us, "us-a", 13, false).await;
    world.call_until(eu, "eu has most units", |world| world.limit(eu) >= MOST);
    assert_eq!(world.limit(us), FLOOR);
    world.call_until(us, "the units move to us", |world| world.limit(us) >= MOST);
    assert!(world.limit(eu) <= QUOTA - MOST);
    assert_eq!(regions_of(second.http)["coordinator"], "eu-a");

    drop(first);
    world.call_until(us, "the other one coordinates", |_| regions_of(second.http)["coordinator"] == "eu-b");
    world.call_until(eu, "the units move back to eu", |world| world.limit(eu) >= MOST);
    world.check_windows();

    let shown = regions_of(second.http);
    let of_counter = &shown["counters"][0];
    assert_eq!((&of_counter["quota"], &of_counter["label"]), (&QUOTA.into(), &"api_key=client".into()));
    assert_eq!(of_counter["id"], counter().to_string());
    let held: Vec<u64> =
        [eu, us].iter().map(|of| of_counter["regions"][*of]["held"].as_u64().expect("units")).collect();
    assert!(held[eu] >= MOST && held.iter().sum::<u64>() <= QUOTA, "{shown}");
    assert!(of_counter["regions"][eu]["age_ms"].is_u64(), "{shown}");
    assert_eq!(shown["rules"][0]["floors"]["us"], FLOOR);
}

/// A region without its store asks for nothing that it cannot use, and takes part again afterwards. Records that are no entries
/// change nothing.
#[tokio::test(flavor = "multi_thread")]
async fn a_store_that_was_away_and_undecodable_records_lose_nothing() {
    let (mut world, [eu, _]) = (World::new(), [0, 1]);
    world.regions[eu].store.set_away(true);
    world.ledger.writer(Topic::Ledger).append(0, b"no entry".to_vec(), 0).expect("the queue has room");
    let only = world.start(eu, "eu-a", 21, true).await;
    let mut entries = world.ledger.reader(Topic::Ledger, &[0], ReadFrom::Next);
    world.call_until(eu, "the failure is shown", |_| regions_of(only.http)["store_error"].is_string());
    let waited = Stopwatch::start();
    while entries.poll(PAUSE, 1).is_empty() {
        assert!(waited.elapsed() < PATIENCE, "no terms came");
    }
    assert_eq!(world.limit(eu), FLOOR);
    world.regions[eu].store.set_away(false);
    world.call_until(eu, "the units are granted", |world| world.limit(eu) > FLOOR);
    let shown = regions_of(only.http);
    assert_eq!((&shown["store_error"], &shown["ledger"]["void"]), (&Value::Null, &0.into()));
    world.check_windows();
}

/// J2, J3: the usage of all regions is shown for global and for regional rules, and a region that is silent becomes unknown.
#[tokio::test(flavor = "multi_thread")]
async fn the_usage_of_all_regions_is_shown_for_both_scopes() {
    const CALLS: [(usize, u64, bool); 3] = [(0, 3, true), (0, 1, false), (1, 2, true)];
    let (mut world, [eu, us]) = (World::new(), [0, 1]);
    let own = DigestKey::default().counter(OWN_RULE, ["client"]);
    let hour = Window::new(3_600_000, 10).expect("a window");
    let first = world.start(eu, "eu-a", 31, true).await;
    let other = world.start(us, "us-a", 32, false).await;
    for (region, count, is_admitted) in CALLS {
        (0..count).for_each(|_| world.regions[region].publish(OWN_RULE, own, hour, world.clock.now(), is_admitted));
    }
    let of = |region: &str, used: u64, demand: u64| json!({ "region": region, "used": used, "demand": demand });
    let unknown = json!({ "region": "us", "used": null, "demand": null });
    let of_own = || regions_of(first.http)["usage"]["rules"][1].clone();
    let all = [of("eu", 15, 20), of("us", 10, 10)];
    world.call_until(eu, "the usage of both regions", |_| of_own()["regions"] == json!(all));
    let shown = of_own();
    assert_eq!((&shown["used"], &shown["demand"]), (&25.into(), &30.into()), "{shown}");
    assert_eq!(
        (&shown["scope"], &shown["quota"], &shown["over_regions"]),
        (&"regional".into(), &50.into(), &100.into())
    );
    let largest = &shown["counters"][0];
    assert_eq!((&largest["id"], &largest["label"]), (&own.to_string().into(), &"api_key=client".into()));
    assert_eq!((&largest["used"], &largest["regions"]), (&25.into(), &json!(all)));

    world.call_until(eu, "the budget of a counter", |world| {
        let of_global = &get(first.http, "/counters?rule=global")["counters"][0];
        of_global["quota"] == FLOOR && of_global["budget"] == world.limit(eu)
    });
    let of_global = &regions_of(first.http)["usage"]["rules"][0];
    assert_eq!((&of_global["scope"], &of_global["over_regions"]), (&"global".into(), &QUOTA.into()), "{of_global}");
    assert!(of_global["regions"][eu]["demand"].as_u64() > of_global["regions"][eu]["used"].as_u64(), "{of_global}");
    assert_eq!(get(first.http, "/counters?rule=own")["counters"][0]["budget"], Value::Null);

    world.ledger.writer(Topic::Usage).append(0, b"no record".to_vec(), 0).expect("the queue has room");
    let metrics = first.part.metrics();
    for expected in [
        r#"tollgate_regions_used_units{rule="own",region="us"} 10"#,
        r#"tollgate_regions_demand_units{rule="own",region="eu"} 20"#,
        r#"tollgate_regions_usage_age_seconds{region="us"} "#,
        r#"tollgate_dead_letters_total{topic="usage",reader="aggregator"} 1"#,
    ] {
        world.call_until(eu, expected, |_| metrics().contains(expected));
    }
    let moves: u64 = metrics()
        .lines()
        .find_map(|line| line.strip_prefix("tollgate_regions_moves_total ")?.parse().ok())
        .expect("a number");
    assert!(moves > 0);

    drop(other);
    world.call_until(eu, "a silent region is unknown", |_| of_own()["regions"][us] == unknown);
    let shown = regions_of(first.http)["usage"].clone();
    assert_eq!((&shown["regions"][eu]["known"], &shown["regions"][us]["known"]), (&true.into(), &false.into()));
    assert!(shown["regions"][us]["age_ms"].as_u64() >= shown["unknown_after_ms"].as_u64(), "{shown}");
    assert_eq!(of_own()["used"], 15, "the sum of the regions that are known");
    world.call_until(eu, "no units of an unknown region", |_| !metrics().contains(r#"units{rule="own",region="us"}"#));

    let _again = world.start(us, "us-a", 33, false).await;
    world.call_until(eu, "the restored usage", |_| of_own()["regions"] == json!(all));
}
