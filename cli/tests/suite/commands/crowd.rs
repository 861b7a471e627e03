//! A crowd of idle and of slow clients, at the cap on connections.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tollgate_servers::scaled;

use super::flood::metric;
use crate::support::{Client, Up, tollgate, wait_for};

/// Idle clients of the full test, and default cap on connections.
const IDLE: u64 = 10_000;
/// Clients of the full test that send half a request.
const SLOW: u64 = 2_000;
/// Calls of the gateway beside each hundred clients of the crowd.
const CALLS: usize = 10;
/// Maximum resident memory of the agent: a base, and a part per connection, in bytes.
const RESIDENT_MAX: u64 = 60_000_000;
const RESIDENT_PER_CONNECTION_MAX: u64 = 40_000;

/// Lets this process open as many files as it may.
fn raise_open_files(wanted: u64) {
    let maximum = getrlimit(Resource::Nofile).maximum;
    assert!(
        maximum.is_none_or(|maximum| maximum >= wanted),
        "the test opens {wanted} files; remedy: ulimit -Hn {wanted}"
    );
    setrlimit(Resource::Nofile, Rlimit { current: Some(wanted), maximum }).expect("the soft limit is raised");
}

/// The connection of a gateway works on, and new clients get in, while idle clients fill the cap and slow ones come on top.
#[test]
fn idle_and_slow_clients_hurt_nobody() {
    let (idle, slow) = (scaled(IDLE), scaled(SLOW));
    raise_open_files(idle + slow + 1_000);
    let (limit, cap) = ("1M/min per api_key", idle.to_string());
    let args =
        ["agent", "--http", "127.0.0.1:0", "--limit", limit, "--connections-max", &cap, "--header-timeout", "2s"];
    let up = Up::of(&mut tollgate(&args));
    let mut gateway = up.client();
    let mut crowd: Vec<Client> = Vec::new();
    let mut works = |number: u64| {
        for _ in 0..if number.is_multiple_of(100) { CALLS } else { 0 } {
            assert_eq!(gateway.check("k1").status, 200);
        }
    };
    for number in 1..idle {
        let mut client = up.client();
        assert_eq!(client.check("k2").status, 200);
        crowd.push(client);
        works(number);
    }
    // A gateway that rests for a second counts as idle, too, so it works meanwhile.
    let get_in = |works: &mut dyn FnMut(u64)| {
        wait_for("room at the cap", || {
            works(0);
            up.client().try_check("k3").is_some_and(|answer| answer.status == 200).then_some(())
        });
    };
    get_in(&mut works);
    let slow_clients: Vec<Client> = (0..slow)
        .map(|number| {
            let mut client = up.client();
            client.write("GET /check HTTP/1.1\r\nhost: t\r\nx-api-key: k4");
            works(number);
            client
        })
        .collect();
    get_in(&mut works);
    let resident = metric(&mut up.client(), "process_resident_memory_bytes");
    assert!(resident < RESIDENT_MAX + idle * RESIDENT_PER_CONNECTION_MAX, "{resident} bytes");
    for mut client in slow_clients {
        assert!(client.is_ended(), "half a request is never answered");
        works(0);
    }
    let stayed = crowd.iter_mut().filter_map(|client| client.try_check("k2")).count() as u64;
    assert!(stayed + slow + idle / 10 >= idle, "{stayed} of {idle} idle clients stayed, beside {slow} slow ones");
    up.signal("TERM");
    let log = up.end().1;
    assert_eq!(log.matches("the cap on connections is reached").count(), 1, "{log}");
}
