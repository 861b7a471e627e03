//! Consistency of the table itself; the language that it reads is tested in `file`.

use std::collections::HashSet;

use super::policy_values::ALGORITHMS;
use super::*;

#[test]
fn names_of_settings_labels_and_json_fields_are_unique() {
    let (mut names, mut labels, mut fields) = (HashSet::new(), HashSet::new(), HashSet::new());
    for setting in &TABLE {
        assert!(names.insert(setting.name), "{}", setting.name);
        for label in [setting.of_rule.label, setting.of_policy.label] {
            assert!(label.is_empty() || labels.insert(label), "{label}");
        }
        let of_policy = setting.of_policy.json.iter().map(|field| field.0);
        for field in setting.of_rule.json.iter().map(|field| field.0).chain(of_policy) {
            assert!(fields.insert(field), "{field}");
        }
    }
}

#[test]
fn algorithms_and_aliases_of_settings_exist() {
    for setting in &TABLE {
        let algorithms = setting.algorithms.iter().flat_map(|list| list.names);
        for name in algorithms {
            assert!(ALGORITHMS.iter().any(|(known, _)| known == name), "{}: {name}", setting.name);
        }
        if let ValueParser::PolicyAlias(slot, _) = setting.parser {
            let of = TABLE.iter().find(|other| other.name == slot);
            assert!(of.is_some_and(|other| matches!(other.parser, ValueParser::Policy(_))), "{slot}");
        }
    }
}

/// Parsing and display use the same words.
#[test]
fn a_policy_is_shown_as_it_is_written() {
    let rules = "rules: [{ name: a, per: [ip], quota: 9/s, burst: 18, estimate: conservative, sub_windows: 4, on_failure: open, deadline: 7ms }]";
    let set = crate::from_yaml("rules.yaml", rules, 1).expect("valid");
    let policy = set.rules[0].policy.as_ref();
    let texts: Vec<String> = policy_texts(policy).into_iter().map(|(name, text)| format!("{name}: {text}")).collect();
    let expected = [
        "quota: 9/s",
        "algorithm: sliding_window, 4 x 250 ms, conservative",
        "burst: 18",
        "consistency: bounded",
        "on_failure: open",
        "deadline: 7 ms",
    ];
    assert_eq!(texts, expected);
    assert_eq!(policy_json(policy)["deadline_ms"], 7);
    assert_eq!(policy_json(None)["algorithm"], "unlimited");
    assert!(policy_json(None)["quota"].is_null());
}
