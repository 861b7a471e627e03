//! Tests of the rules file: accepted language, refusals, and decisions.

mod schema;
mod deciding;
mod groups;
mod language;
mod eventual;
mod refusals;
mod regions;
mod never_matches;
mod own_answers;
mod overrides;
mod several_files;
mod without_effect;

use super::super::*;
use tollgate_core::algorithm::Algorithm;
use tollgate_core::rules::{Consistency, OnFailure, Rule};
use tollgate_core::window::Estimate;

fn refusal(yaml: &str) -> String {
    let text = crate::from_yaml("rules.yaml", yaml, 1).expect_err("must be refused").to_string();
    if text.contains("unknown field") {
        schema::must_not_validate(yaml);
    }
    text
}

fn accepted(yaml: &str) -> RuleSet {
    let set = crate::from_yaml("rules.yaml", yaml, 1).unwrap_or_else(|error| panic!("{error}"));
    schema::must_validate(yaml);
    set
}

#[test]
fn a_full_file_reads_as_written() {
    let set = accepted(
        "version: 7
descriptors:
  api_key: { header: X-Api-Key }
  ip: { client_ip: { trusted_hops: 1, ipv6_prefix: 56 } }
  verb: method
defaults: { consistency: strict, on_failure: open, deadline: 8ms }
rules:
  - name: per-key
    per: [api_key]
    quota: 100/min
  - name: login
    match: { endpoint: /login*, verb: POST }
    per: ip
    quota: 5/15min
    algorithm: sliding_log
    on_failure: limit 3/min
  - { name: all, per: [], quota: 9000/s, sub_windows: 4, consistency: bounded, estimate: conservative }
",
    );
    assert_eq!(set.generation, 7);
    let [key, login, all] = &set.rules[..] else { panic!("three rules") };
    let policy = |rule: &Rule| rule.policy.unwrap();
    assert_eq!(
        policy(key).algorithm,
        Algorithm::SlidingWindow(Estimate::Conservative),
        "strict is conservative by default"
    );
    assert_eq!(
        (policy(key).on_failure, policy(key).deadline.as_millis(), policy(key).window.sub_windows()),
        (OnFailure::Open, 8, 12)
    );
    assert_eq!((policy(login).algorithm, login.per.len(), login.matches.len()), (Algorithm::SlidingLog, 1, 2));
    assert!(matches!(policy(login).on_failure, OnFailure::Limit(quota) if quota.units() == 3));
    assert_eq!(
        (all.per.len(), policy(all).window.sub_windows(), policy(all).consistency),
        (0, 4, Consistency::Bounded)
    );
    assert!(set.is_secret("api_key") && !set.is_secret("ip") && !set.is_secret("endpoint"));
}

#[test]
fn a_file_without_version_has_the_generation_of_its_loading() {
    assert_eq!(accepted("rules: [{ name: a, per: [ip], quota: 1/s }]").generation, 1);
}

#[test]
fn an_unknown_field_is_refused_with_its_line_and_the_likely_name() {
    let text = refusal("rules:\n  - name: a\n    per: [ip]\n    quotta: 1/s\n    quota: 1/s\n");
    assert_eq!(text, "rules.yaml:4: unknown field `quotta` in a rule; did you mean `quota`?");
}

#[test]
fn all_problems_are_reported_at_once() {
    let text = refusal(
        "rules:
  - name: a
    per: [ip]
    quota: 0/min
  - name: b
    quota: 10/min
  - name: c
    per: [ip]
    quota: 10/s
    sub_windows: 7
",
    );
    assert_eq!(
        text.lines().collect::<Vec<_>>(),
        [
            "rules.yaml:4: a quota of 0 would deny every call; write at least 1, or leave the rule out",
            "rules.yaml:5: the rule has no `per`; write the descriptors to count by, or `per: []` for one counter for all calls",
            "rules.yaml:10: 7 sub-windows do not divide 1000 ms into whole milliseconds; leave `sub_windows` out to have it chosen",
        ]
    );
}

#[test]
fn broken_yaml_names_its_line() {
    assert!(refusal("rules:\n  - name: [a\n").starts_with("rules.yaml:"));
    for (text, told) in [
        (
            "a: 1\na: 2\n",
            "rules.yaml:2: this YAML cannot be read: duplicated key in mapping; keep one of the two lines",
        ),
        ("rules:\n\t- name: a\n", "(block indentation); indent with spaces"),
        ("rules: \0\n", "check the"),
        ("rules: [a\nb: 1\n", "check the indentation, the closing quotes and brackets"),
    ] {
        let refused = refusal(text);
        assert!(refused.contains(told), "{refused}");
    }
    assert!(refusal("").contains("empty"));
    assert!(refusal("[]").contains("must be a mapping"));
    assert!(refusal("rules: 5").contains("must be a mapping"), "a word is no rule");
    assert!(refusal("descriptors: { a: { header: x } }").contains("no `rules:`"));
}

#[test]
fn an_undeclared_descriptor_is_a_warning() {
    let set = accepted("rules: [{ name: a, per: [api_kye], quota: 1/s, consistency: strict }]");
    assert_eq!(set.warnings.len(), 1);
    assert!(set.warnings[0].text.ends_with("did you mean `api_key`?"), "{}", set.warnings[0]);
}
