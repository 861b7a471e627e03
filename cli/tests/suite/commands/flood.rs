//! Floods of invented callers: limits during a flood past the cap on counters, and memory after it.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use tollgate_core::clock::Stopwatch;
use tollgate_servers::scaled;

use crate::support::{Client, Up, tollgate, wait_for};

/// Callers of the full test.
const CALLERS: u64 = 1_000_000;
const CONNECTIONS: usize = 4;
/// Number of requests that a connection sends before it reads the answers.
const PIPELINED: usize = 100;
/// Maximum resident memory of a process that was flooded, in bytes: a base, in which the sums of the last minutes are, and a part per
/// caller of the flood.
const RESIDENT_MAX: u64 = 120_000_000;
const RESIDENT_PER_CALLER_MAX: u64 = 30;
/// Maximum time from the sweep of the last counter until the memory is returned.
const RETURN_WAIT: Duration = Duration::from_mins(1);
/// Length of the full flood past the cap.
const FLOOD_S: u64 = 600;
/// Honest newcomers at one call per second.
const NEWCOMERS: u64 = 20;
/// Default memory of a sketch.
const SKETCH_BYTES_MAX: u64 = 64 << 20;

/// Returns the sum of the series of a metric.
pub(super) fn metric(client: &mut Client, name: &str) -> u64 {
    let metrics = client.get("/metrics", &[]);
    let series = metrics.text().lines().filter(|line| line.split(['{', ' ']).next() == Some(name));
    series.map(|line| line.rsplit(' ').next().unwrap().parse::<u64>().unwrap()).sum()
}

fn agent(limit: &str, counters_max: &str) -> Up {
    let args = ["agent", "--http", "127.0.0.1:0", "--node", "gw-1", "--limit", limit, "--counters-max", counters_max];
    Up::of(&mut tollgate(&args))
}

/// Sends calls of callers with these numbers, each one once.
fn invent(client: &mut Client, callers: impl ExactSizeIterator<Item = u64>) {
    let len = callers.len();
    for caller in callers {
        client.write(&format!("GET /check HTTP/1.1\r\nhost: t\r\nx-api-key: invented-{caller}\r\n\r\n"));
    }
    for _ in 0..len {
        client.receive();
    }
}

/// Ends the process, and returns the numbers of its log lines about the begin and the end of the use of the sketch.
fn told(up: Up, counters_max: &str) -> (usize, usize) {
    up.signal("TERM");
    let log = up.end().1;
    let count = |text: &str| log.lines().filter(|line| line.contains(text) && line.contains("gw-1")).count();
    let full = format!("the table of {counters_max} counters is full: new callers are limited by a sketch");
    (count(&full), count("the table of counters has room again"))
}

/// K5: invented callers come for ten minutes as fast as the process answers. Meanwhile honest newcomers at one call per
/// second pass at 99%, callers known before stay limited, and memory stays within its caps. The log tells once that the
/// cap is reached. The rate of 20,000 per second is that of the simulation (`experiments/sim/tests/suite/flood.rs`).
#[test]
fn honest_newcomers_pass_while_a_process_is_flooded() {
    let up = agent("1000/24h per api_key", "10000");
    let mut client = up.client();
    let known = |number: u64| format!("known-{}", number % 3);
    for number in 0..3 {
        let body = format!(r#"{{"descriptors": {{"api_key": "{}"}}, "cost": 1000}}"#, known(number));
        assert_eq!(client.post(&body).status, 200);
    }
    let (is_over, invented) = (AtomicBool::new(false), AtomicU64::new(0));
    let (mut calls, mut passed) = (0, 0);
    std::thread::scope(|scope| {
        for _ in 0..2 {
            let mut client = up.client();
            let (is_over, invented) = (&is_over, &invented);
            scope.spawn(move || {
                while !is_over.load(Ordering::Relaxed) {
                    let first = invented.fetch_add(PIPELINED as u64, Ordering::Relaxed);
                    invent(&mut client, (0..PIPELINED).map(|number| first + number as u64));
                }
            });
        }
        wait_for("a full table", || (metric(&mut client, "tollgate_table_full") == 1).then_some(()));
        let began = Stopwatch::start();
        for second in 0..scaled(FLOOD_S) {
            for newcomer in 0..NEWCOMERS {
                calls += 1;
                passed += u64::from(client.check(&format!("newcomer-{newcomer}")).status == 200);
            }
            assert_eq!(client.check(&known(second)).status, 429, "a caller known before, in second {second}");
            let held = ["tollgate_counters", "tollgate_sketch_bytes"].map(|name| metric(&mut client, name));
            assert!(held[0] <= 10_002 && (1..=SKETCH_BYTES_MAX).contains(&held[1]), "{held:?}");
            std::thread::sleep(Duration::from_secs(second + 1).saturating_sub(began.elapsed()));
        }
        is_over.store(true, Ordering::Relaxed);
    });
    let invented = invented.into_inner();
    println!("{invented} invented callers in {} s: {passed} of {calls} calls of newcomers passed", scaled(FLOOD_S));
    assert!(passed * 100 >= calls * 99, "{passed} of {calls} calls of newcomers passed");
    assert!(metric(&mut client, "tollgate_sketch_charges_total") > invented - 11_000, "each was counted by the sketch");
    let greedy = (0..1_100).filter(|_| client.check("greedy").status == 200).count();
    assert!((900..=1_000).contains(&greedy), "a newcomer has its quota and no more: {greedy}");
    assert_eq!(told(up, "10000"), (1, 0));
}

/// `capped`: when the callers of a flood have left, metrics show that the memory of the sketch is returned, and
/// newcomers have counters of their own. The begin and the end are one line each, however many callers came.
#[test]
fn a_process_leaves_the_sketch_once_and_says_so() {
    let up = agent("10/s per api_key", "1000");
    let mut client = up.client();
    let mut shown = |name: &str| metric(&mut client, name);
    (0..50).for_each(|hundred| invent(&mut up.client(), (0..PIPELINED).map(|caller| 100 * hundred + caller as u64)));
    assert_eq!(shown("tollgate_table_full"), 1);
    assert!((1..=SKETCH_BYTES_MAX).contains(&shown("tollgate_sketch_bytes")) && shown("tollgate_counters") <= 1_002);
    let charged = shown("tollgate_sketch_charges_total");
    assert!((3_000..=5_000).contains(&charged), "{charged}");
    wait_for("room in the table", || (shown("tollgate_table_full") == 0).then_some(()));
    assert_eq!(shown("tollgate_sketch_bytes"), 0);
    invent(&mut up.client(), (0..10).map(|caller: usize| caller as u64));
    assert_eq!(shown("tollgate_sketch_charges_total"), charged);
    assert_eq!(told(up, "1000"), (1, 1));
}

/// `capped`: once agent and aggregator have swept the counters of a flood, the process has returned their memory: 150 MB for
/// a million callers.
#[test]
fn memory_returns_to_the_system_after_a_flood() {
    let up = Up::start(&["--limit", "100/s per api_key"]);
    let callers = scaled(CALLERS);
    std::thread::scope(|scope| {
        for connection in 0..CONNECTIONS {
            let mut client = up.client();
            scope.spawn(move || {
                let own: Vec<u64> = (0..callers).skip(connection).step_by(CONNECTIONS).collect();
                own.chunks(PIPELINED).for_each(|callers| invent(&mut client, callers.iter().copied()));
            });
        }
    });
    let mut client = up.client();
    let counted = ["tollgate_counters", "tollgate_aggregator_counters"];
    wait_for("the aggregator to count them", || {
        (metric(&mut client, "tollgate_aggregator_rows_total") > callers / 2).then_some(())
    });
    wait_for("agent and aggregator to sweep", || {
        (counted.map(|name| metric(&mut client, name)) == [0, 0]).then_some(())
    });
    let swept = Stopwatch::start();
    let max = RESIDENT_MAX + RESIDENT_PER_CALLER_MAX * callers;
    let mut resident = || metric(&mut client, "process_resident_memory_bytes");
    wait_for("the memory to be returned", || (resident() < max).then_some(()));
    assert!(swept.elapsed() < RETURN_WAIT, "the memory was returned after {:?}", swept.elapsed());
}
