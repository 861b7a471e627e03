//! Accepted language: every form reads as written.

use super::*;
use tollgate_core::call::Call;
use tollgate_core::rules::*;

fn policy(set: &RuleSet, rule: usize) -> LimitPolicy {
    set.rules[rule].policy.expect("limited")
}

/// Returns the policy of one rule, per ip, with these settings.
fn one(settings: &str) -> LimitPolicy {
    policy(&accepted(&format!("rules: [{{ name: a, per: [ip], {settings} }}]")), 0)
}

#[test]
fn descriptors_come_from_every_source() {
    let set = accepted(
        "descriptors:
  api_key: { header: X-Api-Key, verified: true }
  session: { cookie: sid, public: true }
  key2: { query: key, default: none }
  user: { jwt: realm.sub }
  ip: { client_ip: { trusted_hops: 1 } }
  plain: client_ip
  endpoint: { path: raw }
  short: path
  method: method
  product: { constant: search-api }
  plan: { of: api_key, map: { sk_pro_*: pro, sk_ent_42: enterprise }, default: free }
rules: [{ name: a, per: [ip], quota: 1/s }]
",
    );
    let spec = |name: &str| set.descriptors.iter().find(|spec| *spec.name == *name).unwrap();
    assert!(matches!(&spec("api_key").source, DescriptorSource::Header(name) if **name == *"x-api-key"));
    assert!(spec("api_key").verified && !spec("api_key").is_unverified() && spec("session").is_unverified());
    assert!(matches!(&spec("session").source, DescriptorSource::Cookie(name) if **name == *"sid"));
    assert!(spec("session").public && !set.is_secret("session") && set.is_secret("api_key"));
    assert_eq!(spec("key2").source, DescriptorSource::Query("key".into()));
    assert_eq!(spec("key2").default.as_deref(), Some("none"));
    assert_eq!(spec("user").source, DescriptorSource::Jwt("realm.sub".into()));
    assert_eq!(spec("ip").source, DescriptorSource::ClientIp { trusted_hops: 1, ipv6_prefix: 64 });
    assert_eq!(spec("endpoint").source, DescriptorSource::Path { normalized: false });
    assert_eq!(spec("short").source, DescriptorSource::Path { normalized: true });
    assert_eq!(spec("product").source, DescriptorSource::Constant("search-api".into()));
    let DescriptorSource::Map { of, table } = &spec("plan").source else { panic!("a map") };
    assert_eq!((&**of, table.len(), &*table[0].1), ("api_key", 2, "pro"));

    let call = tollgate_core::call::Call::new().with("api_key", "sk_pro_7");
    let resolved = set.resolved(&call);
    let values = ["plan", "product", "key2"].map(|name| resolved.get(name));
    assert_eq!(values, [Some("pro"), Some("search-api"), Some("none")]);
}

/// A7: the multiplier is exact, 1.2 by default; A6: a bucket without a burst holds what its rate gives in a second.
#[test]
fn bursts_read_as_units_and_as_multiples() {
    for (settings, burst) in [
        ("quota: 1000/min", 0),
        ("quota: 1000/min, burst: true", 1_200),
        ("quota: 1000/min, burst: false", 0),
        ("quota: 1000/min, burst_multiplier: 1.5", 1_500),
        ("quota: 7/min, burst_multiplier: 1.2", 8),
        ("quota: 1000/min, burst_multiplier: 1", 1_000),
        ("quota: 1000/min, burst: 1_300", 1_300),
        ("quota: 10MB/s, burst: 50MB", 50_000_000),
        ("quota: 10MB/s, burst: 50000000", 50_000_000),
        ("quota: 600/min, algorithm: token_bucket", 10),
        ("quota: 5/min, algorithm: token_bucket", 1),
        ("quota: 600/min, algorithm: token_bucket, burst: 3", 3),
        ("quota: 600/min, algorithm: token_bucket, burst: true", 720),
        ("quota: 5/min, algorithm: token_bucket, burst_multiplier: 0.1", 1),
        ("quota: 600/min, algorithm: leaky_bucket", 10),
        ("quota: 600/min, algorithm: leaky_bucket, burst: 40", 40),
    ] {
        assert_eq!(one(settings).burst, burst, "{settings}");
    }
}

#[test]
fn every_algorithm_has_its_own_settings() {
    for (settings, algorithm, parts) in [
        ("quota: 10/min", Algorithm::SlidingWindow(Estimate::Interpolated), 12),
        ("quota: 10/min, sub_windows: 4", Algorithm::SlidingWindow(Estimate::Interpolated), 4),
        ("quota: 10/min, consistency: strict", Algorithm::SlidingWindow(Estimate::Conservative), 12),
        ("quota: 10/min, algorithm: sliding_log", Algorithm::SlidingLog, 12),
        ("quota: 10/min, algorithm: fixed_window", Algorithm::FixedWindow, 1),
        ("quota: 10/min, algorithm: token_bucket", Algorithm::TokenBucket, 12),
        ("quota: 10/min, algorithm: leaky_bucket", Algorithm::LeakyBucket, 12),
        ("quota: 10/30s, algorithm: concurrency", Algorithm::Concurrency, 12),
    ] {
        assert_eq!((one(settings).algorithm, one(settings).window.sub_windows()), (algorithm, parts), "{settings}");
    }
}

#[test]
fn settings_that_an_algorithm_lacks_may_stand_in_the_defaults() {
    let set = accepted(
        "defaults: { quota: 10/min, sub_windows: 7, estimate: conservative, burst_multiplier: 2 }
rules:
  - { name: a, per: [ip], algorithm: fixed_window }
  - { name: b, per: [ip], algorithm: sliding_log }
  - { name: c, per: [ip], algorithm: token_bucket }
  - { name: d, per: [ip], quota: 7/7s }
",
    );
    assert_eq!((policy(&set, 0).window.sub_windows(), policy(&set, 0).burst), (1, 0));
    assert_eq!((policy(&set, 1).algorithm, policy(&set, 1).burst), (Algorithm::SlidingLog, 0));
    assert_eq!((policy(&set, 2).window.sub_windows(), policy(&set, 2).burst), (12, 20));
    assert_eq!((policy(&set, 3).window.sub_windows(), policy(&set, 3).burst), (7, 14));
}

#[test]
fn a_pattern_takes_every_form() {
    let matches = |pattern: &str, value: &str| {
        let set = accepted(&format!("rules: [{{ name: a, per: [], quota: 1/s, match: {{ v: {pattern} }} }}]"));
        set.rules[0].matches[0].1.matches(value)
    };
    for (pattern, yes, no) in [
        ("/search", "/search", "/search/x"),
        ("/search*", "/search/x", "/sea"),
        ("\"/v?/x\"", "/v1/x", "/v12/x"),
        ("[GET, HEAD]", "HEAD", "POST"),
        ("[GET]", "GET", "POST"),
        ("{ exact: \"a*\" }", "a*", "ab"),
        ("{ prefix: \"a?\" }", "a?b", "ab"),
        ("{ glob: \"*.csv\" }", "x.csv", "x.txt"),
        ("{ regex: \"^/v[12]/\" }", "/v2/x", "/v3/x"),
        ("{ cidr: 10.0.0.0/8 }", "10.200.0.1", "11.0.0.1"),
        ("{ cidr: 10.1.2.3 }", "10.1.2.3", "10.1.2.4"),
        ("{ not: [a, b*] }", "c", "bx"),
        ("{ not: a }", "b", "a"),
        ("{ not: { prefix: b } }", "c", "bx"),
        ("{ cidr: 10.0.0.0/8, not: { cidr: 10.9.0.0/16 } }", "10.1.0.1", "10.9.0.1"),
        ("[{ prefix: x }, { not: [x*, y*] }]", "xa", "ya"),
        ("010", "010", "8"),
        ("off", "off", "false"),
        ("\"~\"", "~", ""),
    ] {
        assert!(matches(pattern, yes) && !matches(pattern, no), "{pattern}");
    }
}

#[test]
fn settings_of_the_rule_itself_read_as_written() {
    let set = accepted(
        "slot_by: api_key
rules:
  - name: a
    per: [api_key]
    quota: 100/min
    algorithm: fixed_window
    group: endpoint
    cost: 5
    costs: { endpoint: { /search*: 2, /export: 20, /health: 0 } }
    charge: each
    shadow: true
  - { name: b, per: [api_key], quota: 100/min, charge: all_or_none, shadow: false, replaces: a }
lists:
  allow: [{ ip: { cidr: 10.0.0.0/8 }, method: GET }]
  deny: [{ api_key: [sk_revoked_*, sk_abuse_*] }, { ip: 1.2.3.4 }]
",
    );
    let [a, b] = &set.rules[..] else { panic!("two rules") };
    assert_eq!((a.group.as_deref(), a.cost, a.charge, a.shadow), (Some("endpoint"), Some(5), Charging::Each, true));
    assert_eq!((b.charge, b.shadow, &*b.replaces[0]), (Charging::AllOrNone, false, "a"));
    let (by, table) = a.costs.as_ref().unwrap();
    assert_eq!((&**by, table.iter().map(|(_, cost)| *cost).collect::<Vec<_>>()), ("endpoint", vec![2, 20, 0]));
    assert_eq!((set.slot_by.as_deref(), set.lists.allow.len(), set.lists.deny.len()), (Some("api_key"), 1, 2));
    assert_eq!(set.lists.allow[0].len(), 2);
}

#[test]
fn parts_that_are_probably_not_meant_are_warnings() {
    for (yaml, warning) in [
        (
            "lists: { allow: [{ api_key: sk_internal_* }] }",
            "the allow list rests on `api_key` from the header x-api-key",
        ),
        ("lists: { allow: [{ ip: '*' }] }", "allows whoever has the descriptor"),
        ("tiers: { free: { quota: 1/s } }", "there is no descriptor `tier`"),
        ("tiers: { free: {} }\ndescriptors: { tier: { query: t } }", "`tier` rests on the query parameter t"),
        (
            "tiers: { free: {} }\ndescriptors: { tier: { of: api_key, map: { a*: free } } }",
            "`tier` rests on the header x-api-key",
        ),
        ("tiers: { free: {} }\ndescriptors: { tier: { jwt: t, default: fre } }", "did you mean `free`?"),
        (
            "tiers: { free: {} }\ndescriptors: { tier: { of: ip, map: { a*: frei } } }",
            "may be `frei`, which is not under `tiers`",
        ),
        ("slot_by: api_kye", "did you mean `api_key`?"),
    ] {
        let set = accepted(&format!("{yaml}\nrules: [{{ name: a, per: [ip], quota: 1/s, consistency: strict }}]"));
        let warnings: Vec<_> = set.warnings.iter().map(ToString::to_string).collect();
        assert!(warnings.len() == 1 && warnings[0].contains(warning), "{yaml}: {warnings:?}");
    }
    for (settings, warning) in [
        ("match: { ip: 10.0.0.0/8 }, quota: 1/s", "write { cidr: 10.0.0.0/8 }"),
        ("match: { method: get }, quota: 1/s", "write GET"),
        ("quota: { from: api_key, default: 1/s }", "this quota comes from the header x-api-key"),
        ("quota: 10/s, cost: 0", "nothing is ever counted"),
        ("quota: 10/s, costs: { endpoint: { /a: 11, /b: 1 } }", "`/a` costs 11, and at most 10 pass at once"),
        ("quota: 10/s, cost: 11, costs: { endpoint: { /b: 1 } }", "another call costs 11"),
        ("quota: 10/s, shadow: true, group: g", "only counts (`shadow`)"),
        ("quota: 10/s, match: { endpiont: /a }", "did you mean `endpoint`?"),
        ("quota: 10/s, costs: { endpiont: { /a: 1 } }", "did you mean `endpoint`?"),
    ] {
        let set = accepted(&format!("rules: [{{ name: a, per: [ip], consistency: strict, {settings} }}]"));
        let warnings: Vec<_> = set.warnings.iter().map(ToString::to_string).collect();
        assert!(warnings.len() == 1 && warnings[0].contains(warning), "{settings}: {warnings:?}");
    }
    let set = accepted(
        "rules: [{ name: a, per: [ip], quota: 10/s, match: { domain: { exact: web }, ip: '*' }, algorithm: concurrency }]",
    );
    let slots =
        "rule `a`: `POST /json` has no release, so its requests keep their slots until the window of the quota ends";
    assert!(set.warnings.iter().any(|warning| warning.to_string().contains(slots)), "{:?}", set.warnings);
}

#[test]
fn a_gateway_that_authenticates_gets_no_warning() {
    let set = accepted(
        "descriptors: { api_key: { header: x-api-key, verified: true }, tier: { of: api_key, map: { sk_pro_*: pro }, default: free } }
tiers: { free: { quota: 1/s }, pro: { quota: 2/s } }
rules: [{ name: a, per: [api_key], consistency: strict }]
lists: { allow: [{ api_key: sk_internal_* }] }
",
    );
    assert_eq!(set.warnings, []);
}

/// Imports write text for this parser.
#[test]
fn imported_rules_are_read() {
    use crate::import::{EnvoySettings, Foreign, from_envoy};
    let configs = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/suite/envoy/configs");
    let files: Vec<_> = std::fs::read_dir(configs).unwrap().map(|file| file.unwrap().path()).collect();
    assert!(!files.is_empty());
    for file in files {
        let text = std::fs::read_to_string(&file).unwrap();
        let foreign = Foreign { name: "limits.yaml", text: &text };
        let imported = from_envoy(&[foreign], &EnvoySettings::default()).unwrap();
        assert!(!accepted(&imported.text).rules.is_empty(), "{}", file.display());
    }
}

/// Rules may share lines by a merge of YAML.
#[test]
fn a_merge_shares_settings_between_rules() {
    let set = accepted(
        "rules:
  - &base { name: a, per: [api_key], quota: 9/min, consistency: strict }
  - { <<: *base, name: b, quota: 5/min }
",
    );
    let quotas: Vec<_> = set.rules.iter().map(|rule| rule.policy.expect("a policy").quota.to_string()).collect();
    assert_eq!(quotas, ["9/min", "5/min"]);
    assert_eq!(set.rules[1].policy.expect("a policy").consistency, Consistency::Strict);
}

/// A rule with an exact match applies to calls that have no other descriptor, in any order.
#[test]
fn an_exact_match_leaves_out_calls_with_other_descriptors() {
    let set =
        accepted("rules: [{ name: a, match: { domain: d, user: '*' }, exact_match: true, per: [user], quota: 9/min }]");
    let applies = |names: &[&str]| {
        let call = names.iter().fold(Call::new(), |call, name| call.with(*name, "d"));
        !set.applicable(&set.resolved(&call)).is_empty()
    };
    let by = accepted("rules: [{ name: a, match: { domain: d }, exact_match: true, per: [user], quota: 9/min }]");
    let call = Call::new().with("domain", "d").with("user", "u");
    assert_eq!(by.applicable(&by.resolved(&call)).len(), 1, "a descriptor of `per` is named");
    assert_eq!(
        [
            &["domain", "user"][..],
            &["user", "domain"],
            &["domain"],
            &["domain", "user", "ip"],
            &["domain", "user", "user"]
        ]
        .map(applies),
        [true, true, false, false, true]
    );
}

/// F11: all rules are in shadow for a trial, unless one says otherwise.
#[test]
fn parts_of_a_rule_may_stand_in_the_defaults() {
    let yaml = "defaults: { shadow: true, algorithm: fixed_window, refunds: true }
rules:
  - { name: a, per: [ip], quota: 1/s }
  - { name: b, per: [ip], quota: 1/s, shadow: false, refunds: false }
  - { name: c, match: { ip: 192.0.2.1 }, deny: true }
  - { name: d, per: [ip], quota: 1/s, charge: each, quota_mode: true }
";
    let set = accepted(yaml);
    let parts = set.rules.iter().map(|rule| (rule.shadow, rule.refunds, rule.quota_mode));
    let expected = [(true, true, false), (false, false, false), (true, false, false), (true, true, true)];
    assert_eq!(parts.collect::<Vec<_>>(), expected);
}
