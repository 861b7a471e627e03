//! Replay against an oracle written apart: a plain list of timestamps, no shared arithmetic.

use std::collections::{BTreeSet, HashMap};
use std::num::NonZeroU32;
use std::path::PathBuf;

use indicatif::ProgressBar;
use serde_json::Value;
use tollgate::RuleSet;
use tollgate_sim::replay::{self, LogOptions, Reading, ReplayFleet, ReplayInput, ReplayReport};

const TRACE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../traces/apache_combined_10k.log.gz");

fn read(paths: &[PathBuf], rules: &RuleSet) -> ReplayInput {
    let reading = Reading { rules, options: &LogOptions::default(), shown: None };
    ReplayInput::read(paths, reading, &ProgressBar::hidden()).expect("a log that can be read")
}

fn replay(input: &ReplayInput, rules: &RuleSet) -> (ReplayReport, Vec<Value>) {
    replay_by(None, input, rules)
}

fn replay_by(fleet: Option<ReplayFleet>, input: &ReplayInput, rules: &RuleSet) -> (ReplayReport, Vec<Value>) {
    let mut out = Vec::new();
    let report = replay::run(input, rules, fleet, Some(&mut out), &ProgressBar::hidden());
    let report = report.expect("memory can be written");
    let text = String::from_utf8(out).expect("JSON is UTF-8");
    (report, text.lines().map(|line| serde_json::from_str(line).expect("a line is JSON")).collect())
}

fn rules(fields: &str) -> RuleSet {
    let yaml = format!("rules: [{{ name: per-ip, per: [ip], {fields} }}]");
    tollgate_rules::from_yaml("rules.yaml", &yaml, 1).expect("valid rules")
}

fn log(lines: &[&str]) -> (PathBuf, impl Drop + use<>) {
    struct Gone(PathBuf);
    impl Drop for Gone {
        fn drop(&mut self) {
            // A file that remains in the folder for temporary files is harmless.
            let _ = std::fs::remove_file(&self.0);
        }
    }
    let name = format!("tollgate-replay-{}-{:?}.log", std::process::id(), std::thread::current().id());
    let path = std::env::temp_dir().join(name);
    std::fs::write(&path, lines.join("\n")).expect("a file can be written");
    (path.clone(), Gone(path))
}

/// The decisions as (time, caller, allowed).
fn decisions(lines: &[Value]) -> Vec<(u64, String, bool)> {
    let one = |line: &Value| {
        let ip = line["descriptors"]["ip"].as_str().expect("every call has an ip").to_owned();
        (line["time_ms"].as_u64().expect("a time"), ip, line["allowed"].as_bool().expect("a verdict"))
    };
    lines.iter().map(one).collect()
}

/// A1: call by call as an exact oracle; times of whole seconds make ties at exactly W, which are out of the window.
#[test]
fn a_sliding_log_decides_call_by_call_as_a_plain_list() {
    for (quota, limit, width_ms) in [("60/min", 60, 60_000), ("5/10s", 5, 10_000), ("20/h", 20, 3_600_000)] {
        let rules = rules(&format!("quota: {quota}, algorithm: sliding_log"));
        let input = read(&[TRACE.into()], &rules);
        let (report, lines) = replay(&input, &rules);
        let mut admitted: HashMap<String, Vec<u64>> = HashMap::new();
        let (mut denied, mut last) = (0, 0);
        for (number, (at, ip, allowed)) in decisions(&lines).into_iter().enumerate() {
            assert!(at >= last, "calls come in order of time");
            last = at;
            let times = admitted.entry(ip).or_default();
            let inside = times.iter().filter(|t| **t + width_ms > at).count();
            assert_eq!(allowed, inside < limit, "call {number} at {at} with {inside} in the window");
            if allowed { times.push(at) } else { denied += 1 }
        }
        assert_eq!((report.calls, lines.len(), report.bad_lines), (10_000, 10_000, 0));
        assert_eq!(report.rules[0].counters, 1_753);
        assert_eq!(
            (report.rules[0].denied, report.rules[0].over_admitted, report.rules[0].under_admitted),
            (denied, 0, 0)
        );
    }
}

/// never-over: conservative, no true window holds more than the quota, whatever the number of sub-windows.
#[test]
fn a_conservative_window_is_never_over() {
    let mut under = 0;
    for (limit, width_ms, fields) in [
        (20, 60_000, "quota: 20/min, estimate: conservative, sub_windows: 1"),
        (20, 60_000, "quota: 20/min, consistency: strict"),
        (3, 10_000, "quota: 3/10s, estimate: conservative, sub_windows: 5"),
    ] {
        let rules = rules(fields);
        let (report, lines) = replay(&read(&[TRACE.into()], &rules), &rules);
        let mut admitted: HashMap<String, Vec<u64>> = HashMap::new();
        for (at, ip, _) in decisions(&lines).into_iter().filter(|(_, _, allowed)| *allowed) {
            let times = admitted.entry(ip).or_default();
            times.push(at);
            assert!(times.iter().filter(|t| **t + width_ms > at).count() <= limit, "{fields}");
        }
        assert_eq!(report.rules[0].over_admitted, 0);
        under += report.rules[0].under_admitted;
    }
    assert!(under > 0, "being never over has its price, and it is told");
}

/// A10: the report shows the error of interpolation; it equals that of a plain list and shrinks with more sub-windows.
#[test]
fn the_report_shows_the_error_of_interpolation() {
    let mut errors = Vec::new();
    for parts in [1, 4, 12] {
        let rules = rules(&format!("quota: 20/min, estimate: interpolated, sub_windows: {parts}"));
        let (report, lines) = replay(&read(&[TRACE.into()], &rules), &rules);
        let mut admitted: HashMap<String, Vec<u64>> = HashMap::new();
        let (mut over, mut under) = (0, 0);
        for (at, ip, allowed) in decisions(&lines) {
            let times = admitted.entry(ip).or_default();
            let inside = times.iter().filter(|t| **t + 60_000 > at).count();
            match allowed {
                true if inside >= 20 => over += 1,
                false if inside < 20 => under += 1,
                _ => {}
            }
            if allowed {
                times.push(at);
            }
        }
        assert_eq!(
            (report.rules[0].over_admitted, report.rules[0].under_admitted),
            (over, under),
            "{parts} sub-windows"
        );
        errors.push(over + under);
    }
    assert!(errors[2] <= errors[0], "{errors:?}");
}

/// Bad lines are counted and shown; unsorted input is put in order, ties in the order of the file.
#[test]
fn bad_and_unsorted_lines_are_taken_in_stride() {
    let (path, _gone) = log(&[
        r#"{"time": 2000, "descriptors": {"ip": "b"}}"#,
        "nonsense",
        r#"{"time": "1970-01-01T00:00:01Z", "descriptors": {"ip": "a"}, "cost": 2}"#,
        r#"{"time": 2000, "descriptors": {"ip": "c"}, "cost": 0}"#,
        "",
        r#"{"time": 2000, "descriptors": {"ip": "d"}}"#,
        r#"10.0.0.1 - - [01/Jan/1970:00:00:01 +0000] "GET /users/7?x HTTP/1.1" 200 1"#,
    ]);
    let rules = rules("quota: 2/s, algorithm: sliding_log");
    let input = read(&[path], &rules);
    let (report, lines) = replay(&input, &rules);
    let order: Vec<_> = decisions(&lines).into_iter().map(|(at, ip, _)| (at, ip)).collect();
    let expected = [(1_000, "a"), (1_000, "10.0.0.1"), (2_000, "b"), (2_000, "d")];
    assert_eq!(order, expected.map(|(at, ip)| (at, ip.to_owned())));
    assert_eq!(lines[1]["descriptors"]["endpoint"], "/users/{id}");
    assert_eq!((lines[0]["cost"].as_u64(), lines[0]["remaining"].as_u64()), (Some(2), Some(0)));
    assert_eq!((report.calls, report.bad_lines), (4, 2));
    let places: Vec<_> =
        report.bad_lines_shown.iter().map(|bad| bad.place.rsplit(':').next().unwrap_or_default()).collect();
    assert_eq!(places, ["2", "4"]);
}

/// B5: limits apply all at once; a call that one rule denies charges none, and counts as denied in that rule alone.
#[test]
fn a_denied_call_is_denied_in_one_rule_and_charged_in_none() {
    let lines: Vec<String> = (0..10)
        .map(|i| format!(r#"{{"time": {}, "descriptors": {{"ip": "a", "user": "u{}"}}}}"#, 1_000 + i, i % 2))
        .collect();
    let (path, _gone) = log(&lines.iter().map(String::as_str).collect::<Vec<_>>());
    let yaml = "rules: [{ name: user, per: [user], quota: 2/s, algorithm: sliding_log }, { name: ip, per: [ip], quota: 5/s, algorithm: sliding_log }]";
    let rules = tollgate_rules::from_yaml("rules.yaml", yaml, 1).expect("valid rules");
    let (report, lines) = replay(&read(&[path], &rules), &rules);
    let [user, ip] = &report.rules[..] else { panic!("two rules") };
    assert_eq!((user.calls, user.admitted, user.denied, user.counters), (10, 4, 6, 2));
    assert_eq!((ip.calls, ip.admitted, ip.denied, ip.under_admitted), (10, 4, 0, 0));
    assert_eq!(lines[9]["rule"], "user");
    assert_eq!(lines[3]["rule"], "user", "the rule with the fewest units left");
}

fn fleet(agents: u32, signal_delay_ms: u64, store_delay_ms: u64) -> ReplayFleet {
    ReplayFleet { agents: NonZeroU32::new(agents).expect("agents"), signal_delay_ms, store_delay_ms, seed: 1 }
}

/// B2, never-over: agents that share a store admit the quota between them, and the report judges each answer at its instant, as
/// a plain list does.
#[test]
fn a_strict_fleet_is_never_over_and_judged_at_the_instants_of_its_answers() {
    let rules = rules("quota: 20/min, consistency: strict");
    let input = read(&[TRACE.into()], &rules);
    let (report, lines) = replay_by(Some(fleet(3, 500, 4)), &input, &rules);
    assert_eq!((report.calls, lines.len()), (10_000, 10_000));
    let mut admitted: HashMap<&str, Vec<u64>> = HashMap::new();
    let (mut under, mut last, mut agents, mut waited) = (0, 0, BTreeSet::new(), 0);
    for line in &lines {
        let number = |name: &str| line[name].as_u64().expect("a number");
        let at = number("answered_ms");
        assert!(at >= last, "answers come in order of time");
        last = at;
        agents.insert(number("agent"));
        waited = waited.max(at - number("time_ms"));
        let times = admitted.entry(line["descriptors"]["ip"].as_str().expect("an ip")).or_default();
        let inside = times.iter().filter(|t| **t + 60_000 > at).count();
        if line["allowed"] == true {
            assert!(inside < 20, "{inside} admissions before {line}");
            times.push(at);
        } else {
            under += u64::from(inside < 20);
        }
    }
    assert_eq!((report.rules[0].over_admitted, report.rules[0].under_admitted), (0, under));
    assert_eq!((agents, report.rules[0].worst_window), (BTreeSet::from([1, 2, 3]), 20));
    assert!((4..=15).contains(&waited), "{waited} ms");
}

/// E4: late signals let calls through where they alone decide, and more of them the later they are.
#[test]
fn late_signals_admit_more_calls_past_the_quota() {
    let rules = rules("quota: 20/min, consistency: eventual");
    let input = read(&[TRACE.into()], &rules);
    let over = |delay_ms| replay_by(Some(fleet(5, delay_ms, 1)), &input, &rules).0.rules[0].over_admitted;
    let (soon, late) = (over(5), over(1_000));
    println!("{soon} over-admitted, {late} with late signals");
    assert!(late > soon, "{soon} {late}");
}
