//! `tollgate replay`: text report, JSON report, and decisions.

use std::io::Write;
use std::path::PathBuf;
use std::process::Stdio;

use serde_json::Value;

use crate::support::{file, finish, tollgate};

const TRACE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../experiments/traces/apache_combined_10k.log.gz");

fn json(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

#[test]
fn the_report_on_a_real_log_is_one_json_object() {
    let done = finish(&mut tollgate(&["replay", TRACE, "--limit", "60/min per ip", "--format", "json"]));
    assert_eq!((done.exit, &*done.err), (0, ""));
    let report = json(&done.out);
    assert_eq!((&report["calls"], &report["bad_lines"]), (&10_000.into(), &0.into()));
    let rule = &report["rules"][0];
    let sum = rule["admitted"].as_u64().unwrap() + rule["denied"].as_u64().unwrap();
    assert_eq!((&rule["name"], &rule["counters"], sum), (&"per-ip".into(), &1_753.into(), 10_000));
}

#[test]
fn the_report_on_a_real_log_is_text_by_default() {
    let done = finish(&mut tollgate(&["replay", TRACE, "--limit", "60/min per ip"]));
    for expected in ["10,000 calls from 2015-05-17 10:05:00 UTC", "over-    under-", "ip=75.97.9.59", "timeline, "] {
        assert!(done.out.contains(expected), "{expected}: {}", done.out);
    }
}

#[test]
fn decisions_are_written_in_the_order_of_the_calls() {
    let log = file(
        "order.jsonl",
        "{\"time\": 2000, \"descriptors\": {\"k\": \"b\"}}\n{\"time\": 1000, \"descriptors\": {\"k\": \"b\"}}\n",
    );
    let out = log.with_extension("decisions");
    let (log, out) = (log.to_str().unwrap(), out.to_str().unwrap());
    let done = finish(&mut tollgate(&["replay", log, "--limit", "1/min per k", "--decisions", out]));
    assert_eq!(done.exit, 0, "{}", done.err);
    let lines: Vec<Value> = std::fs::read_to_string(out).unwrap().lines().map(json).collect();
    let expected = [
        r#"{"time_ms": 1000, "descriptors": {"k": "b"}, "cost": 1, "allowed": true, "rule": "per-k", "remaining": 0}"#,
        r#"{"time_ms": 2000, "descriptors": {"k": "b"}, "cost": 1, "allowed": false, "rule": "per-k", "remaining": 0}"#,
    ];
    assert_eq!(lines, expected.map(json));
}

/// Once, a rule of a group that lost each call was reported not to match, and a rule with `deny: true` to limit no
/// call.
#[test]
fn the_reason_why_a_rule_applies_to_no_call_is_true() {
    let rules = file(
        "idle.yaml",
        "rules:
  - { name: gifs, group: g, match: { endpoint: /shuttle/*/*.gif }, per: [ip], quota: 1/min }
  - { name: any, group: g, match: { endpoint: /* }, per: [ip], quota: 200/min }
  - { name: posts, match: { method: POST }, per: [ip], quota: 9/min }
  - { name: users, per: [user], quota: 9/min }
  - { name: closed, match: { endpoint: /closed }, deny: true }
",
    );
    let line = |second: u32, path: &str| {
        format!("1.1.1.1 - - [17/May/2015:12:05:{second:02} +0200] \"GET {path} HTTP/1.1\" 200 1\n")
    };
    let gifs: String = (0..3).map(|second| line(second, "/shuttle/sts/a.gif")).collect();
    let log = file("idle.log", &(gifs.clone() + &line(4, "/closed")));
    let replay =
        |rules: &PathBuf, log: &PathBuf| finish(tollgate(&["replay", "--rules", rules.to_str().unwrap()]).arg(log)).out;
    let out = replay(&rules, &log);
    let row = |name: &str| {
        let row =
            out.lines().find(|line| line.trim_start().starts_with(name)).unwrap_or_else(|| panic!("{name}: {out}"));
        row.split_whitespace().take(5).map(str::to_owned).collect::<Vec<_>>().join(" ")
    };
    assert_eq!([row("gifs"), row("closed")], ["gifs 1/min 3 1 2", "closed denied 1 0 1"], "{out}");
    assert!(out.contains("rule posts applies to none of these calls: 4 do not match its method\n"), "{out}");
    assert!(out.contains("rule users applies to none of these calls: 4 have no user\n"), "{out}");
    let log = file("idle-gifs.log", &gifs);
    let out = replay(&rules, &log);
    let reason = "rule any applies to none of these calls: 3 go to gifs, the narrower rule of its\ngroup\n";
    assert!(out.contains(reason), "{out}");
}

#[test]
fn standard_input_is_read_and_bad_lines_are_reported() {
    let mut command = tollgate(&["replay", "-", "--limit", "5/s per ip", "--format", "json"]);
    let mut child = command.stdin(Stdio::piped()).spawn().unwrap();
    let call = "1.1.1.1 - - [17/May/2015:12:05:03 +0200] \"GET / HTTP/1.1\" 200 1\n";
    let lines = format!("nonsense\n{}", call.repeat(19));
    child.stdin.take().unwrap().write_all(lines.as_bytes()).unwrap();
    let done = child.wait_with_output().unwrap();
    let report = json(&String::from_utf8(done.stdout).unwrap());
    assert_eq!((&report["calls"], &report["bad_lines"]), (&19.into(), &1.into()));
    let said = String::from_utf8(done.stderr).unwrap();
    assert!(said.starts_with("warning: stdin:1: not a line of a known access log"), "{said}");
}

#[test]
fn an_input_that_cannot_be_replayed_is_refused_with_a_reason() {
    for (args, exit, said) in [
        (vec!["replay", TRACE], 2, "--limit \"60/min per ip\""),
        (vec!["replay", TRACE, "--limit", "60/min"], 2, "write it as"),
        (vec!["replay", "no-such.log", "--limit", "1/s per ip"], 1, "no-such.log: No such file"),
        (vec!["replay"], 2, "<LOG>"),
    ] {
        let done = finish(&mut tollgate(&args));
        assert!(
            done.exit == exit && done.err.contains(said) && done.out.is_empty(),
            "{args:?}: {} {}",
            done.exit,
            done.err
        );
    }
}

/// The report names the fleet and its delays. A report of one agent without delays is as before.
#[test]
fn the_report_of_a_fleet_names_its_agents_and_delays() {
    let fleet = ["replay", TRACE, "--limit", "20/min per ip", "--agents", "2", "--store-delay", "3ms"];
    let done = finish(tollgate(&fleet).args(["--signal-delay", "1s"]));
    assert_eq!((done.exit, &*done.err), (0, ""));
    assert!(done.out.contains("\n2 simulated agents, signal delay 1000 ms, store delay 3 ms\n"), "{}", done.out);
    let report = json(&finish(tollgate(&fleet).args(["--format", "json"])).out);
    let named = ["agents", "signal_delay_ms", "store_delay_ms"].map(|key| report[key].as_u64());
    assert_eq!(named, [Some(2), Some(10), Some(3)]);
    let report = json(&finish(&mut tollgate(&["replay", TRACE, "--limit", "20/min per ip", "--format", "json"])).out);
    let keys: Vec<&String> = report.as_object().unwrap().keys().collect();
    let expected = [
        "admitted",
        "bad_lines",
        "bad_lines_shown",
        "calls",
        "denied",
        "disordered",
        "formats",
        "from",
        "limited_callers",
        "messages",
        "most_limited",
        "rules",
        "timeline",
        "to",
        "warnings",
    ];
    assert_eq!(keys, expected);
}

#[test]
fn a_fleet_that_cannot_be_simulated_is_refused_with_a_remedy() {
    for (args, said) in [
        (&["--agents", "0"][..], "write a number of agents from 1 to 100"),
        (&["--agents", "101"], "write a number of agents from 1 to 100"),
        (&["--agents", "2", "--store-delay", "0.5ms"], "write a duration of whole ms, such as 20ms or 2s, up to 10s"),
        (&["--agents", "2", "--store-delay", "11s"], "up to 10s"),
        (&["--agents", "2", "--signal-delay", "2min"], "such as 20ms or 2s, up to"),
        (&["--store-delay", "2ms"], "--agents <N>"),
        (&["--signal-delay", "2ms"], "--agents <N>"),
    ] {
        let done = finish(tollgate(&["replay", TRACE, "--limit", "20/min per ip"]).args(args));
        assert!(done.exit == 2 && done.err.contains(said) && done.out.is_empty(), "{args:?}: {}", done.err);
    }
}

/// A truncated gzip once ended with exit 0, as if the log were whole.
#[test]
fn an_archive_that_breaks_off_fails_after_the_calls_before_the_place() {
    let whole = std::fs::read(TRACE).unwrap();
    let log = file("broken.log.gz", "");
    std::fs::write(&log, &whole[..whole.len() / 2]).unwrap();
    let log = log.to_str().unwrap();
    for format in ["text", "json"] {
        let done = finish(&mut tollgate(&["replay", log, "--limit", "60/min per ip", "--format", format]));
        assert_eq!(done.exit, 1, "{}", done.err);
        let place = format!("error: {log}:");
        assert!(done.err.starts_with(&place) && done.err.contains("the gzip breaks off here"), "{}", done.err);
        assert!(done.err.contains("copy the file again"), "{}", done.err);
        assert!(done.out.contains(if format == "text" { " admitted, " } else { r#""calls":"# }), "{}", done.out);
    }
    std::fs::write(log, &whole[..40]).unwrap();
    let done = finish(&mut tollgate(&["replay", log, "--limit", "60/min per ip"]));
    assert_eq!((done.exit, &*done.out), (1, ""), "{}", done.err);
    assert!(done.err.contains(&format!("{log}:1: the gzip breaks off here")), "{}", done.err);
}
