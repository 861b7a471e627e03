//! Limits of a region in Redis: foreign values, TTLs, the server's time, and the digest key of the region.

use std::sync::Arc;

use tollgate_core::algorithm::{Algorithm, Limit};
use tollgate_core::clock::Timestamp;
use tollgate_core::counter::{Charge, CounterId, DigestKey, HashSlotId, StoreError};
use tollgate_core::regions::limit_store::LimitStore;
use tollgate_core::regions::stored_limit::{LimitWrite, StoredLimit};
use tollgate_redis::{RedisSettings, RegionLimits, counter_key, floor_key, key_claim_key, limit_key};

use super::{HashSlots, SHARED, ask, ask_within, by_hand_on, on, own_prefix, shared, take};
use crate::store::conformance::HandClock;
use crate::store::{ChargeStore, RedisStore};

/// Time for which a limit is kept after its last write, in ms.
const DAY_MS: u64 = 86_400_000;
const COUNTER: CounterId = CounterId::from_u128(1);

/// Returns the limits of a region whose counters are in this store.
fn limits_beside(store: &RedisStore) -> RegionLimits {
    let settings = RedisSettings::new(&SHARED.url()).prefixed(&*store.gathered().steps.prefix);
    RegionLimits::on(store.gathered().steps.connection.clone(), &settings)
}

/// H4: foreign values in place of limits are errors of their counters, and the next write replaces them.
#[test]
fn foreign_limits_are_errors_until_they_are_written_again() {
    let prefix = own_prefix();
    let store = shared(&prefix);
    let limits = limits_beside(&store);
    let global = Charge { budget: Some("rule".into()), ..ask(1, 5) };
    let limit_key = limit_key(&counter_key(&prefix, HashSlotId::of(COUNTER)));
    let now = on(limits.time()).expect("Redis answers");
    let write = |units, until| LimitWrite {
        limit: StoredLimit { units, until, window_ms: 60_000, as_of: 1, ..StoredLimit::default() },
        ..LimitWrite::default()
    };
    for (key, foreign) in [
        (&limit_key, "SET KEY junk"),
        (&limit_key, "RPUSH KEY junk"),
        (&floor_key(&prefix, "rule"), "SET KEY junk"),
        (&floor_key(&prefix, "rule"), "HSET KEY a b"),
    ] {
        assert!(!SHARED.command(&format!("DEL {key}")).starts_with('-'));
        assert!(!SHARED.command(&foreign.replace("KEY", key)).starts_with('-'), "{foreign}");
        assert_eq!(take(&store, &global).map(|_| ()), Err(StoreError::Unreadable), "{foreign} at {key}");
        assert!(take(&store, &ask(2, 5)).is_ok(), "other counters are not concerned");
        if *key == limit_key {
            assert_eq!(on(store.limit_view(COUNTER)), None, "{foreign}");
        }
        on(limits.write_floor("rule", &write(3, Timestamp::from_ms(u64::MAX)))).expect("Redis answers");
        let (at, answer) = on(limits.write_limit("rule", COUNTER, &write(4, now.plus_ms(60_000)))).expect("an answer");
        assert_eq!((answer.limit.units, answer.floor, at >= now), (4, 3, true));
        let view = on(store.limit_view(COUNTER)).expect("a limit");
        assert!(
            view.age_ms.is_some_and(|age_ms| age_ms >= now.as_ms()),
            "asked for at the start of its time: {view:?}"
        );
        assert_eq!(take(&store, &global).map(|results| results[0].limit), Ok(7), "{foreign} at {key}");
    }
    assert_eq!(SHARED.command(&format!("PTTL {}", floor_key(&prefix, "rule"))), ":-1", "a floor does not expire");
    let ttl_ms: u64 = SHARED.command(&format!("PTTL {limit_key}"))[1..].parse().expect("a TTL");
    assert!((DAY_MS - 30_000..=DAY_MS).contains(&ttl_ms), "{ttl_ms}");
}

/// A foreign value under the counter's key tells no count, so no give-back may rely on one.
#[test]
fn the_units_of_a_foreign_value_are_unknown() {
    let prefix = own_prefix();
    let store = shared(&prefix);
    let limits = limits_beside(&store);
    let key = counter_key(&prefix, HashSlotId::of(COUNTER));
    let write = LimitWrite { limit: StoredLimit::default(), ..LimitWrite::default() };
    let used = || on(limits.write_limit("rule", COUNTER, &write)).expect("Redis answers").1.used;
    assert_eq!(used(), 0);
    assert_eq!(SHARED.command(&format!("SET {key} junk")), "+OK");
    assert_eq!(used(), u64::MAX);
    assert_eq!(SHARED.command(&format!("DEL {key}")), ":1");
    let of_bucket = ask(1, 5);
    let limit = Limit { algorithm: Algorithm::TokenBucket, burst: 5, ..of_bucket.limit };
    assert!(take(&store, &Charge { limit, ..of_bucket.clone() }).is_ok());
    assert_eq!(used(), u64::MAX, "a level is no count");
    assert!(take(&store, &Charge { generation: 2, ..of_bucket }).is_ok());
    assert!((2..100).contains(&used()), "the charge by other rules has converted the counter");
}

/// J3: agents with another digest key would spend the region's budget once more, because their counters have other names. The first
/// key holds the region until nobody has used it for two windows.
#[test]
fn one_digest_key_holds_the_region() {
    const WINDOW_MS: u64 = 10_000;
    let clock = Arc::new(HandClock::at(1_000_000));
    let settings = RedisSettings::new(&SHARED.url()).prefixed(own_prefix());
    let keys = [DigestKey::default(), DigestKey::new([7; 16])].map(|key| settings.clone().with_digest_key(&key));
    let stores = keys.each_ref().map(|settings| by_hand_on(settings, HashSlots::Together, clock.clone()));
    let limits = [0, 1].map(|key| {
        RegionLimits::on(stores[key].gathered().steps.connection.clone(), &keys[key]).at_test_time(clock.clone())
    });
    let charge = |key: usize| Charge { budget: Some("rule".into()), ..ask_within(key as u128, 5, WINDOW_MS) };
    let admitted = |key: usize| {
        let result = take(&stores[key], &charge(key)).expect("Redis answers")[0];
        (result.charged, result.limit)
    };
    let limit = StoredLimit { units: 6, window_ms: WINDOW_MS, as_of: 1, ..StoredLimit::default() };
    let floor = LimitWrite { limit, ..LimitWrite::default() };
    let write = |key: usize| on(limits[key].write_floor("rule", &floor)).map(|(_, floor)| floor.units);
    assert_eq!((admitted(0), admitted(1)), ((true, 5), (false, 0)));
    assert_eq!((write(0), write(1)), (Ok(6), Err(StoreError::Refused)));
    assert!(take(&stores[1], &ask(9, 5)).expect("Redis answers")[0].charged, "rules of one region do not depend on it");
    clock.set(1_000_000 + 4 * WINDOW_MS);
    assert_eq!((admitted(0), admitted(1)), ((true, 6), (false, 0)), "the first key is still in use");
    // The store forgets the claim by its own clock.
    assert_eq!(SHARED.command(&format!("PEXPIRE {} 0", key_claim_key(&settings.prefix))), ":1");
    assert_eq!((admitted(1), admitted(0)), ((true, 6), (false, 0)));
    assert_eq!(SHARED.command(&format!("DEL {}", key_claim_key(&settings.prefix))), ":1");
    assert_eq!((write(0), admitted(1)), (Ok(6), (false, 0)), "an aggregator claims the region, too");
    let ttl_ms =
        || -> u64 { SHARED.command(&format!("PTTL {}", key_claim_key(&settings.prefix)))[1..].parse().expect("a TTL") };
    assert!(ttl_ms() <= 15_000);
    assert_eq!(admitted(0), (true, 6));
    assert!((2 * WINDOW_MS..=3 * WINDOW_MS).contains(&ttl_ms()), "two windows at least: {}", ttl_ms());
}
