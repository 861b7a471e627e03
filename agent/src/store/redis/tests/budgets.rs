//! Limits of a region in Redis: foreign values, TTLs, and the server's time.

use tollgate_core::algorithm::{Algorithm, Limit};
use tollgate_core::clock::Timestamp;
use tollgate_core::counter::{Charge, CounterId, SlotId, StoreError};
use tollgate_core::regions::limit_store::LimitStore;
use tollgate_core::regions::stored_limit::{LimitWrite, StoredLimit};
use tollgate_redis::{RegionLimits, counter_key, floor_key, limit_key};

use super::{SHARED, ask, on, own_prefix, shared, take};

/// Time for which a limit is kept after its last write, in ms.
const DAY_MS: u64 = 86_400_000;
const COUNTER: CounterId = CounterId::from_u128(1);

/// H4: foreign values in place of limits are errors of their counters, and the next write replaces them.
#[test]
fn foreign_limits_are_errors_until_they_are_written_again() {
    let prefix = own_prefix();
    let store = shared(&prefix);
    let limits = RegionLimits::on(store.gathered.steps.connection.clone(), &prefix);
    let global = Charge { budget: Some("rule".into()), ..ask(1, 5) };
    let limit_key = limit_key(&counter_key(&prefix, SlotId::of(COUNTER)));
    let now = on(limits.time()).expect("Redis answers");
    let write = |units, until| LimitWrite {
        limit: StoredLimit { units, until, as_of: 1, ..StoredLimit::default() },
        seen: None,
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
        on(limits.write_floor("rule", &write(3, Timestamp::from_ms(u64::MAX)))).expect("Redis answers");
        let (at, answer) = on(limits.write_limit("rule", COUNTER, &write(4, now.plus_ms(60_000)))).expect("an answer");
        assert_eq!((answer.limit.units, answer.floor, at >= now), (4, 3, true));
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
    let limits = RegionLimits::on(store.gathered.steps.connection.clone(), &prefix);
    let key = counter_key(&prefix, SlotId::of(COUNTER));
    let write = LimitWrite { limit: StoredLimit::default(), seen: None };
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
