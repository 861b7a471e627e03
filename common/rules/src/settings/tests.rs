//! Consistency of the table itself; the language that it reads is tested in `file`.

use std::collections::HashSet;

use super::table::TABLE;
use super::*;

const FULL: &str = "
descriptors: { tier: { jwt: tier } }
rules:
  - name: a
    match: { ip: 10.* }
    group: g
    per: [ip]
    quota: { from: limit, default: 9/s }
    burst: 18
    keys: { k: { quota: 8/s } }
    tiers: { pro: { quota: 7/s } }
    cost: 2
    costs: { method: { GET: 1 } }
    charge: all_or_none
    shadow: true
    answer: { status: 503, fields: { plan: 7 }, hide: RateLimit }
  - { name: b, per: [], quota: 1/s, algorithm: fixed_window, charge: each, replaces: [a] }
";

#[test]
fn names_of_settings_texts_and_json_fields_are_unique() {
    let set = crate::from_yaml("rules.yaml", FULL, 1).expect("valid");
    for rule in &set.rules {
        let policy = rule.policy.as_ref().expect("limits");
        let (mut names, mut texts, mut fields) = (HashSet::new(), HashSet::new(), HashSet::new());
        for setting in &TABLE {
            assert!(names.insert(setting.key.name), "{}", setting.key.name);
            let mut shown = Shown::default();
            (setting.of_rule)(rule, &mut shown);
            (setting.of_policy)(policy, &mut shown);
            assert!(shown.texts.iter().all(|(name, _)| texts.insert(*name)), "{:?}", shown.texts);
            assert!(shown.json.into_iter().all(|(field, _)| fields.insert(field)), "{}", setting.key.name);
        }
        assert_eq!((texts.len(), fields.len()), (if &*rule.name == "a" { 19 } else { 15 }, 31));
    }
}

#[test]
fn aliases_of_settings_exist() {
    for setting in &TABLE {
        if let ValueParser::PolicyAlias(slot, _) = setting.parser {
            let of = TABLE.iter().find(|other| other.key.name == slot);
            assert!(of.is_some_and(|other| matches!(other.parser, ValueParser::Policy(_))), "{slot}");
        }
    }
}

/// Parsing and display use the same words.
#[test]
fn a_policy_is_shown_as_it_is_written() {
    let rules = "rules: [{ name: a, per: [ip], quota: 9/s, burst: 18, estimate: conservative, sub_windows: 4, on_failure: open, deadline: 7ms }]";
    let set = crate::from_yaml("rules.yaml", rules, 1).expect("valid");
    let rule = &set.rules[0];
    let shown = Shown::of_policy(rule, rule.policy.as_ref());
    let texts: Vec<String> = shown.texts.iter().map(|(name, text)| format!("{name}: {text}")).collect();
    let expected = [
        "quota: 9/s",
        "algorithm: sliding_window, 4 x 250 ms, conservative",
        "burst: 18",
        "consistency: bounded",
        "on_failure: open",
        "deadline: 7 ms",
    ];
    assert_eq!(texts, expected);
    assert_eq!(shown.json["deadline_ms"], 7);
    let unlimited = Shown::of_policy(rule, None);
    assert_eq!((&unlimited.json["algorithm"], unlimited.cell(QUOTA_COLUMN)), (&"unlimited".into(), "unlimited".into()));
    assert!(unlimited.json["quota"].is_null() && unlimited.json.len() == shown.json.len());
    assert_eq!(unlimited.texts, [("quota", "unlimited".to_owned())]);
}
