//! One trace, one quota, every algorithm: each decides call by call as an oracle of its own that shares no arithmetic.

use std::collections::HashMap;

use indicatif::ProgressBar;
use serde_json::Value;
use tollgate_sim::replay::{self, LogOptions, Reading, ReplayInput};

const TRACE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../traces/apache_combined_10k.log.gz");
const QUOTA: u64 = 4;
const BURST: u64 = 3;
const WIDTH_MS: u64 = 12_000;

/// Returns true if a call at this instant passes; the list holds the admitted instants of its caller.
type Oracle = fn(&[u64], u64) -> bool;

fn inside(admitted: &[u64], from: u64, to: u64) -> u64 {
    admitted.iter().filter(|at| (from..to).contains(*at)).count() as u64
}

fn sliding_log(admitted: &[u64], now: u64) -> bool {
    inside(admitted, now + 1 - WIDTH_MS, now + 1) < QUOTA
}

fn fixed_window(admitted: &[u64], now: u64) -> bool {
    inside(admitted, now / WIDTH_MS * WIDTH_MS, now + 1) < QUOTA
}

/// A9: four sub-windows of 3 s; the oldest counts by the share of it that is still inside, rounded down.
fn sliding_window(admitted: &[u64], now: u64) -> bool {
    let sub_window_ms = WIDTH_MS / 4;
    let current = now / sub_window_ms;
    let whole = inside(admitted, (current - 3) * sub_window_ms, now + 1);
    let oldest = inside(admitted, (current - 4) * sub_window_ms, (current - 3) * sub_window_ms);
    whole + oldest * (sub_window_ms - now % sub_window_ms) / sub_window_ms < QUOTA
}

/// Tokens, replayed from the first call on: 4 in 12 s, 3 at once; a token is 12,000, a millisecond brings 4.
fn bucket(admitted: &[u64], now: u64) -> bool {
    let (full, one) = (BURST * WIDTH_MS, WIDTH_MS);
    let (mut tokens, mut last) = (full, 0);
    for at in admitted {
        tokens = (tokens + (at - last) * QUOTA).min(full) - one;
        last = *at;
    }
    (tokens + (now - last) * QUOTA).min(full) >= one
}

/// A13, A3, A4, A8: the algorithm is chosen per rule, and each admits exactly the calls that it should.
#[test]
fn each_algorithm_admits_exactly_what_its_oracle_does() {
    let rules: [(&str, Oracle); 5] = [
        ("algorithm: sliding_log", sliding_log),
        ("algorithm: fixed_window", fixed_window),
        ("algorithm: sliding_window, sub_windows: 4", sliding_window),
        ("algorithm: token_bucket, burst: 3", bucket),
        ("algorithm: leaky_bucket, burst: 3", bucket),
    ];
    let mut counts = Vec::new();
    for (fields, oracle) in rules {
        let yaml = format!("rules: [{{ name: per-ip, per: [ip], quota: {QUOTA}/12s, {fields} }}]");
        let rules = tollgate_rules::from_yaml("rules.yaml", &yaml, 1).expect("valid rules");
        let reading = Reading { rules: &rules, options: &LogOptions::default(), shown: None };
        let input = ReplayInput::read(&[TRACE.into()], reading, &ProgressBar::hidden()).expect("a log");
        let mut out = Vec::new();
        let report = replay::run(&input, &rules, None, Some(&mut out), &ProgressBar::hidden()).expect("it is replayed");
        let mut admitted: HashMap<String, Vec<u64>> = HashMap::new();
        for (number, line) in String::from_utf8(out).expect("UTF-8").lines().enumerate() {
            let call: Value = serde_json::from_str(line).expect("JSON");
            let ip = call["descriptors"]["ip"].as_str().expect("an ip").to_owned();
            let now = call["time_ms"].as_u64().expect("a time");
            let times = admitted.entry(ip).or_default();
            let expected = oracle(times, now);
            assert_eq!(call["allowed"], expected, "{fields}: call {number} at {now}, after {times:?}");
            if expected {
                times.push(now);
            }
        }
        assert_eq!(report.admitted, admitted.values().map(|times| times.len() as u64).sum::<u64>(), "{fields}");
        counts.push(report.admitted);
    }
    println!("admitted of 10,000: {counts:?}");
    counts.dedup();
    assert!(counts.len() >= 4, "algorithms differ, and so do their counts: {counts:?}");
}
