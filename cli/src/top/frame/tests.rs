//! Tests of frames: all parts stand where a person expects them, and every frame fits its terminal.

use serde_json::{Value, json};

use super::*;
use crate::client::NoAnswer;
use crate::top::api::{TopData, TopQuestion};

const NOW: Timestamp = Timestamp::from_ms(1_795_801_067_209);

fn utf8() -> Glyphs {
    Glyphs::of_environment(|_| Some("C.UTF-8".to_owned()))
}

fn caller(rule: &str, label: &str, denied: u64) -> Value {
    let at = NOW.as_ms() - 64_000;
    json!({ "rule": rule, "caller": label, "admitted": 3, "denied": denied, "used_permille": 1_000, "quota": 3, "window_ms": 60_000, "first_denied_ms": at })
}

fn state(callers: &[Value], rules: usize, is_live: bool) -> TopState {
    let now_ms = NOW.as_ms();
    let rule = |number: usize| {
        let minute = json!({ "admitted": 107, "denied": 87, "shadow_denied": 0 });
        json!({ "rule": format!("rule-{number}"), "limits": [{ "quota": 3, "window_ms": 60_000 }], "last_minute": minute, "callers": { "estimate": 17 } })
    };
    let agent = json!({ "agent": "gw-1", "region": "eu", "seen_ms": now_ms - 300, "store": "ok", "rules_state": "refused", "clock_offset_ms": -2, "last_minute": { "admitted": 107, "denied": 87 } });
    let data = TopData {
        url: "http://127.0.0.1:8090".to_owned(),
        status: json!({
            "now_ms": now_ms, "scope": "fleet", "aggregator": "agg-1", "loading": false, "calls_per_s": 19.4, "denied_per_s": 8.7,
            "shadow_denied_per_s": 0.0, "lag_ms": 192, "agents": 1, "degraded_agents": [], "emergency": null, "silent": [], "problems": [],
        }),
        series: json!({ "points": [[now_ms - 3_000, 10, 5, 0, 10], [now_ms - 2_000, 20, 0, 0, 20]] }),
        rules: json!({ "rules": (0..rules).map(rule).collect::<Vec<_>>() }),
        callers: json!({ "now_ms": now_ms, "matched": 812, "callers": callers }),
        agents: json!({ "now_ms": now_ms, "agents": [agent] }),
    };
    TopState::new(TopQuestion { order: TopOrder::Denied, rule: None, minutes: 5 }, data, is_live)
}

fn texts(state: &TopState, size: FrameSize, glyphs: Glyphs) -> Vec<String> {
    frame(state, size, glyphs, NOW).into_iter().map(|(_, text)| text).collect()
}

/// H6: the calls and callers of the last minutes are read in a terminal.
#[test]
fn a_frame_has_the_state_sparklines_rules_callers_and_agents() {
    let callers = [caller("rule-0", "api_key=k17…1b23510c", 6), caller("rule-1", "ip=10.0.0.1", 5)];
    let text = texts(&state(&callers, 2, false), FrameSize::default(), utf8()).join("\n");
    insta::assert_snapshot!(text, @r"
    17:37:47 UTC   http://127.0.0.1:8090   agg-1
    19.4 calls/s   8.7 denied/s   lag 192 ms   1 agent
    admitted                                                           ▄█     20/s
    denied                                                             ▂       0/s
    rules, last minute                      quota callers admitted  denied in shadow
    rule-0                                  3/min      17      107      87         0
    rule-1                                  3/min      17      107      87         0

    1-2 of 812 callers by denials, last 5 min
    rule           caller                  admitted  denied  used     quota   since
    rule-0         api_key=k17…1b23510c           3       6  100%     3/min    64 s
    rule-1         ip=10.0.0.1                    3       5  100%     3/min    64 s

    agents, last minute region      admitted  denied store   rules    clock   heard
    gw-1                eu               107      87    ok refused    -2 ms     0 s
    ");
}

#[test]
fn every_frame_fits_its_terminal_whatever_the_labels_are() {
    let long = "x".repeat(300);
    let labels = [
        "東京都".repeat(40),
        long.clone(),
        "\x1b[2J\x1b]0;title\x07\r\n\u{202e}\u{9b}1m".repeat(9),
        "é".repeat(90),
        String::new(),
    ];
    let callers: Vec<Value> = labels.iter().cycle().take(60).map(|label| caller(label, label, u64::MAX)).collect();
    for (columns, rows) in [(80, 24), (40, 10), (200, 60), (20, 5), (1, 1), (0, 0)] {
        for (rules, is_live, glyphs) in
            [(0, true, utf8()), (3, false, utf8()), (30, true, Glyphs::of_environment(|_| None))]
        {
            let mut state = state(&callers, rules, is_live);
            let status = &mut state.data.status;
            status["aggregator"] = (&*labels[2]).into();
            status["problems"] = json!([{ "part": "kafka", "why": long }]);
            status["silent"] = json!([labels[0], labels[1]]);
            state.question.rule = Some(labels[2].clone());
            state.receive(Err(NoAnswer::Silent(labels[2].clone())), NOW);
            let lines = texts(&state, FrameSize { columns, rows }, glyphs);
            assert!(lines.len() < rows.max(2), "{columns} x {rows}: {lines:#?}");
            for line in lines {
                assert!(width(&line) <= columns, "{columns}: {line}");
                assert!(!line.chars().any(|c| c.is_control() || c == '\u{202e}'), "{line:?}");
            }
        }
    }
}

#[test]
fn alarms_and_a_lost_aggregator_are_told_above_the_data() {
    let mut state = state(&[], 1, false);
    let status = &mut state.data.status;
    status["degraded_agents"] = json!(["gw-2", "gw-3"]);
    status["refusing_agents"] = json!(["gw-4"]);
    status["emergency"] = "10/s".into();
    status["loading"] = true.into();
    status["silent"] = json!(["agg-2"]);
    status["problems"] = json!([{ "part": "kafka", "why": "no broker answers" }]);
    state.receive(Err(NoAnswer::Silent("connection refused".to_owned())), NOW.minus_ms(5_000));
    let lines = frame(&state, FrameSize::default(), utf8(), NOW);
    let alarms: Vec<&str> =
        lines.iter().filter(|(emphasis, _)| *emphasis == Emphasis::Alarm).map(|(_, text)| &**text).collect();
    assert_eq!(
        alarms,
        [
            "old data: no answer since 17:37:42 UTC (5 s): connection refused",
            "degraded: gw-2 and 1 more   rules refused: gw-4   emergency: 10/s",
            "silent: agg-2   loading",
            "kafka: no broker answers",
        ]
    );
    assert!(lines.iter().any(|(_, text)| text.starts_with("rule-0 ")), "the last data stay");
}

#[test]
fn callers_scroll_and_the_keys_stand_in_the_last_line() {
    let callers: Vec<Value> = (0..40).map(|number| caller("rule-0", &format!("ip=10.0.0.{number}"), 5)).collect();
    let mut state = state(&callers, 9, true);
    let page = callers_shown(&state, FrameSize::default(), utf8(), NOW);
    state.scroll = 12;
    let lines = texts(&state, FrameSize::default(), utf8());
    assert_eq!((lines.len(), &*lines[22]), (23, KEYS));
    let shown: Vec<&String> = lines.iter().filter(|line| line.contains("ip=10.0.0.")).collect();
    assert!(shown.len() == page && shown[0].contains("ip=10.0.0.12 "), "{lines:#?}");
    let heading = format!("13-{} of 812 callers by denials, last 5 min", 12 + page);
    assert!(lines.contains(&heading), "{lines:#?}");
    assert_eq!(lines.iter().filter(|line| line.starts_with("rule-") && !line.contains("ip=")).count(), 3);
}
