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

/// Returns 165 calls of 55 clients through three balancers, in a format with `PEER` and `CLIENT`.
fn behind_three_balancers(line: &str, client: &str) -> String {
    let call = |number: u32| {
        let line = line.replace("PEER", &format!("10.0.0.{}", number % 3));
        line.replace("CLIENT", &client.replace('N', &(number % 55).to_string())) + "\n"
    };
    (0..165).map(call).collect()
}

/// A private address is not the client if a header has a public one, however many balancers there are.
#[test]
fn a_balancer_is_not_the_client_if_a_header_has_a_public_address() {
    for (name, header, line) in [
        ("main", "", "PEER - - [18/Nov/2024:16:00:00 +0000] \"GET /a HTTP/1.1\" 200 5 \"-\" \"curl/8\" \"CLIENT\""),
        ("ingress", "", "PEER - [CLIENT] - - [18/Nov/2024:16:00:00 +0000] \"GET /a HTTP/1.1\" 200 5 \"-\" \"x\""),
        ("nginx.json", "", r#"{"time": 1731948900, "remote_addr": "PEER", "http_x_forwarded_for": "CLIENT"}"#),
        ("real-ip.json", "", r#"{"time": 1731948900, "remote_addr": "PEER", "headers": {"X-Real-IP": ["CLIENT"]}}"#),
        (
            "rfc7239.json",
            "",
            r#"{"time": 1731948900, "remote_addr": "PEER", "http_forwarded": "for=\"CLIENT\";proto=https"}"#,
        ),
        (
            "caddy.json",
            "",
            r#"{"ts": 1731948900.2, "request": {"client_ip": "PEER", "proto": "h2", "headers": {"X-Forwarded-For": ["CLIENT"]}}}"#,
        ),
        ("iis", "#Fields: date time c-ip X-Forwarded-For\n", "2024-11-18 16:55:00 PEER CLIENT"),
    ] {
        for (range, client) in [("documentation", "198.51.100.N"), ("real", "9.9.9.N"), ("ipv6", "2606:4700:N::1")] {
            let log = format!("{header}{}", behind_three_balancers(line, client));
            let args = ["--limit", "10/min per ip", "--format", "json"];
            let done = replay(&format!("three-{name}-{range}"), &log, &args);
            assert_eq!(done.exit, 0, "{name} {range}: {}", done.err);
            let report: Value = serde_json::from_str(&done.out).unwrap();
            assert_eq!(report["rules"][0]["counters"], 55, "{name} {range}");
            assert!(done.err.contains("several addresses; the client is the public one"), "{name}: {}", done.err);
        }
    }
}

/// Of two public addresses, either may be the client: the line is refused until `--client` chooses.
#[test]
fn two_public_addresses_of_a_line_are_refused_with_their_fields() {
    let edge = |number: u32| {
        let (peer, client) = (number % 140, number % 250);
        format!(
            "203.0.113.{peer} - - [18/Nov/2024:16:55:00 +0000] \"GET / HTTP/1.1\" 200 1 \"-\" \"x\" \"198.51.100.{client}\"\n"
        )
    };
    let edges: Vec<String> = (0..280).map(edge).collect();
    for (name, log, fields) in [
        ("cdn", &*edges.concat(), "(`first`, `x_forwarded_for`)"),
        ("list", &*behind_a_balancer(), "(`first`, `x_forwarded_for`)"),
        (
            "real-ip",
            r#"{"time": 1731948900, "remote_addr": "-", "x_real_ip": "203.0.113.7", "http_x_forwarded_for": "1.1.1.1"}"#,
            "(`http_x_forwarded_for`, `x_real_ip`)",
        ),
        (
            "cloudflare",
            r#"{"time": 1731948900, "remote_addr": "203.0.113.7", "http_cf_connecting_ip": "198.51.100.3"}"#,
            "(`remote_addr`, `http_cf_connecting_ip`)",
        ),
        (
            "traefik",
            r#"{"ClientHost": "203.0.113.7", "StartUTC": "2024-11-18T16:55:00Z", "request_X-Real-Ip": "198.51.100.3"}"#,
            "(`ClientHost`, `request_X-Real-Ip`)",
        ),
    ] {
        let done = replay(&format!("two-{name}"), log, &["--limit", "60/min per ip"]);
        assert_eq!((done.exit, &*done.out), (1, ""), "{name}: {}", done.err);
        let said = format!("may be the client {fields}; choose with --client");
        assert!(done.err.contains(&said), "{name}: {}", done.err);
        let done = replay(&format!("two-{name}-first"), log, &["--limit", "60/min per ip", "--client", "first"]);
        assert_eq!(done.exit, 0, "{name}: {}", done.err);
    }
}

/// Without a list of proxies, its last entry is nobody: the peers are not counted in its place.
#[test]
fn last_forwarded_without_a_list_is_refused() {
    let line = "10.0.0.3 - - [18/Nov/2024:16:55:00 +0000] \"GET / HTTP/1.1\" 200 1 \"-\" \"x\"";
    for (name, log) in [("none", line.to_owned()), ("dash", format!("{line} \"-\""))] {
        for choice in ["last-forwarded", "first-forwarded"] {
            let args = ["--limit", "60/min per ip", "--client", choice];
            let done = replay(&format!("no-list-{name}-{choice}"), &log, &args);
            assert_eq!((done.exit, &*done.out), (1, ""), "{name}: {}", done.err);
            assert!(done.err.contains("the line has no X-Forwarded-For"), "{}", done.err);
        }
    }
}

/// One address makes over half of the calls while another field has many: the report says so and names the flag.
#[test]
fn a_balancer_among_the_public_addresses_is_warned_of() {
    let log =
        behind_a_balancer().replace("198.51.100.", "172.16.0.").replace(", 203.0.113.", ", 203.0.113.5, 172.16.1.");
    let limit = ["--limit", "60/min per ip"];
    let done = replay("warned", &log, &limit);
    let said = done.out.replace('\n', " ");
    assert!(said.contains("203.0.113.5 makes 12 of 12 calls, and `x_forwarded_for` has 24 different values"), "{said}");
    assert!(said.contains("add --client last-forwarded"), "{said}");
    let done = replay("warned-json", &log, &[&limit[..], &["--format", "json"]].concat());
    assert!(done.err.starts_with("warning: 203.0.113.5 makes 12 of 12 calls"), "{}", done.err);
    let direct: Vec<_> = log.lines().map(|line| line.split(" \"x\" ").next().unwrap_or_default()).collect();
    let direct = direct.join(" \"x\" \"-\"\n").replace("10.0.0.3", "203.0.113.5");
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

/// HAProxy writes no brackets around an IPv6 address, so its port looks like a part of it.
#[test]
fn an_ipv6_client_of_haproxy_is_read_without_its_port() {
    let rest =
        r#"[18/Nov/2024:16:55:00.482] https~ web/srv1 0/0/2/10/12 200 5 - - ---- 1/1/0/0/0 0/0 "GET /a HTTP/1.1""#;
    for (name, client, expected) in [
        ("mapped", "::ffff:203.0.113.7:27088", "203.0.113.7"),
        ("plain", "2001:db8::5:27088", "2001:db8::/64"),
        ("short-port", "2001:db8:0:7:1:2:3:4:443", "2001:db8:0:7::/64"),
    ] {
        for (form, prefix) in [("bare", ""), ("syslog", "Nov 18 16:55:00 lb1 haproxy[42886]: ")] {
            let log = format!("{prefix}{client} {rest}\n");
            let args = ["--limit", "60/min per ip", "--decisions", "-"];
            assert_eq!(clients(&replay(&format!("haproxy-{name}-{form}"), &log, &args)), [expected]);
        }
    }
}

/// ingress-nginx writes a list of proxies in brackets, which is no user.
#[test]
fn an_address_in_brackets_is_never_the_user() {
    let line = |head: &str| format!("{head} [18/Nov/2024:16:55:00 +0000] \"GET / HTTP/1.1\" 200 1 \"-\" \"x\"\n");
    let args = ["--limit", "60/min per ip", "--decisions", "-"];
    for (name, head) in [("list", "10.0.0.3 - [203.0.113.7]"), ("user", "10.0.0.3 - [203.0.113.7] ann")] {
        assert_eq!(clients(&replay(&format!("brackets-{name}"), &line(head), &args)), ["203.0.113.7"]);
    }
    for (name, head, said) in [
        ("two", "203.0.113.7 - [1.2.3.4]", "203.0.113.7 and 1.2.3.4 may be the client"),
        ("after-user", "203.0.113.7 - ann [1.2.3.4]", "has an address in place of the user"),
    ] {
        let done = replay(&format!("brackets-{name}"), &line(head), &args);
        assert!(done.exit == 1 && done.err.contains(said), "{}", done.err);
    }
}

/// `--show` tells how a log is read, needs no limit, and replays nothing.
#[test]
fn show_prints_the_format_and_three_calls() {
    let log = format!("nginx-1  | {}", behind_a_balancer().trim_end().replace('\n', "\nnginx-1  | "));
    let done = replay("show", &log, &["--show", "--client", "first"]);
    assert_eq!((done.exit, &*done.err), (0, ""));
    assert!(done.out.starts_with("format: common or combined (nginx, Apache), in docker-compose\n"), "{}", done.out);
    assert_eq!(done.out.matches("  ip           10.0.0.3\n").count(), 3, "{}", done.out);
    assert!(done.out.contains("\n2024-11-18 16:55:02 UTC\n") && !done.out.contains("admitted"), "{}", done.out);
    let done = replay("show-json", &log, &["--show", "--client", "first", "--format", "json"]);
    let shown: Value = serde_json::from_str(&done.out).unwrap();
    assert_eq!(shown["calls"][0]["descriptors"]["ip"], "10.0.0.3");
    assert_eq!(shown["calls"].as_array().map(Vec::len), Some(3));
}

/// `--show` names the field of each client and the addresses that were passed over, in the order of the calls.
#[test]
fn show_names_the_source_of_each_client() {
    let log = "10.0.0.3 - [203.0.113.7] - - [18/Nov/2024:16:55:02 +0000] \"GET / HTTP/1.1\" 200 1\n\
               203.0.113.9 - - [18/Nov/2024:16:55:01 +0000] \"GET / HTTP/1.1\" 200 1\n";
    let done = replay("source", log, &["--show"]);
    assert_eq!(done.exit, 0, "{}", done.err);
    let is_source = |line: &&str| line.starts_with("  ip from ") || line.starts_with("  passed over ");
    let sources: Vec<_> = done.out.lines().filter(is_source).collect();
    let expected = ["  ip from      first", "  ip from      x_forwarded_for", "  passed over  10.0.0.3 (first)"];
    assert_eq!(sources, expected, "{}", done.out);
    let done = replay("source-json", log, &["--show", "--format", "json"]);
    let shown: Value = serde_json::from_str(&done.out).unwrap();
    let expected = serde_json::json!({
        "fields": ["x_forwarded_for"], "passed_over": [{ "address": "10.0.0.3", "field": "first" }]
    });
    assert_eq!(shown["calls"][1]["client"], expected);
}

/// Of two values of a key, either may be the client.
#[test]
fn json_with_a_key_twice_is_refused() {
    let json = r#"{"time": 1731948900, "remote_addr": "203.0.113.7", "remote_addr": "198.51.100.3"}"#;
    let done = replay("twice", json, &["--limit", "60/min per ip"]);
    assert!(done.exit == 1 && done.err.contains("`remote_addr` is there twice with different values"), "{}", done.err);
    let same = json.replace("198.51.100.3", "203.0.113.7");
    assert_eq!(clients(&replay("same", &same, &["--limit", "60/min per ip", "--decisions", "-"])), ["203.0.113.7"]);
}
