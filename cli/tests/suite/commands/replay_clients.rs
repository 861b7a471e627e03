//! `tollgate replay`: the client of a call where a line has several addresses, and named fields of JSON.

use serde_json::Value;

use crate::support::{Finished, file, finish, tollgate};

/// Writes calls of many clients through one balancer.
fn behind_a_balancer() -> String {
    let line = |number: u32| {
        format!(
            "10.0.0.3 - - [18/Nov/2024:16:55:{number:02} +0000] \"GET / HTTP/1.1\" 200 1 \"-\" \"x\" \"198.51.100.{number}, 203.0.113.{number}\"\n"
        )
    };
    (0..12).map(line).collect()
}

fn replay(name: &str, log: &str, args: &[&str]) -> Finished {
    let log = file(&format!("clients/{name}.log"), log);
    finish(tollgate(&["replay"]).arg(log).args(args))
}

/// Returns the distinct values of `ip` in the order of the calls.
fn clients(done: &Finished) -> Vec<String> {
    assert_eq!(done.exit, 0, "{}", done.err);
    let decisions = done.out.lines().filter(|line| line.starts_with('{')).map(|line| {
        let decision: Value = serde_json::from_str(line).unwrap();
        decision["descriptors"]["ip"].as_str().unwrap_or_default().to_owned()
    });
    let mut clients: Vec<_> = decisions.collect();
    clients.dedup();
    clients
}

/// One address makes over half of the calls while another field has many: the report says so and names the flag.
#[test]
fn a_balancer_in_the_first_column_is_warned_of() {
    let log = behind_a_balancer();
    let limit = ["--limit", "60/min per ip"];
    let done = replay("warned", &log, &limit);
    let said = done.out.replace('\n', " ");
    assert!(said.contains("10.0.0.3 makes 12 of 12 calls, and `x_forwarded_for` has 12 different values"), "{said}");
    assert!(said.contains("add --client last-forwarded"), "{said}");
    let done = replay("warned-json", &log, &[&limit[..], &["--format", "json"]].concat());
    assert!(done.err.starts_with("warning: 10.0.0.3 makes 12 of 12 calls"), "{}", done.err);
    let direct = log.replace("10.0.0.3", "203.0.113.5").replace("\"x\" \"", "\"x\" \"-\" \"-");
    assert!(!replay("direct", &direct, &limit).out.contains("warning"));
}

#[test]
fn the_client_can_be_chosen() {
    let log = behind_a_balancer();
    for (choice, expected) in
        [("first", "10.0.0.3"), ("first-forwarded", "198.51.100.0"), ("last-forwarded", "203.0.113.0")]
    {
        let args = ["--limit", "60/min per ip", "--client", choice, "--decisions", "-"];
        let done = replay(choice, &log, &args);
        let clients = clients(&done);
        assert_eq!((&*clients[0], clients.len()), (expected, if choice == "first" { 1 } else { 12 }), "{choice}");
        assert!(!done.out.contains("warning"), "{}", done.out);
    }
    let json = r#"{"time": 1731948900, "remote_addr": "10.0.0.3", "headers": {"cf": "203.0.113.9"}}"#;
    let args = ["--limit", "60/min per ip", "--client", "headers.cf", "--decisions", "-"];
    assert_eq!(clients(&replay("field", json, &args)), ["203.0.113.9"]);
    let done = replay("no-field", json, &["--limit", "60/min per ip", "--client", "nothing"]);
    assert!(done.exit == 1 && done.err.contains("no field `nothing` with an address"), "{}", done.err);
    let done = replay("no-name", json, &["--limit", "60/min per ip", "--client", ""]);
    assert!(done.exit == 2 && done.err.contains("last-forwarded"), "{}", done.err);
}

#[test]
fn fields_of_json_can_be_named() {
    let json = "{\"when\": {\"at\": 1731948900}, \"who\": \"203.0.113.9:80\", \"key\": \"k1\", \"u\": \"/a?b\", \"m\": \"GET\"}\n";
    let map = "time=when.at,ip=who,api_key=key,path=u,method=m";
    let args = ["--limit", "1/min per api_key", "--json", map, "--decisions", "-"];
    let done = replay("named", &json.repeat(2), &args);
    assert_eq!(done.exit, 0, "{}", done.err);
    let last: Value = serde_json::from_str(done.out.lines().nth(1).unwrap()).unwrap();
    assert_eq!((&last["allowed"], &last["rule"]), (&false.into(), &"per-api_key".into()));
    let expected = serde_json::json!({ "api_key": "k1", "endpoint": "/a", "ip": "203.0.113.9", "method": "GET" });
    assert_eq!((&last["descriptors"], &last["time_ms"]), (&expected, &1_731_948_900_000_u64.into()));
    let done = replay("named-wrong", json, &["--limit", "1/min per api_key", "--json", "time"]);
    assert!(done.exit == 2 && done.err.contains("write NAME=FIELD"), "{}", done.err);
}

/// An IPv6 address is counted as its network, with or without port, brackets and zone.
#[test]
fn an_ipv6_address_is_one_client_in_any_form() {
    let forms = ["2001:db8::1", "[2001:db8::2]:443", "2001:db8::3%eth0", "[2001:db8::4]"];
    let line = |form: &&str| format!("{form} - - [18/Nov/2024:16:55:00 +0000] \"GET / HTTP/1.1\" 200 1\n");
    let log: String = forms.iter().map(line).collect();
    let done = replay("ipv6", &log, &["--limit", "60/min per ip", "--decisions", "-"]);
    assert_eq!(clients(&done), ["2001:db8::/64"]);
}

/// `--show` tells how a log is read, needs no limit, and replays nothing.
#[test]
fn show_prints_the_format_and_three_calls() {
    let log = format!("nginx-1  | {}", behind_a_balancer().trim_end().replace('\n', "\nnginx-1  | "));
    let done = replay("show", &log, &["--show"]);
    assert_eq!((done.exit, &*done.err), (0, ""));
    assert!(done.out.starts_with("format: common or combined (nginx, Apache), in docker-compose\n"), "{}", done.out);
    assert_eq!(done.out.matches("  ip           10.0.0.3\n").count(), 3, "{}", done.out);
    assert!(done.out.contains("\n2024-11-18 16:55:02 UTC\n") && !done.out.contains("admitted"), "{}", done.out);
    let done = replay("show-json", &log, &["--show", "--format", "json"]);
    let shown: Value = serde_json::from_str(&done.out).unwrap();
    assert_eq!(shown["calls"][0]["descriptors"]["ip"], "10.0.0.3");
    assert_eq!(shown["calls"].as_array().map(Vec::len), Some(3));
}
