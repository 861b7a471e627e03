//! Memory of a process after a flood of invented callers.

use std::time::Duration;

use tollgate_core::clock::Stopwatch;
use tollgate_experiments::size::scaled;

use crate::support::{Client, Up, wait_for};

/// Callers of the full test.
const CALLERS: u64 = 1_000_000;
const CONNECTIONS: usize = 4;
/// Number of requests that a connection sends before it reads the answers.
const PIPELINED: usize = 100;
/// Maximum resident memory of a process that was flooded, in bytes: a base, and a part per caller of the flood.
const RESIDENT_MAX: u64 = 50_000_000;
const RESIDENT_PER_CALLER_MAX: u64 = 100;
/// Maximum time from the sweep of the last counter until the memory is returned.
const RETURN_WAIT: Duration = Duration::from_mins(1);

/// Returns the sum of the series of a metric.
fn metric(client: &mut Client, name: &str) -> u64 {
    let metrics = client.get("/metrics", &[]);
    let series = metrics.text().lines().filter(|line| line.split(['{', ' ']).next() == Some(name));
    series.map(|line| line.rsplit(' ').next().unwrap().parse::<u64>().unwrap()).sum()
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
                for callers in own.chunks(PIPELINED) {
                    for caller in callers {
                        client
                            .write(&format!("GET /check HTTP/1.1\r\nhost: t\r\nx-api-key: invented-{caller}\r\n\r\n"));
                    }
                    for _ in callers {
                        client.receive();
                    }
                }
            });
        }
    });
    let mut client = up.client();
    let counted = ["tollgate_counters", "tollgate_aggregator_counters"];
    assert!(metric(&mut client, counted[1]) > callers / 2, "the aggregator has counted them");
    wait_for("agent and aggregator to sweep", || {
        (counted.map(|name| metric(&mut client, name)) == [0, 0]).then_some(())
    });
    let swept = Stopwatch::start();
    let max = RESIDENT_MAX + RESIDENT_PER_CALLER_MAX * callers;
    let mut resident = || metric(&mut client, "process_resident_memory_bytes");
    wait_for("the memory to be returned", || (resident() < max).then_some(()));
    assert!(swept.elapsed() < RETURN_WAIT, "the memory was returned after {:?}", swept.elapsed());
}
