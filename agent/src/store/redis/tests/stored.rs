//! Values and keys in Redis, which other agents read.

use super::*;

const NOW: u64 = 1_000_000_000_000;

fn stored(store: &RedisStore, counter: u128) -> Vec<u8> {
    on(store.gathered().steps.connection.request(&redis::Cmd::get(key(store, counter)))).expect("Redis answers")
}

/// The script and the agent write the same bytes: what one has written, the other reads and writes unchanged.
#[test]
fn a_value_is_written_alike_by_script_and_agent() {
    let clock = Arc::new(conformance::HandClock::at(NOW));
    let store = by_hand(HashSlots::Together, clock.clone());
    for (counter, (algorithm, percent)) in (0..).zip(conformance::KINDS) {
        for quota in [100, 100_000, 1 << 40] {
            let counter = counter + 100 * u128::from(quota);
            let window = Window::new(60_000, if algorithm == Algorithm::FixedWindow { 1 } else { 12 });
            let burst = quota / 100 * percent;
            let limit = Limit { algorithm, units: quota, window: window.expect("a window"), burst };
            for (later_ms, percent) in [(0, 3), (11_000, 10), (12_000, 5), (52_000, 0)] {
                clock.set(NOW + later_ms);
                let is_log = matches!(algorithm, Algorithm::SlidingLog | Algorithm::Concurrency);
                // Of a long log the script cuts off the oldest entries now and then only.
                let cost = if is_log { percent } else { quota / 100 * percent };
                take(&store, &Charge { limit, cost, ..ask(counter, quota) }).expect("Redis answers");
            }
            let value = stored(&store, counter);
            let read = value::read(&value).expect("it is readable");
            assert_eq!((read.limit(), read.generation()), (limit, 1), "{algorithm:?}");
            assert!(value::write(&read, Timestamp::from_ms(NOW + 52_000)) == value, "{algorithm:?} {quota}: {value:?}");
        }
    }
}

/// A year fits into the value of any kind that may be so wide.
#[test]
fn a_window_may_be_a_year_wide() {
    let store = by_hand(HashSlots::Together, Arc::new(conformance::HandClock::at(NOW)));
    let year_ms = 366 * 24 * 3_600_000;
    let kinds = [
        Algorithm::SlidingWindow(Estimate::Interpolated),
        Algorithm::SlidingWindow(Estimate::Conservative),
        Algorithm::FixedWindow,
        Algorithm::TokenBucket,
        Algorithm::LeakyBucket,
    ];
    for (counter, algorithm) in (0..).zip(kinds) {
        let parts = if algorithm == Algorithm::FixedWindow { 1 } else { 12 };
        let burst = if matches!(algorithm, Algorithm::TokenBucket | Algorithm::LeakyBucket) { 10 } else { 0 };
        let limit = Limit { algorithm, units: 10, window: Window::new(year_ms, parts).expect("a window"), burst };
        let one = Charge { limit, ..ask(counter, 10) };
        assert!(take(&store, &Charge { cost: 8, ..one.clone() }).expect("Redis answers")[0].charged);
        assert_eq!(left(&store, &one), 2, "{algorithm:?}");
    }
}

/// A huge burst takes longer to refill than Redis accepts as a TTL: the step once failed for that, after it had written
/// other counters.
#[test]
fn a_burst_that_fills_for_ages_is_charged_like_any_other() {
    const BURST: u64 = 750_599_937_895_082;
    let huge = |counter: u128, algorithm, burst| {
        let limit = Limit { algorithm, burst, ..ask(counter, 1).limit };
        Charge { limit, ..ask(counter, 1) }
    };
    let clock = Arc::new(conformance::HandClock::at(NOW));
    let (store, pure) = (by_hand(HashSlots::Together, clock.clone()), MemoryStore::new(clock.clone()));
    let call = [
        ask(1, 10),
        Charge { cost: 700_000_000_000_000, ..huge(2, Algorithm::SlidingWindow(Estimate::Conservative), BURST) },
        Charge { cost: 100_000_000_000, ..huge(3, Algorithm::TokenBucket, 100_000_000_000) },
    ];
    for later_ms in [0, 1, 60_000, 3_600_000] {
        clock.set(NOW + later_ms);
        assert_eq!(on(store.charge(&call)), on(pure.charge(&call)), "{later_ms} ms later");
        let looks = call.each_ref().map(|take| Charge { cost: 0, ..take.clone() });
        assert_eq!(on(store.charge(&looks)), on(pure.charge(&looks)), "{later_ms} ms later");
    }
    for counter in [2, 3] {
        let ttl = SHARED.command(&format!("PTTL {}", key(&store, counter)));
        let ttl_ms: u64 = ttl.trim_start_matches(':').parse().expect("it has one");
        assert!((3_000_000_000_000..4_000_000_000_000).contains(&ttl_ms), "a hundred years: {ttl}");
    }
}

/// D5: counters of every kind and all keys beside them have a TTL.
#[test]
fn every_key_expires() {
    let redis = Redis::start();
    for slots in [HashSlots::Together, HashSlots::Multi] {
        let settings = RedisSettings::new(&redis.url()).prefixed(format!("{slots:?}:")).with_slots(slots);
        let store = RedisStore::new(&settings, Arc::new(SystemClock::start())).expect("an address");
        on(store.ping()).expect("Redis answers");
        for (counter, (algorithm, _)) in (0..).zip(conformance::KINDS) {
            let mut one = ask_within(counter, 10, 1_000);
            let window = if algorithm == Algorithm::FixedWindow {
                Window::new(1_000, 1).expect("a window")
            } else {
                one.limit.window
            };
            one.limit = Limit { algorithm, units: 10, window, burst: 10 };
            one.request = Some(conformance::REQUESTS[0]);
            let other = Charge { request: None, ..ask_within(100 + counter, 1_000, 1_000) };
            let soon = ChargeMode::Enforce { expires_at: on(store.ping()).expect("Redis answers").plus_ms(100) };
            let call = [Charge { mode: soon, ..one }, Charge { mode: soon, ..other }];
            assert!(on(store.charge(&call)).expect("Redis answers").iter().all(|taken| taken.charged));
        }
    }
    let info = redis.command("INFO keyspace");
    let (keys, expires) = info.split_once("keys=").and_then(|(_, rest)| rest.split_once(",expires=")).expect("keys");
    assert_eq!(Some(keys), expires.split(',').next(), "{info}");
    wait_for("all to be gone", || (redis.command("DBSIZE") == ":0").then_some(()));
}

/// D4: the counters of a call that share a slot have one slot of a cluster, and so have all keys beside them.
#[test]
fn counters_of_one_slot_share_a_hash_tag() {
    // The default port of the cluster's bus is one of outgoing connections.
    let bus_port = tollgate_servers::free_port().to_string();
    let redis = Redis::start_with(&["--cluster-enabled", "yes", "--cluster-port", &bus_port]);
    let store = store(&redis.url(), "tag:");
    let slot = HashSlotId::of(CounterId::from_u128(77));
    let place = |key: &str| redis.command(&format!("CLUSTER KEYSLOT {key}"));
    let (mut places, mut keys) = (Vec::new(), Vec::new());
    for counter in 70..80 {
        let counter = store.gathered().steps.counter(slot, CounterId::from_u128(counter));
        let beside = [steps::request(&counter, conformance::REQUESTS[0])];
        places.extend(beside.iter().chain([&counter]).map(|key| place(key)));
        keys.push(counter);
    }
    assert!(places[0].starts_with(':') && places.iter().all(|other| *other == places[0]), "{places:?}");
    keys.dedup();
    assert_eq!(keys.len(), 10, "each has a key of its own");
    let others: Vec<_> = (0..20).map(|counter| place(&key(&store, counter))).collect();
    assert!(others.iter().any(|other| *other != others[0]), "slots spread");
}

/// A request id is charged once within a window, by all agents together; then it is new.
#[test]
fn a_request_is_charged_once_by_all_agents() {
    let redis = Redis::start();
    let agents = [store(&redis.url(), "once:"), store(&redis.url(), "once:")];
    assert!(agents.iter().all(|agent| on(agent.ping()).is_ok()));
    let one = Charge { request: Some(conformance::REQUESTS[0]), ..ask_within(1, 2, 2_000) };
    let first = take(&agents[0], &one).expect("Redis answers")[0];
    let again = take(&agents[1], &one).expect("Redis answers")[0];
    assert_eq!((first.charged, first.repeated, again.charged, again.repeated), (true, false, true, true));
    assert_eq!(left(&agents[0], &ask_within(1, 2, 2_000)), 1);
    let again = wait_for("a window to pass", || take(&agents[1], &one).ok().filter(|taken| !taken[0].repeated));
    assert!(again[0].charged);
}
