//! Warnings of `leases` that is written where it has no effect, and the remedies that they name.

use super::*;

fn warnings(yaml: &str) -> Vec<String> {
    accepted(yaml).warnings.iter().map(ToString::to_string).collect()
}

/// Each setting without effect is named with its line, the reason and a remedy, which removes the warning.
#[test]
fn a_setting_without_effect_is_reported_with_a_remedy() {
    let regions = "regions: { eu: { floor: 10% }, us: {} }\n";
    // Settings of the rule; the beginning of the warning, and the end of it; the changes that it proposes.
    let cases = [
        (
            "consistency: eventual, leases: on",
            "`leases: on` has no effect under `consistency: eventual`, which never asks the store",
            "remove it, or write `consistency: bounded`",
            [(", leases: on", ""), ("eventual", "bounded")],
        ),
        (
            "burst: 150, leases: on",
            "`leases: on` has no effect beside a burst, because leased units would use up its reserve",
            "remove one of the two",
            [(", leases: on", ""), ("burst: 150, ", "")],
        ),
    ];
    for (settings, reason, remedy, changes) in cases {
        let yaml = |settings: &str| format!("{regions}rules:\n- {{ name: a, per: [ip], quota: 100/min, {settings} }}");
        assert_eq!(warnings(&yaml(settings)), [format!("rules.yaml:3: {reason}; {remedy}")], "{settings}");
        for (from, to) in changes {
            assert_eq!(warnings(&yaml(&settings.replace(from, to))), [""; 0], "{settings}: {from} -> {to}");
        }
    }
}

/// A setting that one policy of the rule follows is not reported, nor one that asks for what is true, nor an inherited one.
#[test]
fn a_setting_that_some_policy_follows_is_not_reported() {
    for yaml in [
        "rules: [{ name: a, per: [ip], quota: 100/min, leases: on }]",
        "rules: [{ name: a, per: [ip], quota: 100/min, consistency: eventual, leases: off }]",
        "defaults: { leases: on }\nrules: [{ name: a, per: [ip], quota: 9/min, consistency: eventual }]",
        "rules: [{ name: a, per: [ip], quota: 100/min, leases: on, keys: { 10.0.0.1: { consistency: eventual } } }]",
        "rules: [{ name: a, per: [ip], quota: 100/min, consistency: eventual, leases: on, keys: { 10.0.0.1: { consistency: bounded } } }]",
    ] {
        assert_eq!(warnings(yaml), [""; 0], "{yaml}");
    }
    let of_key = "rules:\n- name: a\n  per: [ip]\n  quota: 100/min\n  keys:\n    10.0.0.1: { consistency: eventual, leases: on }";
    assert_eq!(warnings(of_key).len(), 1);
    assert!(warnings(of_key)[0].starts_with("rules.yaml:6: `leases: on`"), "{:?}", warnings(of_key));
}
