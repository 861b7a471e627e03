//! Steps on a server: the requests they send, the clock they use, the keys they leave.

use std::io::{self, BufRead, BufReader, Write};
use std::net::TcpStream;
use std::sync::Mutex;

use super::*;

/// Commands that all clients sent while `during` ran, by MONITOR, without the commands inside scripts.
fn monitored(redis: &Redis, during: impl FnOnce()) -> Vec<String> {
    const END: &str = "the-end-of-it";
    let mut connection = TcpStream::connect(("127.0.0.1", redis.port())).expect("Redis listens");
    connection.write_all(b"MONITOR\r\n").expect("it is sent");
    let mut lines = BufReader::new(connection).lines().map(|line| line.expect("Redis goes on"));
    assert_eq!(lines.next().as_deref(), Some("+OK"));
    during();
    assert!(redis.command(&format!("ECHO {END}")).contains(END));
    lines.take_while(|line| !line.contains(END)).filter(|line| !line.contains(" lua]")).collect()
}

/// D1: one EVALSHA for each step of a check, for any number of counters.
#[test]
fn a_step_is_one_command() {
    let redis = Redis::start();
    for slots in [HashSlots::Together, HashSlots::Multi] {
        let settings = RedisSettings::new(&redis.url()).prefixed(format!("{slots:?}:")).with_slots(slots);
        let store = RedisStore::new(&settings, Arc::new(SystemClock::start())).expect("an address");
        on(store.ping()).expect("Redis answers");
        let beside = Charge { slot: HashSlotId::of(CounterId::from_u128(2)), ..ask(3, 30) };
        let mut sent = monitored(&redis, || {
            for call in 0..5 {
                let id = Some(RequestId::from_u128(call));
                let takes = [ask(1, 5), Charge { request: id, ..ask(2, 30) }, beside.clone()];
                assert!(on(store.charge(&takes)).expect("Redis answers")[0].charged);
            }
        });
        // Asked once after connecting, whether the server may evict.
        sent.retain(|line| !line.contains("\"INFO\""));
        assert_eq!(sent.len(), 5, "{sent:?}");
        assert!(sent.iter().all(|line| line.contains("\"EVALSHA\"")), "{sent:?}");
        let refused = on(store.charge(&[ask(1, 5), beside])).expect("Redis answers");
        assert!(refused.iter().all(|taken| !taken.charged));
    }
}

/// D2: a server that forgets its scripts under load fails no check.
#[test]
fn a_flushed_script_is_sent_again_unseen() {
    let redis = Redis::start();
    let store = Arc::new(store(&redis.url(), "flush:"));
    on(store.ping()).expect("Redis answers");
    let callers: Vec<_> = (0..8)
        .map(|caller| {
            let store = store.clone();
            RUNTIME.spawn(async move {
                for _ in 0..200 {
                    store.charge(&[ask(caller, 1_000)]).await.expect("no check fails");
                }
            })
        })
        .collect();
    let mut flushes = 0;
    while !callers.iter().all(tokio::task::JoinHandle::is_finished) {
        assert_eq!(redis.command("SCRIPT FLUSH"), "+OK");
        flushes += 1;
    }
    for caller in callers {
        on(caller).expect("no check fails");
    }
    assert!(flushes > 0);
    assert!((0..8).all(|caller| left(&store, &ask(caller, 1_000)) == 800), "each was charged once");
}

/// B2, B4: two agents on one Redis, one unit left, 1000 racing calls: one passes.
#[test]
fn the_last_unit_goes_to_one_of_two_agents() {
    let prefix = own_prefix();
    let agents = [Arc::new(shared(&prefix)), Arc::new(shared(&prefix))];
    let calls: Vec<_> = (0..1_000)
        .map(|call| {
            let agent = agents[call % 2].clone();
            RUNTIME.spawn(async move { agent.charge(&[ask(1, 1)]).await.expect("Redis answers")[0].charged })
        })
        .collect();
    let passed = calls.into_iter().map(|call| on(call).expect("a call ends")).filter(|passed| *passed);
    assert_eq!(passed.count(), 1);
}

/// D5: every key has a TTL, and is gone when it would be idle.
#[test]
fn what_is_idle_is_gone() {
    let redis = Redis::start();
    let store = store(&redis.url(), "ttl:");
    on(store.ping()).expect("Redis answers");
    let log = |mut take: Charge| {
        take.limit.algorithm = Algorithm::SlidingLog;
        take
    };
    for counter in 0..50 {
        take(&store, &ask_within(counter, 2, 1_000)).expect("Redis answers");
        take(&store, &log(ask_within(100 + counter, 2, 1_000))).expect("Redis answers");
        // Long enough to be appended to.
        take(&store, &Charge { cost: 300, ..log(ask_within(200, 10_000, 1_000)) }).expect("Redis answers");
    }
    let info = redis.command("INFO keyspace");
    assert!(info.contains("keys=101,expires=101,"), "{info}");
    wait_for("all to be gone", || (redis.command("DBSIZE") == ":0").then_some(()));
    assert_eq!(left(&store, &ask_within(1, 2, 1_000)), 2);
}

/// D8: stores with different prefixes share a Redis and nothing else.
#[test]
fn a_prefix_is_a_namespace() {
    let (one, other) = (shared(&own_prefix()), shared(&own_prefix()));
    assert!(take(&one, &ask(1, 1)).expect("Redis answers")[0].charged);
    assert!(take(&other, &ask(1, 1)).expect("Redis answers")[0].charged);
    let key = format!("{}{{00000000000000000000000000000001}}", one.gathered().steps.prefix);
    assert_eq!(SHARED.command(&format!("EXISTS {key}")), ":1", "the digest is the hash tag");
}

#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().expect("nobody died").write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// D8: a store warns at connection about a server that may evict, and only about such a one.
#[test]
fn a_server_that_may_evict_is_warned_of() {
    let evicting = Redis::start_with(&["--maxmemory", "100mb", "--maxmemory-policy", "allkeys-lru"]);
    let log = Log::default();
    let subscriber = tracing_subscriber::fmt().with_ansi(false).with_writer({
        let log = log.clone();
        move || log.clone()
    });
    let subscriber = subscriber.finish();
    let warnings = || {
        let log = String::from_utf8(log.0.lock().expect("nobody died").clone()).expect("UTF-8");
        log.lines().filter(|line| line.contains("WARN")).map(str::to_owned).collect::<Vec<_>>()
    };
    // All that a store does is then done on this thread, whose log is looked at.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    tracing::subscriber::with_default(subscriber, || {
        let (harmless, warned_of) = (store(&SHARED.url(), "evict:"), store(&evicting.url(), "evict:"));
        for store in [&harmless, &warned_of] {
            wait_for("Redis to answer", || runtime.block_on(store.ping()).ok());
        }
        let warning = wait_for("a warning", || {
            runtime.block_on(warned_of.ping()).expect("Redis answers");
            warnings().pop()
        });
        assert!(warning.contains("maxmemory-policy allkeys-lru"), "{warning}");
        assert!(warning.contains(&evicting.url()), "it says where: {warning}");
        // Answers come in the order of the questions, so what the other one answered about its memory has been read.
        runtime.block_on(harmless.ping()).expect("Redis answers");
        assert_eq!(warnings(), [warning]);
    });
}

/// D7: the address may be a Unix socket.
#[test]
fn it_may_be_reached_over_a_unix_socket() {
    let path = std::env::temp_dir().join(format!("tollgate-socket-{}", std::process::id()));
    let redis = Redis::start_with(&["--unixsocket", &path.display().to_string()]);
    let store = store(&format!("unix://{}", path.display()), "socket:");
    on(store.ping()).expect("Redis answers");
    assert!(take(&store, &ask(1, 1)).expect("Redis answers")[0].charged);
    drop(redis);
}

#[test]
fn an_evaluation_charges_nothing_and_creates_no_counter() {
    for slots in [HashSlots::Together, HashSlots::Multi] {
        let store = by_hand(slots, Arc::new(conformance::HandClock::at(1_000_000_000_000)));
        let mode = ChargeMode::Evaluate { expires_at: Timestamp::from_ms(u64::MAX) };
        let evaluated = [1, 2].map(|counter| Charge { mode, ..ask(counter, 10) });
        let results = on(store.charge(&evaluated)).expect("Redis answers");
        assert!(results.iter().all(|result| result.verdict.remaining == 9 && !result.charged), "{results:?}");
        assert_eq!(SHARED.command(&format!("EXISTS {} {}", key(&store, 1), key(&store, 2))), ":0");
    }
}
