//! `tollgate quota`: what a caller has left under each rule.

use serde_json::{Value, json};

use crate::support::{Finished, Up, file, finish, tollgate, wait_for};

const RULES: &str = "\
rules:
  - { name: per-key, per: [api_key], quota: 5/min }
  - { name: search, match: { endpoint: /search* }, per: [api_key], quota: 3/min }
  - { name: trial, per: [api_key], quota: 2/min, shadow: true }
lists: { deny: [{ api_key: bad }] }
";

fn quota(up: &Up, args: &[&str]) -> Finished {
    finish(tollgate(&["quota", "--agent", &up.url()]).args(args))
}

/// Returns rule, used and left of each row.
fn rows(said: &Finished) -> Vec<[Value; 3]> {
    let quotas: Value = serde_json::from_str(&said.out).unwrap();
    let rules = quotas["rules"].as_array().unwrap().iter();
    rules.map(|rule| ["rule", "used", "left"].map(|key| rule[key].clone())).collect()
}

/// H6: the usage of a caller can be read under each rule, and the question charges nothing.
#[test]
fn each_rule_of_a_caller_is_told_and_nothing_is_charged() {
    let path = file("quota.yaml", RULES);
    let up = Up::start(&["--rules", path.to_str().unwrap()]);
    let mut client = up.client();
    for endpoint in ["/search", "/search", "/other"] {
        client.post(&json!({ "descriptors": { "api_key": "k9", "endpoint": endpoint } }).to_string());
    }
    for _ in 0..3 {
        let said = quota(&up, &["api_key=k9", "endpoint=/search?q=tea", "--format", "json"]);
        assert_eq!((said.exit, &*said.err), (0, ""));
        let expected = [json!(["per-key", 3, 2]), json!(["search", 2, 1]), json!(["trial", null, null])];
        assert_eq!(json!(rows(&said)), json!(expected));
    }
    let other = quota(&up, &["api_key=k9", "--format", "json"]);
    assert_eq!(json!(rows(&other)), json!([["per-key", 3, 2], ["trial", null, null]]));
    let text = quota(&up, &["api_key=k9", "endpoint=/search"]);
    let lines: Vec<Vec<&str>> = text.out.lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(lines[0], ["RULE", "USED", "LEFT", "QUOTA", "RESET"]);
    assert_eq!(lines[2][..5], ["search", "2", "1", "3/min", "in"], "{}", text.out);
    assert!(text.out.lines().all(|line| line.chars().count() <= 80), "{}", text.out);
}

#[test]
fn a_used_up_quota_and_a_denied_caller_are_answers_with_exit_code_0() {
    let path = file("quota-used-up.yaml", RULES);
    let up = Up::start(&["--rules", path.to_str().unwrap()]);
    let mut client = up.client();
    (0..9).for_each(|_| drop(client.check("k9")));
    let used_up = quota(&up, &["api_key=k9", "--format", "json"]);
    assert_eq!((used_up.exit, rows(&used_up)[0].clone()), (0, ["per-key".into(), 5.into(), 0.into()]));
    let denied = quota(&up, &["api_key=bad"]);
    assert!(denied.exit == 0 && denied.out.contains("Always denied by lists.deny."), "{}", denied.out);
    let free = quota(&up, &["tenant=t"]);
    assert_eq!((free.exit, free.out.trim_end()), (0, "no rule limits this call"));
}

#[test]
fn if_no_agent_answers_it_is_4_and_wrong_usage_2() {
    let silent = finish(&mut tollgate(&["quota", "api_key=k9", "--agent", "127.0.0.1:1"]));
    assert_eq!((silent.exit, &*silent.out), (4, ""));
    assert!(silent.err.contains("tollgate up") && silent.err.contains("--agent"), "{}", silent.err);
    for args in [&["quota"][..], &["quota", "api_key"], &["quota", "a=1", "a=2"]] {
        assert_eq!(finish(&mut tollgate(args)).exit, 2, "{args:?}");
    }
}

/// H6: an aggregator tells the usage of a caller under each rule now and over time, by the descriptors that the caller sends.
#[test]
fn the_usage_of_a_caller_is_told_over_time() {
    let path = file("quota-usage.yaml", RULES);
    let up = Up::start(&["--rules", path.to_str().unwrap()]);
    let mut client = up.client();
    for (key, endpoint) in [("k9", "/search"), ("k9", "/other"), ("k8", "/search")] {
        client.post(&json!({ "descriptors": { "api_key": key, "endpoint": endpoint } }).to_string());
    }
    let expected = json!([["per-key", 5, 2, 3, 2], ["search", 3, 1, 2, 1], ["trial", 2, 2, 0, 2]]);
    let of_rule = |rule: &Value| {
        let units: i64 = rule["points"].as_array()?.iter().filter_map(|point| point[4].as_i64()).sum();
        Some(json!([rule["rule"], rule["quota"], rule["used"], rule["left"], units]))
    };
    let usage = wait_for("the usage of each rule", || {
        let usage = client.get("/api/v1/usage?api_key=k9", &[]).json();
        let mut rules: Vec<_> = usage["usage"].as_array()?.iter().filter_map(of_rule).collect();
        rules.sort_by_key(Value::to_string);
        (json!(rules) == expected).then_some(usage)
    });
    assert_eq!((&usage["exact"], &usage["usage"][0]["reset_ms_max"]), (&json!(true), &json!(60_000)));
    assert_eq!(client.get("/api/v1/usage?api_key=nobody", &[]).json()["usage"], json!([]));
    for (path, told) in
        [("/api/v1/usage", "such as /api/v1/usage?api_key=k9"), ("/api/v1/usage?api_key=k&minutes=x", "write a number")]
    {
        let refused = client.get(path, &[]);
        assert!(refused.status == 400 && refused.text().contains(told), "{}", refused.text());
    }
}
