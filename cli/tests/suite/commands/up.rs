//! `tollgate up`.

use std::net::TcpListener;
use std::sync::{Arc, Barrier};
use std::time::Duration;

use tollgate_core::clock::Stopwatch;

use crate::support::{Client, Up, file, finish, tollgate};

/// Number of connections that race for the last unit, and of calls on each.
const RACERS: usize = 250;
const CALLS_EACH: usize = 4;
/// Number of attempts for an experiment that a stall of the machine spoils.
const STALLS_MAX: usize = 20;

fn rules(name: &str, rule: &str) -> String {
    let yaml = format!("rules:\n  - {{ name: per-key, per: [api_key], {rule} }}\n");
    file(name, &yaml).to_str().unwrap().to_owned()
}

/// H1, H2, H5: fifteen calls against ten a minute.
#[test]
fn ten_of_fifteen_calls_pass_and_all_say_where_the_caller_stands() {
    let up = Up::start(&["--rules", &rules("ten.yaml", "quota: 10/min, consistency: strict")]);
    let mut client = up.client();
    let answers: Vec<_> = (0..15).map(|_| client.check("k1")).collect();
    let statuses: Vec<u16> = answers.iter().map(|answer| answer.status).collect();
    assert_eq!(statuses, [[200; 5], [200; 5], [429; 5]].concat());
    for (i, answer) in answers.iter().enumerate() {
        let remaining = 9_usize.saturating_sub(i).to_string();
        assert_eq!(answer.header("x-gateway-node"), "gw-1");
        assert_eq!(answer.header("x-ratelimit-limit"), "10");
        assert_eq!(answer.header("x-ratelimit-remaining"), remaining);
        assert!(answer.header("x-ratelimit-reset").parse::<u64>().is_ok());
        let ratelimit = format!("\"per-key\";r={remaining};t=");
        assert!(answer.header("ratelimit").starts_with(&ratelimit));
        assert_eq!(answer.header("ratelimit-policy"), "\"per-key\";q=10;w=60");
        let body = answer.json();
        let members = ["allowed", "limit", "remaining", "reset_ms", "retry_after_ms", "rule", "source", "id"];
        assert!(members.iter().all(|member| !body[member].is_null()), "{body}");
        let wait_ms = body["retry_after_ms"].as_u64().unwrap();
        if answer.status == 429 {
            assert_eq!(answer.header("content-type"), "application/problem+json");
            assert!(answer.header("retry-after").parse::<u64>().unwrap() * 1_000 >= wait_ms);
        } else {
            assert_eq!((answer.find("retry-after"), wait_ms), (None, 0));
        }
    }
    assert_eq!(client.check("k2").status, 200, "another key has its own quota");
}

/// A15: a retry after exactly `retry_after_ms` passes, 10 ms sooner it is denied.
#[test]
fn a_denied_call_passes_after_retry_after_and_not_sooner() {
    for rule in [
        "quota: 3/s, consistency: strict",
        "quota: 3/s, consistency: strict, estimate: interpolated",
        "quota: 3/s, consistency: strict, algorithm: sliding_log",
    ] {
        let up = Up::start(&["--rules", &rules("a15.yaml", rule)]);
        let valid = (0..STALLS_MAX).any(|attempt| returns_in_time(&up, &format!("k{attempt}")));
        assert!(valid, "the machine stalled {STALLS_MAX} times; nothing is proven");
    }
}

/// Returns true if the machine was fast enough for a valid result. Panics if the result is wrong.
fn returns_in_time(up: &Up, key: &str) -> bool {
    let mut client = up.client();
    let begun = Stopwatch::start();
    for _ in 0..3 {
        assert_eq!(client.check(key).status, 200, "a fresh key has its quota");
    }
    let asked = Stopwatch::start();
    let denied = client.check(key);
    let answered = Stopwatch::start();
    if begun.elapsed() >= Duration::from_secs(1) {
        return false; // the first units may have left
    }
    assert_eq!(denied.status, 429);
    let wait_ms = denied.json()["retry_after_ms"].as_u64().unwrap();
    let wait = Duration::from_millis(wait_ms);
    std::thread::sleep(wait.saturating_sub(Duration::from_millis(10)).saturating_sub(asked.elapsed()));
    let sooner = client.check(key);
    if asked.elapsed() + Duration::from_millis(1) >= wait {
        return false; // the answer may have come after the wait, in whole milliseconds
    }
    assert_eq!(sooner.status, 429, "10 ms too soon");
    std::thread::sleep(wait.saturating_sub(answered.elapsed()));
    assert_eq!(client.check(key).status, 200, "it waited {wait_ms} ms as it was told");
    true
}

/// B4: of a thousand calls for the last unit, one passes.
#[test]
fn the_last_unit_goes_to_one_of_a_thousand() {
    let up = Up::start(&["--rules", &rules("one.yaml", "quota: 1/min, consistency: strict")]);
    let start = Arc::new(Barrier::new(RACERS));
    let racers = (0..RACERS).map(|_| {
        let (mut client, start) = (up.client(), start.clone());
        std::thread::spawn(move || {
            start.wait();
            (0..CALLS_EACH).for_each(|_| client.send("GET", "/check", &[("x-api-key", "k")], ""));
            (0..CALLS_EACH).filter(|_| client.receive().status == 200).count()
        })
    });
    let racers: Vec<_> = racers.collect();
    let passed: usize = racers.into_iter().map(|racer| racer.join().unwrap()).sum();
    assert_eq!(passed, 1);
}

#[test]
fn a_broken_body_costs_neither_a_unit_nor_the_connection() {
    let up = Up::start(&["--limit", "2/min per api_key"]);
    let mut client = up.client();
    let refused = client.post("{\"descriptors\": {\"api_key\": \"k1\"}");
    assert_eq!((refused.status, refused.header("content-type")), (400, "application/problem+json"));
    let detail = refused.json()["detail"].as_str().unwrap().to_owned();
    assert!(detail.contains("at line 1 column 33; send {"), "{detail}");
    let call = r#"{"descriptors": {"api_key": "k1"}, "cost": 2}"#;
    assert_eq!(client.post(call).header("x-ratelimit-remaining"), "0");
}

#[test]
fn it_prints_its_address_and_a_sample_call() {
    let mut up = Up::of(&mut tollgate(&["up", "--http", "127.0.0.1:0"]));
    let url = up.url();
    assert_eq!(up.line(), format!("try: curl -i {url}/check -H 'x-api-key: k1'"));
    assert_eq!(up.client().check("k1").header("x-ratelimit-limit"), "100");
    up.signal("TERM");
    let (_, err) = up.end();
    assert!(err.contains("no --rules and no --limit: 100/min per api_key"), "{err}");
    assert!(err.contains("limits are per process"), "{err}");
}

#[test]
fn calls_that_no_rule_limits_are_announced_and_counted() {
    let up = Up::start(&["--limit", "1/min per api_key"]);
    let mut client = up.client();
    let unlimited = |client: &mut Client| -> u64 {
        let metrics = client.get("/metrics", &[]).text().to_owned();
        let of_none = |line: &&str| line.starts_with("tollgate_decisions_total{rule=\"\",outcome=\"allowed\"");
        metrics.lines().filter(of_none).map(|line| line.rsplit_once(' ').unwrap().1.parse::<u64>().unwrap()).sum()
    };
    assert_eq!((client.check("k1").status, unlimited(&mut client)), (200, 0));
    assert_eq!(
        [client.get("/check", &[]), client.post(r#"{"descriptors": {"ip": "1.1.1.1"}}"#)].map(|a| a.status),
        [200, 200]
    );
    assert_eq!(unlimited(&mut client), 2);
    up.signal("TERM");
    let (_, err) = up.end();
    let notice = "rules limit only calls with `api_key`; any other call passes, and tollgate_decisions_total{rule=\"\"} counts it";
    assert_eq!(err.matches(notice).count(), 1, "{err}");
}

#[test]
fn it_is_healthy_and_ready_and_counts_on_both_sides_of_the_bus() {
    let up = Up::start(&["--limit", "5/min per api_key"]);
    let mut client = up.client();
    assert_eq!(client.check("k1").status, 200);
    assert_eq!(client.get("/healthz", &[]).json()["status"], "ok");
    assert_eq!(client.get("/readyz", &[]).status, 200);
    let counted = crate::support::wait_for("the call to reach the aggregator", || {
        let metrics = client.get("/metrics", &[]);
        let of_rows = |line: &&str| line.starts_with("tollgate_aggregator_rows_total{") && line.ends_with(" 1");
        metrics.text().lines().any(|line| of_rows(&line)).then(|| metrics.text().to_owned())
    });
    assert!(counted.contains(r#"tollgate_decisions_total{rule="per-api_key",outcome="allowed",source="store"} 1"#));
}

#[test]
fn a_port_in_use_is_reported_with_a_remedy() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let said = finish(&mut tollgate(&["up", "--http", &address]));
    assert_eq!((said.exit, &*said.out), (1, ""));
    let told = format!(
        "error: {address} is in use; stop the process that listens there, or take any free port with --http 127.0.0.1:0"
    );
    assert!(said.err.contains(&told), "{}", said.err);
}

/// A flag wins over the environment, also if the two set different flags.
#[test]
fn a_flag_wins_over_the_environment() {
    let mut command = tollgate(&["up", "--http", "127.0.0.1:0", "--limit", "7/min per api_key"]);
    let up = Up::of(command.env("TOLLGATE_RULES", "/nowhere.yaml").env("TOLLGATE_NODE", "gw-7"));
    let answer = up.client().check("k1");
    assert_eq!((answer.header("x-ratelimit-limit"), answer.header("x-gateway-node")), ("7", "gw-7"));
    let both = finish(&mut tollgate(&["up", "--limit", "7/min per ip", "--rules", "rules.yaml"]));
    assert_eq!(both.exit, 2);
    assert!(both.err.contains("leave one out"), "{}", both.err);
}

/// K5: behind a gateway, all clients have its address unless the rules name the proxies. The log says so, once.
#[test]
fn clients_behind_a_gateway_are_reported_once() {
    for (rules, warnings) in [("per ip", 1), ("per api_key", 0)] {
        let up = Up::start(&["--limit", &format!("5/min {rules}")]);
        let mut client = up.client();
        for client_ip in ["198.51.100.1", "198.51.100.2, 203.0.113.1"] {
            assert_eq!(client.get("/check", &[("x-forwarded-for", client_ip)]).status, 200);
        }
        up.signal("TERM");
        let (_, err) = up.end();
        let told = err.matches("requests have X-Forwarded-For, but trusted_hops is 0").count();
        assert_eq!(told, warnings, "{rules}: {err}");
        assert!(warnings == 0 || err.contains("client_ip: { trusted_hops: 1 }"), "{err}");
    }
}

/// A mistyped variable is no setting, and the log names the likely one. Kubernetes sets variables for a Service named `tollgate`.
#[test]
fn an_unknown_variable_is_reported_with_the_likely_name() {
    let mut command = tollgate(&["up", "--http", "127.0.0.1:0"]);
    command.env("TOLLGATE_KAFAK", "broker:9092").env("TOLLGATE_LIMIT", "5/min per ip");
    let of_service = [("SERVICE_HOST", "10.0.0.1"), ("SERVICE_PORT", "8080"), ("PORT", "tcp://10.0.0.1:8080")];
    for (name, value) in of_service.into_iter().chain([("PORT_8080_TCP_ADDR", "10.0.0.1"), ("PORT_8080_TCP", "x")]) {
        command.env(format!("TOLLGATE_{name}"), value);
    }
    let up = Up::of(&mut command);
    up.signal("TERM");
    let (_, err) = up.end();
    assert!(err.contains("no setting is named TOLLGATE_KAFAK") && err.contains("set TOLLGATE_KAFKA"), "{err}");
    assert_eq!(err.matches("no setting is named").count(), 1, "{err}");
}
