//! Regions and rules with a global scope.

use super::*;
use tollgate_core::messages::rules::Published;
use tollgate_core::rules::{LimitPolicy, Scope};

const REGIONS: &str = "regions: { eu: { floor: 10% }, us: {} }\n";

fn rule(settings: &str) -> String {
    format!("{REGIONS}rules: [{{ name: a, per: [ip], scope: global, {settings} }}]")
}

fn refused(yaml: &str, place: usize, reason: &str) {
    let text = refusal(yaml);
    let is_there = text.starts_with(&format!("rules.yaml:{place}: ")) && text.contains(reason);
    assert!(is_there && text.lines().count() == 1, "{yaml}\n{text}\nwanted: {reason}");
}

#[test]
fn a_global_rule_has_what_its_budgets_rest_on_without_writing_it() {
    let inherited = "defaults: { algorithm: token_bucket, burst: 200, consistency: bounded, estimate: interpolated, leases: off, deadline: 9ms }\n";
    let written = "consistency: strict, algorithm: sliding_window, estimate: conservative, burst: false, leases: on";
    let set = |above: &str, settings: &str| accepted(&format!("{above}{}", rule(settings)));
    let plain = set("", "quota: 100/min");
    let mut expected = LimitPolicy::of("100/min".parse().unwrap());
    expected.set_consistency(Consistency::Strict);
    expected.divide_finely();
    assert_eq!((plain.rules[0].scope, plain.rules[0].policy), (Scope::Global, Some(expected)));
    assert_eq!(set("", &format!("quota: 100/min, {written}")).rules, plain.rules);
    expected.deadline = std::time::Duration::from_millis(9);
    let rule = &set(inherited, "quota: 100/min").rules[0];
    assert_eq!(rule.policy, Some(expected), "inherited values of other kinds are ignored");
    let floors: Vec<_> = plain.regions.iter().map(|part| (&*part.region, part.units_of(100))).collect();
    assert_eq!(floors, [("eu", 10), ("us", 1)], "a region without `floor` has 1%");
    assert_eq!(plain.warnings, []);
    assert_eq!(accepted("rules: [{ name: a, per: [ip], quota: 1/s }]").rules[0].scope, Scope::Regional);
}

/// A conservative count of 12 sub-windows would admit a twelfth less than the quota.
#[test]
fn a_global_rule_has_fine_sub_windows_unless_the_file_says_otherwise() {
    let defaults = "defaults: { sub_windows: 6 }\n";
    for (above, settings, parts) in [
        ("", "quota: 100/min", 60),
        ("", "quota: 100/10s", 50),
        ("", "quota: 100/s", 10),
        ("", "quota: 100/min, sub_windows: 12", 12),
        (defaults, "quota: 100/min", 6),
        (defaults, "quota: 100/min, sub_windows: 12", 12),
    ] {
        let set = accepted(&format!("{above}{}", rule(settings)));
        let policy = set.rules[0].policy.expect("a policy");
        assert_eq!(policy.window.sub_windows(), parts, "{above}{settings}");
    }
    assert_eq!(
        accepted("rules: [{ name: a, per: [ip], quota: 1/min }]").rules[0].policy.unwrap().window.sub_windows(),
        12
    );
}

#[test]
fn settings_that_budgets_cannot_have_are_refused() {
    for (settings, reason) in [
        ("consistency: bounded", "has `consistency: strict`, because a region must not admit more"),
        ("consistency: eventual", "remove `consistency`, or write `scope: regional`"),
        ("algorithm: fixed_window", "has `algorithm: sliding_window`, because units move"),
        ("algorithm: token_bucket", "has `algorithm: sliding_window`"),
        ("algorithm: concurrency", "has `algorithm: sliding_window`"),
        ("estimate: interpolated", "has `estimate: conservative`"),
        ("burst: 200", "has `burst: false`, because a burst admits more"),
        ("burst_multiplier: 1.5", "remove `burst`"),
        ("leases: off", "has `leases: on`"),
        ("charge: each", "`charge: each` is only for `algorithm: fixed_window`"),
        (
            "keys: { k: { quota: 200/min } }",
            "one quota for all callers, of which each region holds a part, and some keys",
        ),
        ("keys: { k: { quota: unlimited } }", "and some keys have another one"),
        ("keys: { k: { consistency: bounded } }", "has `consistency: strict`"),
    ] {
        refused(&rule(&format!("quota: 100/min, {settings}")), 2, reason);
    }
    let tiers = "descriptors: { tier: { jwt: tier, default: free } }\ntiers: { free: { quota: 100/min }, pro: { quota: 200/min } }\n";
    refused(
        &format!("{tiers}{}", rule("quota: tier")),
        4,
        "and some tiers have another one; write a rule with a `match`",
    );
    refused(&rule("quota: { from: limit, default: 9/min }, match: { ip: '10.*' }"), 2, "a call cannot bring its own");
    refused(&rule("quota: unlimited"), 2, "leaves regions nothing to share");
    refused(
        &format!("{REGIONS}rules: [{{ name: a, match: {{ ip: x }}, deny: true, scope: global }}]"),
        2,
        "takes no `scope`",
    );
    for (scope, hint) in [("region", "did you mean `regional`?"), ("world", "known are regional, global")] {
        let yaml = format!("rules: [{{ name: a, per: [ip], quota: 1/s, scope: {scope} }}]");
        refused(&yaml, 1, &format!("unknown scope `{scope}`; {hint}"));
    }
    let levels = ["defaults: { scope: global }\n", "tiers: { free: { scope: global } }\n"];
    for level in levels {
        let text = refusal(&format!("{level}rules: []"));
        assert!(text.contains("unknown field `scope` in"), "a scope is a setting of a rule itself: {text}");
    }
}

/// A setting of one caller that leaves the quota alone is no second quota.
#[test]
fn a_key_of_a_global_rule_may_have_the_same_quota() {
    let set = accepted(&rule("quota: 100/min, keys: { k: { on_failure: closed }, l: { quota: 100/min } }"));
    assert!(set.rules[0].all_policies().all(|policy| policy.consistency == Consistency::Strict));
    assert_eq!(set.rules[0].by_key.len(), 2);
}

#[test]
fn regions_are_refused_with_a_remedy() {
    let with = |regions: &str, quota: &str| {
        format!("regions: {regions}\nrules: [{{ name: a, per: [ip], scope: global, quota: {quota} }}]")
    };
    let many = |len: usize, floor: &str| {
        let names: Vec<_> = (0..len).map(|number| format!("r{number}: {{ floor: {floor} }}")).collect();
        format!("{{ {} }}", names.join(", "))
    };
    for (regions, reason) in [
        ("{}", "`regions` name no region; write some"),
        ("[eu, us]", "`regions` must be a mapping"),
        ("{ e u: {}, us: {} }", "region `e u`: write 1 to 64 letters, digits or any of - _ . : /"),
        ("{ '': {}, us: {} }", "region ``: write 1 to 64"),
        ("{ eü: {}, us: {} }", "region `eü`"),
        (
            "{ eu: { floor: 10 }, us: {} }",
            "`floor` is `10`; write a part of each global quota, 0% to 100% in steps of 0.0001%",
        ),
        ("{ eu: { flor: 10% }, us: {} }", "unknown field `flor` in a region; did you mean `floor`?"),
        ("{ eu: {}, us: {}, eu: {} }", "duplicated key"),
        ("{ eu: { floor: 60% }, us: { floor: 40.0001% } }", "together more than 100% of a quota; lower some"),
        ("{ eu: { floor: 100% }, us: {} }", "a region without `floor` has 1%"),
        (&many(65, "0%"), "65 regions; at most 64 share quotas"),
    ] {
        refused(&with(regions, "1k/min"), 1, reason);
    }
    let none = "rules: [{ name: a, per: [ip], scope: global, quota: 5/min }]";
    refused(none, 1, "`scope: global` needs the regions that share the quota; write `regions:");
    let text =
        "the quota 2/min is less than the floors of its regions, which are at least one unit each and together 3";
    refused(&with(&many(3, "0%"), "2/min"), 2, text);
    for (regions, quota) in [
        (many(3, "0%"), "3/min"),
        (many(64, "1%"), "64/min"),
        ("{ eu: { floor: 60% }, us: { floor: 40% } }".into(), "5/min"),
    ] {
        accepted(&with(&regions, quota));
    }
    let one = accepted(&with("{ eu: { floor: 100% } }", "5/min"));
    assert!(one.warnings.len() == 1 && one.warnings[0].text.contains("one region only"), "{:?}", one.warnings);
}

/// Rules are published as text, so that agents of all regions read the same.
#[test]
fn published_rules_keep_regions_and_scope() {
    let text = rule("quota: 100/min");
    let published = Published::new("rules.yaml", text.clone());
    let set = crate::read_published(&published, 7).expect("valid");
    assert!(set.is_equivalent(&accepted(&text)) && set.rules[0].scope == Scope::Global);
    assert_eq!(set.regions.len(), 2);
}
