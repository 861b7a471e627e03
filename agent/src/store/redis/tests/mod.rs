//! The Redis store on real servers.

mod budgets;
mod conversion;
mod gathered_steps;
mod outage;
mod step;
mod stored;

use std::future::Future;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use tokio::runtime::Runtime;
use tollgate_core::algorithm::{Algorithm, Limit};
use tollgate_core::clock::{Clock, SystemClock, Timestamp};
use tollgate_core::counter::{CounterId, HashSlotId, RequestId};
use tollgate_core::window::{Estimate, Window};
use tollgate_redis::RegionLimits;
use tollgate_servers::{Proxy, Redis, wait_for};

use super::gathered_steps::GatheredSteps;
use super::steps;
use super::value;
use super::{HashSlots, RedisSettings, RedisStore, StepServers};
use crate::store::conformance::{self, Loses};
use crate::store::memory::MemoryStore;
use crate::store::{ChargeStore, StoreError};
use tollgate_core::counter::ChargeResults;
use tollgate_core::counter::{Charge, ChargeMode};

/// Time for which an agent waits for an answer.
const PATIENCE: Duration = Duration::from_millis(50);

static RUNTIME: LazyLock<Runtime> = LazyLock::new(|| {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    runtime.expect("a runtime")
});
/// A server for the tests that leave it alone; each store has a prefix of its own there.
static SHARED: LazyLock<Redis> = LazyLock::new(Redis::start);

fn own_prefix() -> String {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    format!("test{}:", NEXT.fetch_add(1, Ordering::Relaxed))
}

/// A store that has not yet connected.
fn store(url: &str, prefix: &str) -> RedisStore {
    let settings = RedisSettings::new(url).prefixed(prefix);
    RedisStore::new(&settings, Arc::new(SystemClock::start())).expect("an address")
}

/// A store of its own on the shared server.
fn shared(prefix: &str) -> RedisStore {
    let store = store(&SHARED.url(), prefix);
    on(store.ping()).expect("Redis answers");
    store
}

fn on<T>(future: impl Future<Output = T>) -> T {
    RUNTIME.block_on(future)
}

/// Gives up on an answer as an agent does.
fn impatiently<T>(future: impl Future<Output = Result<T, StoreError>>) -> Result<T, StoreError> {
    on(async { tokio::time::timeout(PATIENCE, future).await.unwrap_or(Err(StoreError::TimedOut)) })
}

fn wait_for_answer(store: &RedisStore) -> Timestamp {
    wait_for("Redis to answer", || impatiently(store.ping()).ok())
}

/// An enforced charge of 1 unit against so many in this window, by the server's own time.
fn ask_within(counter: u128, units: u64, width_ms: u64) -> Charge {
    let window = Window::with_default_sub_windows(width_ms).expect("a window");
    let counter = CounterId::from_u128(counter);
    Charge {
        counter,
        slot: HashSlotId::of(counter),
        request: None,
        limit: Limit { algorithm: Algorithm::SlidingWindow(Estimate::Conservative), units, window, burst: 0 },
        generation: 1,
        cost: 1,
        mode: ChargeMode::Enforce { expires_at: Timestamp::from_ms(u64::MAX) },
        budget: None,
    }
}

fn ask(counter: u128, units: u64) -> Charge {
    ask_within(counter, units, 60_000)
}

fn take(store: &RedisStore, one: &Charge) -> Result<ChargeResults, StoreError> {
    on(store.charge(std::slice::from_ref(one)))
}

/// Remaining units of a counter, read without a charge.
fn left(store: &RedisStore, one: &Charge) -> u64 {
    take(store, &Charge { cost: 0, ..one.clone() }).expect("Redis answers")[0].verdict.remaining
}

fn key(store: &RedisStore, counter: u128) -> String {
    let counter = CounterId::from_u128(counter);
    store.gathered().steps.counter(HashSlotId::of(counter), counter)
}

impl Loses for RedisStore {
    fn lose(&self, counter: CounterId) {
        let key = self.gathered().steps.counter(conformance::slot_of(counter), counter);
        let requests: Vec<_> = conformance::known_requests().map(|id| steps::request(&key, id)).collect();
        let keys: Vec<String> = requests.into_iter().chain([key]).collect();
        on(self.gathered().steps.connection.request::<()>(&redis::Cmd::del(keys))).expect("Redis answers");
    }
}

/// A store of its own on the shared server that goes by this clock.
fn by_hand(slots: HashSlots, clock: Arc<conformance::HandClock>) -> RedisStore {
    by_hand_on(&RedisSettings::new(&SHARED.url()).prefixed(own_prefix()), slots, clock)
}

fn by_hand_on(settings: &RedisSettings, slots: HashSlots, clock: Arc<conformance::HandClock>) -> RedisStore {
    let settings = settings.clone().with_slots(slots);
    let pace: Arc<dyn Clock> = Arc::new(SystemClock::start());
    let store = RedisStore::new(&settings, pace).expect("an address");
    let steps = store.gathered().steps.clone().at_test_time(clock);
    let store = RedisStore { servers: StepServers::One(GatheredSteps::new(steps, slots)), ..store };
    on(store.ping()).expect("Redis answers");
    store
}

/// J2: the limits of a region decide charges with a budget.
#[test]
fn it_is_a_store_of_a_region() {
    let region = |clock: Arc<conformance::HandClock>| {
        let mut store = by_hand(HashSlots::Together, clock.clone());
        // Also where every simple step shares a script.
        store.gathered_mut().shared_len_min = Some(1);
        let store = Arc::new(store);
        let steps = &store.gathered().steps;
        let settings = RedisSettings::new(&SHARED.url()).prefixed(&*steps.prefix);
        let limits = RegionLimits::on(steps.connection.clone(), &settings).at_test_time(clock);
        conformance::RegionUnderTest { limits: Arc::new(limits), store }
    };
    conformance::run_budgets(region);
    conformance::run_budget_histories(region);
}

/// A1, A9, A10, A12, B4: as every store.
#[test]
fn it_is_a_store() {
    conformance::run(conformance::Container::Remote, |clock| by_hand(HashSlots::Together, clock));
}

/// A1, A9, A10, A12, B4: as every store, by the script of many steps.
#[test]
fn it_is_a_store_of_many_steps() {
    conformance::run(conformance::Container::Remote, |clock| {
        let mut store = by_hand(HashSlots::Together, clock);
        store.gathered_mut().shared_len_min = Some(1);
        store
    });
}
