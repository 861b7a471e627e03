//! The page in Chromium, while calls arrive, while the process hangs, and after its end.
//!
//! The checks are in `cli/tests/page/page.test.mjs`, which uses the page as a person would and compares it with the API. The
//! script writes orders such as `server: kill`, and waits until they are obeyed.

use std::io::{BufRead, BufReader, Write};
use std::net::SocketAddr;
use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use tollgate_servers::{browser_script, free_port};

use crate::support::{Client, Up, file, tollgate, wait_for};

const SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/page/page.test.mjs");
const RULES: &str = "
rules:
  - { name: per-key, match: { endpoint: [/search, /v1*] }, per: [api_key], quota: 3/min, keys: { key-1: { quota: 4/min, until: 2100-01-01T00:00:00Z, reason: trial } } }
  - { name: uploads, match: { endpoint: /upload }, per: [api_key], quota: 2/min, shadow: true }
lists: { deny: [{ api_key: leaked }] }
";
const ENDPOINTS: [&str; 4] = ["/search", "/upload", "/v1/orders", "/v1/<img src=x>"];
/// Number of keys: more than a table shows at first.
const KEYS: usize = 16;
/// Every so many calls, one is of a key in the deny list.
const LEAKED_EVERY: usize = 11;
const PAUSE: Duration = Duration::from_millis(20);

/// Running process on a fixed address, with calls.
struct Stage {
    address: SocketAddr,
    rules: String,
    up: Option<Up>,
    traffic: Option<Traffic>,
}

/// Calls of several keys, until it is dropped.
struct Traffic {
    is_over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Stage {
    fn new() -> Self {
        let address = SocketAddr::from(([127, 0, 0, 1], free_port()));
        let rules = file("page.yaml", RULES).to_str().unwrap().to_owned();
        let mut stage = Self { address, rules, up: None, traffic: None };
        stage.start();
        stage.traffic = Some(Traffic::to(address));
        stage
    }

    fn start(&mut self) {
        let address = self.address.to_string();
        let args = ["up", "--http", &address, "--grpc", "off", "--node", "gw-1", "--rules", &self.rules];
        self.up = Some(Up::of(&mut tollgate(&args)));
    }

    fn up(&self) -> &Up {
        self.up.as_ref().expect("it runs")
    }

    fn obey(&mut self, order: &str) {
        match order {
            "pause" => self.up().signal("STOP"),
            "resume" => self.up().signal("CONT"),
            "kill" => (self.traffic, self.up) = (None, None),
            "start" => self.start(),
            _ => panic!("unknown order {order}"),
        }
    }
}

impl Traffic {
    fn to(address: SocketAddr) -> Self {
        let is_over = Arc::new(AtomicBool::new(false));
        let is_stopped = is_over.clone();
        let call = move || {
            let mut client = Client::connect(address).expect("it listens");
            let numbers = (0..).take_while(|_| !is_stopped.load(Ordering::Relaxed));
            for number in numbers {
                let key = if number % LEAKED_EVERY == 0 { "leaked".to_owned() } else { key(number) };
                let endpoint = ENDPOINTS[number / 3 % ENDPOINTS.len()];
                client.post(&format!(r#"{{"descriptors": {{"api_key": "{key}", "endpoint": "{endpoint}"}}}}"#));
                std::thread::sleep(PAUSE);
            }
        };
        Self { is_over, thread: Some(std::thread::spawn(call)) }
    }
}

impl Drop for Traffic {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
        self.thread.take().map(JoinHandle::join);
    }
}

/// Returns the key of a call. The first keys have more calls than the last ones.
fn key(number: usize) -> String {
    format!("key-{}", (number % KEYS).min(number / KEYS % KEYS))
}

/// H6, L2: usage by caller, rule, endpoint and agent, now and over time, and the state of the fleet.
#[test]
fn h6_l2_the_page_shows_the_numbers_of_the_api_and_survives_the_end_of_the_process() {
    let mut script = browser_script(SCRIPT);
    let mut stage = Stage::new();
    wait_for("denied callers", || {
        let callers = stage.up().client().get("/api/v1/callers?sort=denied", &[]).json();
        callers["matched"].as_u64().filter(|matched| *matched > 10)
    });

    script.arg(stage.up().url()).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut script = script.spawn().expect("node runs");
    let (mut orders_obeyed, output) = (script.stdin.take().unwrap(), script.stdout.take().unwrap());
    let mut faults = Vec::new();
    for line in BufReader::new(output).lines() {
        let line = line.unwrap();
        println!("{line}");
        if let Some(order) = line.strip_prefix("server: ") {
            stage.obey(order);
            writeln!(orders_obeyed, "done").unwrap();
        } else if line.starts_with("FAIL") {
            faults.push(line);
        }
    }
    let end = script.wait().unwrap();
    assert!(faults.is_empty() && end.success(), "{end}:\n{}", faults.join("\n"));
}
