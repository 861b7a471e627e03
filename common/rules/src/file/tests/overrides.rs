//! Exceptions with an end or a factor, in the file and beside it.

use tollgate_core::call::Call;
use tollgate_core::clock::Timestamp;
use tollgate_core::messages::rules::Published;
use tollgate_core::rules::{RuleSet, TimedEnd};

use super::{accepted, refusal};
use crate::{Override, OverrideEffect, override_at, override_fault, overrides_text, read_overrides, read_published};

const UNTIL_MS: u64 = 1_796_126_400_000;

fn quota(set: &RuleSet, key: &str, tier: &str) -> String {
    let call = Call::new().with("api_key", key).with("tier", tier);
    set.rules[0].policy_for(&set.resolved(&call)).0.map_or("unlimited".to_owned(), |policy| policy.quota.to_string())
}

fn quotas<const N: usize>(set: &RuleSet, now_ms: u64, callers: [(&str, &str); N]) -> [String; N] {
    let set = set.in_force_at(Timestamp::from_ms(now_ms));
    callers.map(|(key, tier)| quota(&set, key, tier))
}

/// G1, G2, G5: quotas by key and tier, absolute and as a factor, with an end and without.
#[test]
fn a_factor_multiplies_the_quota_of_the_callers_tier_and_an_end_restores_what_stood_before() {
    let set = accepted(
        "tiers: { free: { quota: 10/min }, gold: { quota: 100/min } }
descriptors: { api_key: { header: X-Api-Key }, tier: { header: X-Tier, verified: true, default: free } }
rules:
  - name: per-key
    per: [api_key]
    quota: tier
    tiers: { gold: { quota: x1.5, until: 2026-12-01T12:00:00Z, reason: launch } }
    keys:
      k1: { quota: x2 }
      k2: { quota: 7/s, until: 2026-12-01T12:00:00Z }
      k3: { quota: x0.5, until: 2026-12-01T13:00:00+01:00, reason: 'too many bots' }
",
    );
    assert_eq!(set.next_end(), Some(Timestamp::from_ms(UNTIL_MS)));
    let callers =
        [("k", "gold"), ("k", "free"), ("k1", "gold"), ("k1", "free"), ("k2", "gold"), ("k3", "gold"), ("k3", "free")];
    let before = ["150/min", "10/min", "200/min", "20/min", "7/s", "50/min", "5/min"];
    assert_eq!(quotas(&set, UNTIL_MS - 1, callers), before);
    let after = ["100/min", "10/min", "200/min", "20/min", "100/min", "100/min", "10/min"];
    assert_eq!(quotas(&set, UNTIL_MS, callers), after);
    assert_eq!(&*set.rules[0].timed[1].end.reason, "too many bots");
}

#[test]
fn ends_and_factors_that_cannot_be_meant_are_refused() {
    let rule = |keys: &str| format!("rules: [{{ name: r, per: [api_key], quota: 9/min, keys: {{ k: {keys} }} }}]");
    let cases = [
        (rule("{ quota: 5/min, until: tomorrow }"), "`until`"),
        (rule("{ quota: 5/min, until: 2026-12-01T12:00:00 }"), "such as 2026-12-01T12:00:00Z"),
        (rule("{ quota: x0 }"), "a factor such as x2 or x0.5, from x0.000001 to x999999.999999"),
        (rule("{ quota: x1234567 }"), "from x0.000001 to x999999.999999"),
        (rule("{ quota: x999999, }").replace("9/min", "9007199254740991/d"), "more than 2^53 - 1"),
        (
            "tiers: { a: { quota: 1/s, until: 2026-12-01T12:00:00Z } }\nrules: []".to_owned(),
            "for the `tiers` and `keys` of a rule",
        ),
        ("tiers: { a: { quota: x2 } }\nrules: []".to_owned(), "for the `tiers` and `keys` of a rule"),
    ];
    for (yaml, part) in cases {
        let told = crate::from_yaml("rules.yaml", &yaml, 1).expect_err(&yaml).to_string();
        assert!(told.contains(part), "{yaml}: {told}");
    }
    assert!(refusal("rules: [{ name: r, per: [ip], quota: x2 }]").contains("x2"));
}

fn over(quota: &str, key: &str) -> Override {
    let effect = OverrideEffect::Quota { rule: "per-key".into(), is_tier: false, of: key.into(), quota: quota.into() };
    Override { effect, end: end("it is \"theirs\": # \n") }
}

fn end(reason: &str) -> TimedEnd {
    TimedEnd { until: Timestamp::from_ms(UNTIL_MS), reason: reason.into() }
}

/// G2, G9: overrides beside a published file, over what the file says of the same key.
#[test]
fn overrides_beside_a_file_apply_over_it_and_end() {
    let listed = |denies| OverrideEffect::Listed { denies, values: vec![("api_key".into(), "k: 'x'".into())] };
    let overrides = [
        over("x3", "k1"),
        over("unlimited", "k2"),
        over("1/h", "no-such-caller"),
        Override { effect: listed(true), end: end("") },
    ];
    let text = overrides_text(&overrides);
    assert_eq!(read_overrides(&text).expect("overrides"), overrides);
    let file = "rules: [{ name: per-key, per: [api_key], quota: 10/min, keys: { k1: { quota: 20/min } } }]";
    let published = Published { overrides: text, ..Published::new("rules.yaml", file) };
    let set = read_published(&published, 5).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(quotas(&set, UNTIL_MS - 1, [("k1", ""), ("k2", ""), ("k", "")]), ["60/min", "unlimited", "10/min"]);
    assert_eq!(quotas(&set, UNTIL_MS, [("k1", ""), ("k2", ""), ("k", "")]), ["20/min", "10/min", "10/min"]);
    assert_eq!(set.in_force_at(Timestamp::from_ms(1)).lists.deny.len(), 1);
    assert!(set.in_force_at(Timestamp::from_ms(UNTIL_MS)).lists.deny.is_empty());
}

/// A file is replaced without regard to overrides, so those that no longer apply must not keep it out.
#[test]
fn an_override_of_a_rule_that_is_gone_is_a_warning() {
    let published =
        Published { overrides: overrides_text(&[over("x3", "k1")]), ..Published::new("rules.yaml", "rules: []") };
    let set = read_published(&published, 5).unwrap_or_else(|error| panic!("{error}"));
    let warnings: Vec<_> = set.warnings.iter().map(ToString::to_string).collect();
    assert!(
        warnings.iter().any(|text| text.contains("an override of the rule `per-key` has no effect")),
        "{warnings:?}"
    );
}

/// Its line is one of a text that is not in the file.
#[test]
fn a_problem_with_an_override_has_the_place_of_the_override() {
    let file = "rules:\n- { name: per-key, per: [api_key], quota: 10/min, burst: 15 }";
    let published =
        Published { overrides: overrides_text(&[over("9/min", "k1"), over("x2", "k2")]), ..Published::new("r", file) };
    let problems = read_published(&published, 5).expect_err("a burst below the quota").problems;
    let places: Vec<_> = problems.iter().map(|problem| override_at(&problem.place)).collect();
    assert_eq!(places, [Some(1)], "{problems:?}");
    assert!(problems[0].text.contains("below 20/min") && problems[0].text.contains("publish a file"), "{problems:?}");
}

#[test]
fn an_override_of_callers_that_no_call_has_is_a_fault() {
    let set = accepted(
        "descriptors: { ip: { client_ip: {}, default: none } }
rules: [{ name: per-key, per: [api_key], quota: 9/min }, { name: per-ip, per: [ip], quota: 9/min }]",
    );
    let fault = |rule: &str, is_tier, of: &str| {
        let (rule, of, quota) = (rule.to_owned(), of.to_owned(), "1/min".to_owned());
        override_fault(&set, &OverrideEffect::Quota { rule, is_tier, of, quota }).unwrap_or_default()
    };
    for (rule, of, part) in [
        ("per-key", "sk_*", "a key is one whole value, not a pattern"),
        ("per-ip", "*", "a key is one whole value, not a pattern"),
        ("per-ip", "10.0.0.0/8", "write another rule for them, with `match: { ip: { cidr: 10.0.0.0/8 } }`"),
        ("per-ip", "2001:db8::1", "write \"2001:db8::/64\""),
        ("per-ip", "::ffff:10.0.0.1", "write 10.0.0.1"),
        ("per-ip", "nobody", "`nobody` is no address of a client"),
    ] {
        assert!(fault(rule, false, of).contains(part), "{of}: {}", fault(rule, false, of));
    }
    assert!(fault("per-key", true, "gold").contains("there is no descriptor `tier`"));
    assert_eq!(fault("per-key", false, "10.0.0.0/8") + &fault("per-ip", false, "10.0.0.1"), "");
    assert_eq!(fault("per-ip", false, "none"), "", "the default of the descriptor");
    let listed = |value: &str| {
        let effect = OverrideEffect::listed(true, vec![("ip".to_owned(), value.to_owned())]);
        override_fault(&set, &effect).unwrap_or_default()
    };
    for value in ["notanip", "999.0.0.1", "10.0.0.1,10.0.0.2", "{ cidr: 10.0.0.0/8 }"] {
        assert!(listed(value).contains("is no address of a client"), "{value}: {}", listed(value));
    }
    assert!(listed("10.0.0.1/8").ends_with("write 10.0.0.0/8"), "{}", listed("10.0.0.1/8"));
    for value in ["10.0.0.0/8", "10.0.0.*", "2001:db8::/32", "10.0.0.1"] {
        assert_eq!(listed(value), "", "{value}");
    }
}

#[test]
fn a_list_entry_is_the_same_in_each_order_of_its_values_and_has_networks() {
    let values = [("ip", "2001:0db8::/32"), ("endpoint", "/login")].map(|(name, value)| (name.into(), value.into()));
    let mut reversed = values.clone();
    reversed.reverse();
    let [entry, other] = [values, reversed].map(|values| OverrideEffect::listed(true, values.to_vec()));
    assert_eq!(entry, other);
    let overrides = [Override { effect: entry, end: end("") }];
    let text = overrides_text(&overrides);
    assert_eq!(read_overrides(&text).expect("overrides"), overrides);
    let published = Published { overrides: text, ..Published::new("r", "rules: []") };
    let set = read_published(&published, 5).unwrap_or_else(|error| panic!("{error}"));
    let is_denied = |ip: &str| {
        let call = Call::new().with("ip", ip).with("endpoint", "/login");
        set.lists.timed[0]
            .matches
            .iter()
            .all(|(name, pattern)| call.get(name).is_some_and(|value| pattern.matches(value)))
    };
    assert_eq!(["2001:db8:1::/64", "2001:db9::/64"].map(is_denied), [true, false]);
}

/// `unlimited` and tiers count only for verified values.
#[test]
fn an_override_for_unverified_values_is_a_warning() {
    let file = "descriptors: { tier: { header: x-tier } }
rules: [{ name: per-key, per: [api_key], quota: 10/min }]";
    let warnings = |known: Override, file: &str| -> Vec<String> {
        let published = Published { overrides: overrides_text(&[known]), ..Published::new("r", file) };
        let set = read_published(&published, 5).unwrap_or_else(|error| panic!("{error}"));
        set.warnings.iter().map(ToString::to_string).collect()
    };
    let told = warnings(over("unlimited", "k"), file);
    assert!(
        told.len() == 1 && told[0].starts_with("overrides:1: `unlimited` rests on `api_key` from the header"),
        "{told:?}"
    );
    assert_eq!(warnings(over("99/min", "k"), file), [""; 0]);
    let verified = file.replace("descriptors: {", "descriptors: { api_key: { header: x-api-key, verified: true },");
    assert_eq!(warnings(over("unlimited", "k"), &verified), [""; 0]);
    let (rule, of, quota) = ("per-key".into(), "gold".into(), "5/min".into());
    let of_tier = Override { effect: OverrideEffect::Quota { rule, is_tier: true, of, quota }, end: end("") };
    let told = warnings(of_tier, file);
    assert!(told.len() == 1 && told[0].starts_with("overrides:1: `tier` rests on the header x-tier"), "{told:?}");
}
