//! Servers that are unavailable, stopped, full, or refuse: never a denial, and never a charge for an expired call.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::atomic::AtomicBool;

use super::*;

fn connections_received(redis: &Redis) -> u64 {
    let info = redis.command("INFO stats");
    let line = info.lines().find_map(|line| line.strip_prefix("total_connections_received:"));
    line.and_then(|count| count.trim().parse().ok()).expect("a number")
}

/// Waits by the system's clock.
fn wait_until(at: Timestamp) {
    let clock = SystemClock::start();
    wait_for("time to pass", || (clock.now() > at).then_some(()));
}

#[test]
fn a_store_starts_without_a_server() {
    let mut redis = Redis::start();
    redis.kill();
    let store = store(&redis.url(), "start:");
    assert_eq!(take(&store, &ask(1, 1)), Err(StoreError::Unreachable));
    assert_eq!(impatiently(store.ping()), Err(StoreError::Unreachable));
    redis.restart();
    wait_for_answer(&store);
    assert!(take(&store, &ask(1, 1)).expect("Redis answers")[0].charged);
}

/// D9, I10: a Redis that was killed comes back empty, and is asked again.
#[test]
fn a_killed_server_is_found_again() {
    let mut redis = Redis::start();
    let store = store(&redis.url(), "kill:");
    wait_for_answer(&store);
    assert!(take(&store, &ask(1, 1)).expect("Redis answers")[0].charged);
    redis.kill();
    // Charges wait for the next connection, which a ping makes.
    wait_for("the loss to be noticed", || {
        let pinged = impatiently(store.ping());
        let charged = impatiently(store.charge(&[ask(1, 1)]));
        (pinged.is_err() && charged == Err(StoreError::Unreachable)).then_some(())
    });
    redis.restart();
    wait_for_answer(&store);
    assert!(take(&store, &ask(1, 1)).expect("Redis answers")[0].charged);
}

/// I8: a fail-over behind a name leaves the connections to the old primary open. The store leaves it, and its next connection finds
/// the new primary.
#[test]
fn a_primary_that_became_a_replica_is_left() {
    let (old, new, name) = (Redis::start(), Redis::start(), Proxy::start());
    name.forward_to(old.port());
    let store = store(&format!("redis://127.0.0.1:{}", name.port()), "failover:");
    wait_for_answer(&store);
    assert!(take(&store, &ask(1, 1)).expect("Redis answers")[0].charged);
    let _ = old.command(&format!("REPLICAOF 127.0.0.1 {}", new.port()));
    // The name leads to the old primary for a while: each connection is refused, and the next one is tried, after pauses.
    let (connections, clock) = (connections_received(&old), SystemClock::start());
    let until = clock.now().plus_ms(3_000);
    wait_for("a while of refusals", || {
        assert!(impatiently(store.charge(&[ask(2, 1)])).is_err(), "a replica charges nothing");
        let _ = impatiently(store.ping());
        (clock.now() > until).then_some(())
    });
    let connections = connections_received(&old) - connections;
    assert!((4..=10).contains(&connections), "{connections} connections in 3 s");
    name.forward_to(new.port());
    let moved_at = clock.now();
    wait_for("a charge at the new primary", || {
        let _ = impatiently(store.ping());
        impatiently(store.charge(&[ask(3, 1)])).ok()?[0].charged.then_some(())
    });
    let left_after_ms = clock.now().ms_since(moved_at);
    assert!(left_after_ms < 1_000, "the old primary is left after {left_after_ms} ms");
    assert!(new.command("KEYS failover:*").contains("failover:"), "it is charged there");
}

/// I6: a stopped Redis runs all waiting requests when it continues; expired calls charge nothing.
#[test]
fn charges_that_a_stopped_server_reads_too_late_charge_nothing() {
    let redis = Redis::start();
    let store = store(&redis.url(), "stop:");
    let now = wait_for_answer(&store);
    assert_eq!(left(&store, &ask(1, 100)), 100);
    redis.pause();
    let expires_at = now.plus_ms(1_500);
    let late = Charge { mode: ChargeMode::Enforce { expires_at }, ..ask(1, 100) };
    for _ in 0..20 {
        assert_eq!(impatiently(store.charge(std::slice::from_ref(&late))), Err(StoreError::TimedOut));
    }
    wait_until(expires_at.plus_ms(1_000));
    redis.resume();
    wait_for_answer(&store);
    let stats = redis.command("INFO commandstats");
    let calls =
        stats.lines().find_map(|line| line.strip_prefix("cmdstat_evalsha:calls=")?.split(',').next()?.parse().ok());
    assert!(calls.is_some_and(|calls: u32| calls >= 20), "they were read: {stats}");
    assert_eq!(left(&store, &ask(1, 100)), 100);
}

/// A stopped server accepts nothing; attempts must not fill its backlog, and the old socket serves when it continues.
#[test]
fn a_stopped_server_is_not_flooded() {
    let redis = Redis::start();
    let store = store(&redis.url(), "flood:");
    let now = wait_for_answer(&store);
    let before = connections_received(&redis);
    redis.pause();
    let clock = SystemClock::start();
    wait_for("a while of pings", || {
        assert!(impatiently(store.ping()).is_err());
        (clock.now() > now.plus_ms(3_000)).then_some(())
    });
    redis.resume();
    wait_for_answer(&store);
    let received = connections_received(&redis) - before;
    assert!(received <= 6, "{received} connections in 3 s");
}

/// A proxy between a store and a Redis that can swallow the bytes of all connections so far.
fn proxy(redis: &Redis, swallow: Arc<AtomicBool>) -> String {
    let (listener, url) = listener();
    accept(listener, redis.port(), swallow);
    url
}

fn pass(mut from: TcpStream, mut to: TcpStream, swallow: &AtomicBool) {
    let mut bytes = [0; 4096];
    while let Ok(len @ 1..) = from.read(&mut bytes) {
        if !swallow.load(Ordering::Relaxed) && to.write_all(&bytes[..len]).is_err() {
            break;
        }
    }
    let _ = to.shutdown(Shutdown::Both);
}

/// A port that accepts no connection yet, and its address as that of a Redis.
fn listener() -> (TcpListener, String) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let url = format!("redis://{}", listener.local_addr().expect("it is bound"));
    (listener, url)
}

fn accept(listener: TcpListener, port: u16, swallow: Arc<AtomicBool>) {
    std::thread::spawn(move || {
        for client in listener.incoming().flatten() {
            let server = TcpStream::connect(("127.0.0.1", port)).expect("Redis listens");
            let copies = (client.try_clone().expect("a copy"), server.try_clone().expect("a copy"));
            let swallow = if swallow.load(Ordering::Relaxed) { Arc::default() } else { swallow.clone() };
            std::thread::spawn(move || pass(client, server, &swallow));
            std::thread::spawn(move || pass(copies.1, copies.0, &AtomicBool::new(false)));
        }
    });
}

/// no-wait, I10: a charge and a ping that come while the first connection is being made wait for its end.
#[test]
fn what_comes_before_the_first_connection_waits_for_it() {
    let redis = Redis::start();
    let (listener, url) = listener();
    let store = store(&url, "early:");
    let early = [ask(1, 1)];
    // In the order of the first polls: the charge comes first, and the server answers last.
    let (charged, pinged, joined, ()) = on(async {
        tokio::join!(store.charge(&early), store.ping(), store.ping(), async {
            tokio::task::yield_now().await;
            accept(listener, redis.port(), Arc::default());
        })
    });
    assert!(charged.expect("it is sent on the connection")[0].charged);
    assert!(pinged.is_ok() && joined.is_ok(), "{pinged:?} {joined:?}");
}

#[test]
fn a_connection_that_swallows_everything_is_replaced() {
    let (redis, swallow) = (Redis::start(), Arc::new(AtomicBool::new(false)));
    let store = store(&proxy(&redis, swallow.clone()), "hole:");
    wait_for_answer(&store);
    swallow.store(true, Ordering::Relaxed);
    assert_eq!(impatiently(store.charge(&[ask(1, 1)])), Err(StoreError::TimedOut));
    assert_eq!(impatiently(store.ping()), Err(StoreError::TimedOut));
    wait_for_answer(&store);
    assert!(take(&store, &ask(1, 1)).expect("Redis answers")[0].charged);
}

#[test]
fn a_wrong_password_is_an_error_and_no_denial() {
    let redis = Redis::start_with(&["--requirepass", "secret"]);
    for (user, remedied) in [("", false), (":wrong@", false), (":secret@", true)] {
        let store = store(&redis.url().replace("://", &format!("://{user}")), "auth:");
        let pinged = on(store.ping());
        assert_eq!(pinged.err(), (!remedied).then_some(StoreError::Refused));
        assert!(!store.address().contains("secret") && !store.address().contains("wrong"));
        let taken = take(&store, &ask(1, 10));
        assert_eq!(taken.is_ok(), remedied, "{taken:?}");
    }
}

#[test]
fn a_foreign_value_is_an_error_of_this_counter_alone() {
    let store = shared(&own_prefix());
    for (counter, write) in [
        (1, "SET KEY hello"),
        (2, "SET KEY 0123456789012345678901234567890123"),
        (3, "RPUSH KEY a"),
        (4, "SET KEY (aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"),
    ] {
        let key = key(&store, counter);
        assert!(!SHARED.command(&write.replace("KEY", &key)).starts_with('-'));
        assert_eq!(take(&store, &ask(counter, 1)), Err(StoreError::Unreadable), "{write}");
        assert_eq!(on(store.charge(&[ask(9, 1), ask(counter, 1)])), Err(StoreError::Unreadable), "{write}");
    }
    assert_eq!(left(&store, &ask(9, 1)), 1, "a call that failed charged nothing");
}

#[test]
fn a_full_server_says_so_and_charges_nothing() {
    let redis = Redis::start();
    let store = store(&redis.url(), "full:");
    on(store.ping()).expect("Redis answers");
    assert!(take(&store, &ask(1, 10)).expect("Redis answers")[0].charged);
    assert_eq!(redis.command("CONFIG SET maxmemory 1"), "+OK");
    assert_eq!(on(store.charge(&[ask(1, 10), ask(2, 10)])), Err(StoreError::Full));
    assert!(on(store.ping()).is_ok());
    assert_eq!(redis.command("CONFIG SET maxmemory 0"), "+OK");
    assert_eq!([left(&store, &ask(1, 10)), left(&store, &ask(2, 10))], [9, 10]);
}

#[test]
fn a_replica_is_a_refusal() {
    let redis = Redis::start();
    let store = store(&redis.url(), "replica:");
    on(store.ping()).expect("Redis answers");
    assert_eq!(redis.command("REPLICAOF 127.0.0.1 1"), "+OK");
    assert_eq!(take(&store, &ask(1, 1)), Err(StoreError::Refused));
    assert_eq!(redis.command("REPLICAOF NO ONE"), "+OK");
    // The connection was replaced.
    wait_for_answer(&store);
    assert!(take(&store, &ask(1, 1)).expect("Redis answers")[0].charged);
}

/// Time in which every call past the cap is answered, however busy the machine is.
const LONG_PATIENCE: Duration = Duration::from_secs(2);

/// capped: past the cap calls are answered at once, and nothing is sent.
#[test]
fn what_is_in_flight_is_capped() {
    let redis = Redis::start();
    let store = Arc::new(store(&redis.url(), "cap:"));
    wait_for_answer(&store);
    redis.pause();
    let calls = 11_000;
    let answers = on(async {
        // Calls on one counter would share a charge.
        let call = |store: Arc<RedisStore>, counter| async move {
            tokio::time::timeout(LONG_PATIENCE, store.charge(&[ask(counter, 1)]))
                .await
                .unwrap_or(Err(StoreError::TimedOut))
                .err()
        };
        let calls: Vec<_> = (0..calls).map(|counter| tokio::spawn(call(store.clone(), counter))).collect();
        let mut answers = Vec::new();
        for call in calls {
            answers.push(call.await.expect("a call ends"));
        }
        answers
    });
    let busy = answers.iter().filter(|answer| **answer == Some(StoreError::Busy)).count();
    assert!((500..=1_500).contains(&busy), "{busy} of {calls} were too many");
    redis.resume();
    wait_for_answer(&store);
    wait_for("room", || impatiently(store.charge(&[ask(2, 10)])).ok());
}
