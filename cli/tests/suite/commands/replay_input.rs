//! `tollgate replay`: unreadable, late, long and hostile lines, archives, and files that must not be overwritten.

use std::os::unix::fs::symlink;
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::support::{file, finish, tollgate};

const LIMIT: [&str; 3] = ["replay", "--limit", "5/min per ip"];

fn call(minute: u32, second: u32) -> String {
    format!("203.0.113.7 - - [18/Nov/2024:16:{minute:02}:{second:02} +0000] \"GET / HTTP/1.1\" 200 1 \"-\" \"x\"\n")
}

/// Above 5%, nothing is replayed, and the error has the count and three places.
#[test]
fn too_many_unreadable_lines_fail_with_the_count_and_three_places() {
    let bad = "nonsense\n".repeat(6);
    let log = file("input/many.log", &(bad.clone() + &call(0, 1).repeat(113)));
    let done = finish(tollgate(&LIMIT).arg(&log));
    assert_eq!((done.exit, &*done.out), (1, ""), "{}", done.err);
    assert!(done.err.contains("6 of 119 lines cannot be read as calls, more than 5%"), "{}", done.err);
    assert_eq!(done.err.matches("many.log:").count(), 3, "{}", done.err);
    let log = file("input/few.log", &(bad + &call(0, 1).repeat(114)));
    let done = finish(tollgate(&LIMIT).arg(&log));
    assert_eq!(done.exit, 0, "{}", done.err);
    assert!(done.out.contains("6 lines could not be read, the first of them:"), "{}", done.out);
}

/// A server's messages between the calls are no wrong lines.
#[test]
fn messages_of_servers_are_passed_over() {
    let start = "/docker-entrypoint.sh: Configuration complete; ready for start up\n\
                 2024/11/18 16:55:00 [notice] 1#1: start worker processes\n";
    let log = file("input/messages.log", &(start.to_owned() + &call(0, 1)));
    let done = finish(tollgate(&LIMIT).arg(log).args(["--format", "json"]));
    let report: Value = serde_json::from_str(&done.out).unwrap_or_else(|error| panic!("{error}: {}", done.err));
    assert_eq!((&report["calls"], &report["bad_lines"], &report["messages"]), (&1.into(), &0.into(), &2.into()));
}

/// Lines within five minutes are sorted in silence; beyond that they are counted and told.
#[test]
fn lines_out_of_order_are_sorted_and_told_beyond_five_minutes() {
    let log = file("input/late.log", &[call(10, 0), call(5, 0), call(20, 0)].concat());
    let done = finish(tollgate(&LIMIT).arg(log));
    assert!(done.exit == 0 && !done.out.contains("older"), "{}", done.out);
    assert!(done.out.starts_with("3 calls from 2024-11-18 16:05:00 UTC to 2024-11-18 16:20:00 UTC"), "{}", done.out);
    let log = file("input/later.log", &[call(10, 0), call(4, 59), call(4, 0)].concat());
    let done = finish(tollgate(&LIMIT).arg(log));
    let said = done.out.replace('\n', " ");
    assert!(said.contains("2 calls are more than 5 min older than a call before them, first "), "{said}");
    assert!(said.contains("later.log:2; they are put in order"), "{said}");
}

#[test]
fn a_line_over_one_megabyte_is_skipped_and_counted() {
    let overlong = "x".repeat(3 << 20);
    let log = file("input/long.log", &format!("{}{overlong}\n{}", call(0, 1).repeat(20), call(0, 2)));
    let done = finish(tollgate(&LIMIT).arg(log));
    assert_eq!(done.exit, 0, "{}", done.err);
    let said = done.out.replace('\n', " ");
    assert!(said.starts_with("21 calls") && said.contains("longer than 1048576 bytes"), "{said}");
}

#[test]
fn an_empty_log_has_no_calls_and_an_archive_of_several_members_has_all() {
    let empty = file("input/empty.log", "");
    let done = finish(tollgate(&LIMIT).arg(empty));
    assert!(done.exit == 0 && done.out.starts_with("no calls"), "{}", done.err);
    let log = file("input/member.log", &call(0, 1));
    let archive = log.with_extension("gz");
    let both = format!("(gzip -c {0}; gzip -c {0}) > {1}", log.display(), archive.display());
    assert!(Command::new("sh").args(["-c", &both]).status().unwrap().success());
    let done = finish(tollgate(&LIMIT).arg(archive));
    assert!(done.exit == 0 && done.out.starts_with("2 calls"), "{}", done.err);
}

/// Times that cannot be once made a fleet run up to them for ever.
#[test]
fn an_absurd_time_is_refused_with_its_place() {
    for (name, time) in [
        ("max", "18446744073709551615"),
        ("float", "1e300"),
        ("negative", "-5"),
        ("text", "\"9999-12-31T23:59:59Z\""),
        ("between", "99999999999"),
    ] {
        let line = format!("{{\"time\": {time}, \"descriptors\": {{\"ip\": \"203.0.113.7\"}}}}\n");
        let log = file(&format!("input/absurd-{name}.jsonl"), &line);
        let done = finish(tollgate(&LIMIT).arg(log).args(["--agents", "3"]));
        assert_eq!((done.exit, &*done.out), (1, ""), "{name}: {}", done.err);
        assert!(done.err.contains(&format!("absurd-{name}.jsonl:1: `time` is ")), "{}", done.err);
    }
}

/// Seconds and milliseconds are told apart by their size.
#[test]
fn times_in_seconds_are_not_taken_for_milliseconds() {
    for (name, unit) in [("seconds", 1), ("milliseconds", 1_000), ("microseconds", 1_000_000)] {
        let line = |minute: u64| {
            let time = (1_731_948_900 + minute * 120) * unit;
            format!("{{\"time\": {time}, \"descriptors\": {{\"ip\": \"203.0.113.7\"}}}}\n")
        };
        let log = file(&format!("input/{name}.jsonl"), &(0..4).map(line).collect::<String>());
        let done = finish(tollgate(&["replay", "--limit", "1/min per ip"]).arg(log));
        assert!(
            done.out.starts_with("4 calls from 2024-11-18 16:55:00 UTC to 2024-11-18 17:01:00 UTC"),
            "{}",
            done.out
        );
        assert!(done.out.contains("4 admitted, 0 denied"), "{name}: {}", done.out);
    }
}

/// A log is written by strangers, and must not command the terminal of its reader.
#[test]
fn control_characters_of_a_log_are_escaped() {
    let hostile =
        "203.0.113.7 - \u{1b}]0;x\u{7}\u{9b}2J [18/Nov/2024:16:55:00 +0000] \"GET /\u{1b}[31m HTTP/1.1\" 200 1\n";
    let bad = "\u{1b}[2J - - [\u{1b}[31m] \"GET / HTTP/1.1\" 200 1\n";
    let log = file("input/hostile.log", &(hostile.repeat(40) + bad));
    let only_bad = file("input/hostile-bad.log", bad);
    for args in [
        &["replay", "--limit", "1/min per user, endpoint"][..],
        &["replay", "--limit", "1/min per user", "--format", "json"],
        &["replay", "--show"],
        &["replay", "--limit", "1/min per user", "--decisions", "-"],
    ] {
        for log in [&log, &only_bad] {
            let done = finish(tollgate(args).arg(log));
            let is_quiet = |text: &str| !text.chars().any(|c| c.is_control() && c != '\n');
            assert!(is_quiet(&done.out) && is_quiet(&done.err), "{args:?}: {:?} {:?}", done.out, done.err);
            assert!((done.out + &done.err).contains("1b"), "{args:?}: it is shown");
        }
    }
    let done = finish(&mut tollgate(&["check", "--agent", "http://127.0.0.1:1", "ip=\u{1b}[31m"]));
    assert!(!done.err.contains('\u{1b}'), "{:?}", done.err);
    let done = finish(&mut tollgate(&["check", "\u{1b}[31mx"]));
    assert!(done.exit == 2 && !done.err.contains('\u{1b}') && done.err.contains("write NAME=VALUE"), "{:?}", done.err);
}

/// The file of the decisions is never one that is read, whatever path leads to it.
#[test]
fn decisions_do_not_overwrite_the_log() {
    let text = call(0, 1);
    let log = file("input/kept.log", &text);
    let folder = log.parent().unwrap();
    let (link, hard) = (folder.join("kept.link"), folder.join("kept.hard"));
    for old in [&link, &hard] {
        // It remains from an earlier run.
        let _ = std::fs::remove_file(old);
    }
    symlink(&log, &link).unwrap();
    std::fs::hard_link(&log, &hard).unwrap();
    let around = folder.join("../input/kept.log");
    for target in [&log, &link, &hard, &around] {
        let done = finish(tollgate(&LIMIT).arg(&log).arg("--decisions").arg(target));
        assert_eq!((done.exit, &*done.out), (2, ""), "{}", done.err);
        assert!(done.err.contains("is the same file as") && done.err.contains("name another file"), "{}", done.err);
        assert_eq!(std::fs::read_to_string(&log).unwrap(), text);
    }
    let input = || Stdio::from(std::fs::File::open(&log).unwrap());
    let done = finish(tollgate(&LIMIT).args(["-", "--decisions"]).arg(&log).stdin(input()));
    assert_eq!((done.exit, std::fs::read_to_string(&log).unwrap()), (2, text.clone()), "{}", done.err);
    let rules = file("input/kept.yaml", "rules: [{ name: a, per: [ip], quota: 5/min }]");
    let done = finish(tollgate(&["replay", "--rules"]).arg(&rules).arg(&log).arg("--decisions").arg(&rules));
    assert_eq!(done.exit, 2, "{}", done.err);
    assert!(std::fs::read_to_string(&rules).unwrap().starts_with("rules:"));
}

/// The report for programs has all that the text has.
#[test]
fn the_json_report_has_the_limited_callers_and_the_timeline() {
    let log = file("input/report.log", &(0..8).map(|second| call(0, second)).collect::<String>());
    let done = finish(tollgate(&LIMIT).arg(log).args(["--format", "json"]));
    let report: Value = serde_json::from_str(&done.out).unwrap();
    let caller = serde_json::json!([{ "caller": "ip=203.0.113.7", "rule": "per-ip", "calls": 8, "denied": 3 }]);
    assert_eq!((&report["limited_callers"], &report["most_limited"]), (&1.into(), &caller));
    assert_eq!((&report["admitted"], &report["denied"]), (&5.into(), &3.into()));
    assert_eq!((&report["from"], &report["to"]), (&"2024-11-18T16:00:00Z".into(), &"2024-11-18T16:00:07Z".into()));
    assert_eq!(report["timeline"]["columns"][7], serde_json::json!([1, 1]));
    assert_eq!(report["rules"][0]["quota"], "5/min");
    assert_eq!(report["formats"]["common or combined (nginx, Apache)"], 8);
}
