//! `--decision-log`: lines of single decisions in a file and on stderr.

use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::support::{Up, file, finish, tollgate, wait_for};

fn log_file(name: &str) -> PathBuf {
    let path = file(name, "");
    std::fs::remove_file(&path).unwrap();
    path
}

fn lines(path: &Path) -> Vec<Value> {
    let text = std::fs::read_to_string(path).unwrap_or_default();
    text.lines().map(|line| serde_json::from_str(line).expect("a JSON object")).collect()
}

/// Starts `tollgate up` with a decision log in a file.
fn start(path: &Path, more: &[&str]) -> Up {
    let path = path.display().to_string();
    Up::start(&[&["--limit", "1/min per api_key", "--decision-log", &path], more].concat())
}

/// L8: each denial has a line, and none of the admissions at 0%. Secrets are digested; the answer's id leads to the line.
#[test]
fn each_denial_leaves_a_line() {
    let path = log_file("decision-log-denials.jsonl");
    let up = start(&path, &["--decision-log-admissions", "0%"]);
    let mut client = up.client();
    let answers: Vec<_> = (0..3).map(|_| client.check("secret-key")).collect();
    assert_eq!(answers.iter().map(|answer| answer.status).collect::<Vec<_>>(), [200, 429, 429]);
    let logged = wait_for("both lines", || Some(lines(&path)).filter(|lines| lines.len() == 2));
    for (line, answer) in logged.iter().zip(&answers[1..]) {
        assert_eq!(
            (&line["allowed"], &line["rule"], &line["cause"]),
            (&false.into(), &"per-api_key".into(), &"count".into())
        );
        assert_eq!((&line["limit"], &line["agent"]), (&1.into(), &"gw-1".into()), "{line}");
        assert_eq!(line["id"].as_str(), answer.json()["id"].as_str(), "{line}");
        assert!(!line.to_string().contains("secret"), "{line}");
    }
    up.signal("TERM");
    assert_eq!(up.end().0.code(), Some(0));
    assert_eq!(lines(&path).len(), 2);
}

/// L8: the sample, one denial a minute of a caller, and the cap with its count.
#[test]
fn rates_and_the_cap_hold() {
    let path = log_file("decision-log-rates.jsonl");
    let up = start(&path, &["--decision-log-admissions", "10%", "--decision-log-denials", "once"]);
    let mut client = up.client();
    let denied = (0..300).flat_map(|_| ["a", "b"]).filter(|key| client.check(key).status == 429).count();
    assert!(denied >= 590, "{denied}");
    let admitted = (0..200).filter(|n| client.check(&format!("k{n}")).status == 200).count();
    up.signal("TERM");
    assert_eq!(up.end().0.code(), Some(0));
    let logged = lines(&path);
    let of_denials = logged.iter().filter(|line| line["allowed"] == false).count();
    // A minute may have ended meanwhile.
    assert!((2..=4).contains(&of_denials), "{of_denials} of {denied}");
    let sampled = logged.len() - of_denials;
    assert!((10..=32).contains(&sampled), "{sampled} of {admitted}");
    assert!(logged.iter().all(|line| line["one_of"] == if line["allowed"] == true { 10.0 } else { 1.0 }));

    let capped = log_file("decision-log-cap.jsonl");
    let up = start(&capped, &["--decision-log-lines-max", "1"]);
    let mut client = up.client();
    let denied = (0..200).filter(|_| client.check("a").status == 429).count();
    let metrics = client.get("/metrics", &[]).text().to_owned();
    let metric = |name: &str| -> usize {
        let line = metrics.lines().find_map(|line| line.strip_prefix(name)).expect("the metric");
        line.trim().parse().expect("a number")
    };
    let skipped = metric("tollgate_decision_log_skipped_total ");
    up.signal("TERM");
    let (_, err) = up.end();
    // The admitted call is part of a sample of 1%.
    assert!(denied - lines(&capped).len() <= skipped && skipped <= denied, "{denied} {skipped}");
    assert!(skipped > 0 && err.contains("decision log: decisions have no line"), "{err}");
}

/// A shadow rule denies nothing, and its verdict is a line.
#[test]
fn a_verdict_in_shadow_leaves_a_line() {
    let path = log_file("decision-log-shadow.jsonl");
    let up = start(&path, &["--shadow", "--decision-log-admissions", "0%"]);
    let mut client = up.client();
    assert!((0..3).all(|_| client.check("k").status == 200));
    let logged = wait_for("both lines", || Some(lines(&path)).filter(|lines| lines.len() == 2));
    assert!(logged.iter().all(|line| line["allowed"] == true && line["shadow_denied"] == true), "{logged:?}");
}

#[test]
fn lines_go_to_stderr_between_those_of_the_log() {
    let up = Up::start(&["--limit", "1/min per api_key", "--decision-log", "stderr"]);
    let mut client = up.client();
    assert_eq!([client.check("k").status, client.check("k").status], [200, 429]);
    up.signal("TERM");
    let (_, err) = up.end();
    let line = err.lines().find(|line| line.starts_with('{')).expect("a JSON line");
    let line: Value = serde_json::from_str(line).expect("a JSON object");
    assert_eq!(line["rule"], "per-api_key");
}

/// Each wrong flag is refused with what to write instead.
#[test]
fn wrong_flags_are_refused_with_a_remedy() {
    let cases: [(&[&str], i32, &str); 6] = [
        (&["--decision-log", "/nowhere/log"], 1, "cannot write /nowhere/log; create its folder"),
        (&["--decision-log", "kafka"], 2, "--decision-log kafka needs --kafka BROKERS"),
        (&["--decision-log", "stderr", "--decision-log-admissions", "0.001%"], 2, "at least 0.01%"),
        (&["--decision-log", "stderr", "--decision-log-admissions", "2"], 2, "such as 1% or 0.05%"),
        (&["--decision-log", "stderr", "--decision-log-denials", "none"], 2, "[possible values: all, once]"),
        (&["--decision-log-denials", "once"], 2, "--decision-log <stderr|kafka|FILE>"),
    ];
    for (args, exit, told) in cases {
        let refused = finish(tollgate(&["up", "--http", "127.0.0.1:0"]).args(args));
        assert!(refused.exit == exit && refused.err.contains(told), "{args:?}: {}", refused.err);
    }
}
