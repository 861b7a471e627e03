//! Six regions in one process, and a client that rotates over them.

use std::thread;
use std::time::Duration;

use tollgate_core::clock::Stopwatch;
use tollgate_servers::scaled;

use super::up_regions::address_of;
use crate::support::{Client, Up, file, tollgate};

const REGIONS: [&str; 6] = ["eu", "us", "ap", "sa", "af", "me"];
const QUOTA: u64 = 240;
const WINDOW_MS: u64 = 2_000;
/// Time between two calls: three quotas in a window, at most.
const PAUSE: Duration = Duration::from_millis(2);

/// Admitted call, in ms since the start.
struct Admission {
    sent_ms: u64,
    answered_ms: u64,
}

/// J1, J3: real agents, aggregators and stores of six regions hold one quota. A client that rotates over all of them gets at most the
/// quota in any window of its own log, and far more than the floors.
#[test]
fn j1_six_regions_hold_one_quota_for_a_client_that_rotates() {
    let rules = format!(
        "regions: {{ {} }}\nrules: [{{ name: per-key, per: [api_key], quota: {QUOTA}/{}s, scope: global }}]",
        REGIONS.map(|name| format!("{name}: {{}}")).join(", "),
        WINDOW_MS / 1_000
    );
    let rules = file("up-six.yaml", &rules);
    let args = ["up", "--http", "127.0.0.1:0", "--regions", "6", "--link-delay", "20ms", "--rules"];
    let mut up = Up::of(tollgate(&args).arg(&rules));
    let mut addresses = vec![up.address];
    addresses.extend(REGIONS[1..].iter().map(|name| address_of(&mut up, name)));
    let mut clients: Vec<Client> =
        addresses.iter().map(|address| Client::connect(*address).expect("it listens")).collect();
    // The first windows move the units.
    let end_ms = WINDOW_MS * scaled(60).max(10);
    let (started, mut admitted) = (Stopwatch::start(), Vec::new());
    let now_ms = || u64::try_from(started.elapsed().as_millis()).expect("a short test");
    for number in 0.. {
        let sent_ms = now_ms();
        if sent_ms >= end_ms {
            break;
        }
        if clients[number % REGIONS.len()].check("k").status == 200 {
            admitted.push(Admission { sent_ms, answered_ms: now_ms() });
        }
        thread::sleep(PAUSE);
    }
    // Calls that were sent and answered within a window were admitted in it.
    let within = |first: usize| {
        let end_ms = admitted[first].sent_ms + WINDOW_MS;
        let sent = admitted[first..].iter().take_while(|call| call.sent_ms < end_ms);
        sent.filter(|call| call.answered_ms < end_ms).count() as u64
    };
    let fullest = (0..admitted.len()).map(within).max().unwrap_or(0);
    let late = admitted.iter().filter(|call| call.sent_ms >= end_ms - 4 * WINDOW_MS).count() as u64;
    eprintln!("{fullest} of {QUOTA} in the fullest window, {late} in the last four windows");
    assert!(fullest <= QUOTA, "{fullest} of {QUOTA} in a window");
    assert!(late >= 2 * QUOTA, "half the quota in the last four windows: {late}");
}
