//! Decisions: the rules and policies that apply to calls under a file.

use super::*;
use tollgate_core::call::Call;
use tollgate_core::rules::*;

/// Returns the rules that apply to a call, each with its quota.
fn applicable(set: &RuleSet, call: &Call<'_>) -> Vec<String> {
    let resolved = set.resolved(call);
    let shown =
        |policy: Option<&LimitPolicy>| policy.map_or_else(|| "unlimited".to_owned(), |policy| policy.quota.to_string());
    set.applicable(&resolved)
        .iter()
        .map(|found| format!("{} {}", found.rule.name, shown(found.policy.as_deref())))
        .collect()
}

fn quota(set: &RuleSet, call: &Call<'_>) -> String {
    applicable(set, call).join(", ").split_once(' ').expect("a rule applies").1.to_owned()
}

fn key(key: &str) -> Call<'_> {
    Call::new().with("api_key", key)
}

/// F2: all three set: the key wins; removed: the tier; then the default.
#[test]
fn the_nearer_setting_wins() {
    let file = |keys: &str, tiers: &str| {
        accepted(&format!(
            "defaults: {{ quota: 1/s, deadline: 7ms, on_failure: open }}
descriptors: {{ tier: {{ jwt: tier }} }}
tiers: {{ pro: {{ {tiers} deadline: 8ms }} }}
rules:
  - {{ name: a, per: [api_key], keys: {{ {keys} }} }}
"
        ))
    };
    let call = key("vip").with("tier", "pro");
    let policy = |set: &RuleSet| set.applicable(&set.resolved(&call))[0].policy.as_deref().copied().unwrap();
    assert_eq!(quota(&file("vip: { quota: 3/s }", "quota: 2/s,"), &call), "3/s");
    assert_eq!(quota(&file("", "quota: 2/s,"), &call), "2/s");
    assert_eq!(quota(&file("", ""), &call), "1/s");
    assert_eq!(policy(&file("", "")).deadline.as_millis(), 8, "each setting by itself");
    assert_eq!(policy(&file("", "")).on_failure, OnFailure::Open);
}

/// F2: the file's tiers < the rule < the rule's tiers < its keys.
#[test]
fn a_rules_own_exceptions_are_nearer_than_the_files_tiers() {
    let set = accepted(
        "descriptors: { tier: { jwt: tier, default: free } }
tiers: { free: { quota: 100/min }, pro: { quota: 1000/min, deadline: 9ms }, max: { quota: unlimited } }
rules:
  - { name: plain, per: [api_key], quota: 30/min }
  - { name: tier, per: [api_key], quota: tier, keys: { vip: { quota: 5000/min } } }
  - { name: own, per: [api_key], tiers: { pro: { quota: 300/min } }, keys: { vip: { quota: unlimited } } }
",
    );
    assert_eq!(applicable(&set, &key("a")), ["plain 30/min", "tier 100/min", "own 100/min"]);
    let pro = key("a").with("tier", "pro");
    assert_eq!(applicable(&set, &pro), ["plain 30/min", "tier 1000/min", "own 300/min"]);
    assert_eq!(set.applicable(&set.resolved(&pro))[0].policy.as_deref().copied().unwrap().deadline.as_millis(), 9);
    assert_eq!(applicable(&set, &key("a").with("tier", "max")), ["plain 30/min", "tier unlimited", "own unlimited"]);
    let vip = key("vip").with("tier", "pro");
    assert_eq!(applicable(&set, &vip), ["plain 30/min", "tier 5000/min", "own unlimited"]);
    assert_eq!(applicable(&set, &key("a").with("tier", "gold")), ["plain 30/min", "tier 100/min", "own 100/min"]);
    assert!(set.rules[0].by_tier.iter().all(|(name, _)| **name == *"pro"), "only what differs is kept");
}

/// G6: three keys, three quotas.
#[test]
fn three_tiers_have_three_quotas() {
    let set = accepted(
        "descriptors:
  api_key: { header: x-api-key, verified: true }
  tier: { of: api_key, map: { sk_pro_*: pro, sk_ent_*: enterprise }, default: free }
tiers: { free: { quota: 100/min }, pro: { quota: 1000/min }, enterprise: { quota: 10000/min } }
rules: [{ name: a, per: [api_key], quota: tier }]
",
    );
    assert_eq!(["x", "sk_pro_1", "sk_ent_1"].map(|name| quota(&set, &key(name))), ["100/min", "1000/min", "10000/min"]);
    let mut unverified = Call::new();
    unverified.set_unverified("api_key".into(), "sk_pro_1".into());
    assert_eq!(quota(&set, &unverified), "100/min", "an unverified value selects no tier");
}

/// G8: listed keys are allowed, if they were verified; G9: others are denied, verified or not, and that wins.
#[test]
fn listed_callers_are_never_or_always_denied() {
    let set = accepted(
        "rules: [{ name: a, per: [api_key], quota: 1/s }]
lists:
  allow: [{ api_key: sk_internal_* }, { api_key: sk_monitoring_*, ip: { cidr: 10.0.0.0/8 } }]
  deny: [{ api_key: sk_revoked_* }, { api_key: sk_internal_stolen }]
",
    );
    let list_match = |call: &Call<'_>| set.list_match(&set.resolved(call));
    assert_eq!(list_match(&key("sk_internal_1")), ListMatch::Allowed(0));
    assert_eq!(applicable(&set, &key("sk_internal_1")), ["a 1/s"], "still counted");
    assert_eq!(list_match(&key("sk_internal_stolen")), ListMatch::Denied(1));
    assert_eq!(list_match(&key("sk_monitoring_1")), ListMatch::Unlisted);
    assert_eq!(list_match(&key("sk_monitoring_1").with("ip", "10.1.1.1")), ListMatch::Allowed(1));
    let unverified = |name: &'static str| {
        let mut call = Call::new();
        call.set_unverified("api_key".into(), name.into());
        list_match(&call)
    };
    assert_eq!([unverified("sk_internal_1"), unverified("sk_revoked_1")], [ListMatch::Unlisted, ListMatch::Denied(0)]);
}

/// B5: per key, user, tenant and endpoint, all at once.
#[test]
fn limits_by_several_things_hold_at_once() {
    let set = accepted(
        "rules:
  - { name: key, per: [api_key], quota: 100/min }
  - { name: user, per: [user], quota: 50/min }
  - { name: tenant, per: [tenant], quota: 1000/min }
  - { name: search, per: [api_key], quota: 30/min, match: { endpoint: /search* }, group: endpoint }
  - { name: users, per: [api_key], quota: 100/min, match: { endpoint: /users* }, group: endpoint }
  - { name: other, per: [api_key], quota: 60/min, group: endpoint }
  - { name: batch, per: [tenant], quota: 7/min, match: { endpoint: /batch }, replaces: [tenant, key] }
",
    );
    let call = |endpoint: &'static str| key("k").with("user", "u").with("tenant", "t").with("endpoint", endpoint);
    assert_eq!(
        applicable(&set, &call("/search/x")),
        ["key 100/min", "user 50/min", "tenant 1000/min", "search 30/min"]
    );
    assert_eq!(applicable(&set, &call("/batch")), ["user 50/min", "other 60/min", "batch 7/min"]);
    assert_eq!(applicable(&set, &Call::new().with("user", "u")), ["user 50/min"]);
}

/// F15: a quota in bytes, and what calls cost.
#[test]
fn a_quota_may_be_of_bytes_and_a_cost_by_endpoint() {
    let set = accepted(
        "rules:
  - { name: bytes, per: [tenant], quota: 10MB/s, algorithm: token_bucket, burst: 50MB }
  - { name: calls, per: [tenant], quota: 100/min, cost: 1, costs: { endpoint: { /search*: 5, /export: 20kB } }, burst: 30000 }
",
    );
    let policy = set.rules[0].policy.unwrap();
    assert_eq!((policy.quota.units(), policy.quota.unit(), policy.burst), (10_000_000, Unit::Bytes, 50_000_000));
    let cost = |rule: usize, endpoint: &str| {
        let call = Call::new().with("tenant", "t").with("endpoint", endpoint).costing(1_500);
        set.rules[rule].cost_of(&set.resolved(&call), call.cost())
    };
    assert_eq!([cost(0, "/x"), cost(1, "/x"), cost(1, "/search/x"), cost(1, "/export")], [1_500, 1, 5, 20_000]);
}

/// F16: a limit in a verified claim applies.
#[test]
fn a_verified_claim_may_hold_the_quota() {
    let set = accepted(
        "descriptors: { limit: { jwt: limit } }
rules: [{ name: a, per: [api_key], quota: { from: limit, default: 100/min }, algorithm: sliding_log, keys: { vip: { quota: 7/s } } }]
",
    );
    let with = |limit: &'static str| quota(&set, &key("k").with("limit", limit));
    assert_eq!([with("500/min"), with("250"), with("9/h")], ["500/min", "250/min", "9/h"]);
    assert_eq!([with("0"), with("much"), with("50000/min")], ["100/min"; 3], "an invalid quota is ignored");
    assert_eq!(quota(&set, &key("k")), "100/min");
    assert_eq!(quota(&set, &key("vip").with("limit", "500/min")), "7/s");
    let mut unverified = key("k");
    unverified.set_unverified("limit".into(), "500/min".into());
    assert_eq!(quota(&set, &unverified), "100/min");
}

/// The sample of the design, without planned features, decides as written.
#[test]
fn the_sample_decides_as_written() {
    let set = accepted(include_str!("sample.yaml"));
    let call = |key: &'static str, method: &'static str, endpoint: &'static str| {
        Call::new().with("api_key", key).with("method", method).with("endpoint", endpoint)
    };
    assert_eq!(applicable(&set, &call("k", "GET", "/users/{id}")), ["per-key 100/min"]);
    assert_eq!(applicable(&set, &call("k", "GET", "/users/{id}").with("tier", "pro")), ["per-key 1000/min"]);
    assert_eq!(applicable(&set, &call("sk_prod_vip_001", "GET", "/search/a")), ["per-key 5000/min", "search 30/min"]);
    assert_eq!(applicable(&set, &call("k", "POST", "/search/a")), ["per-key 100/min"]);
    let login = Call::new().with("ip", "1.2.3.4").with("endpoint", "/login").with("tenant", "t");
    assert_eq!(applicable(&set, &login), ["login 5/15min", "tenant-bytes 10MB/s"]);
    let login = set.rules[2].policy.unwrap();
    assert_eq!((login.algorithm, login.consistency), (Algorithm::SlidingLog, Consistency::Strict));
    assert_eq!(set.list_match(&set.resolved(&key("sk_revoked_1"))), ListMatch::Denied(0));
    assert_eq!((set.slot_by.as_deref(), set.rules[3].policy.unwrap().burst), (Some("api_key"), 50_000_000));
}

/// An unverified value overrides no rule, selects no tier by `match`, and makes no caller unlimited.
#[test]
fn an_unverified_value_loosens_nothing() {
    let set = accepted(
        "descriptors: { tier: { header: x-tier } }
rules:
  - { name: everyone, group: g, per: [ip], quota: 1/min }
  - { name: partners, group: g, match: { api_key: partner_* }, per: [api_key], quota: 100/min }
  - { name: pros, group: g, match: { tier: pro }, per: [ip], quota: unlimited }
  - { name: guests, per: [ip], quota: 5/min }
  - { name: friends, match: { api_key: friend_* }, per: [api_key], quota: 50/min, replaces: [guests] }
  - { name: keyed, per: [api_key], quota: 2/min, keys: { vip: { quota: unlimited }, big: { quota: 9/min } } }
",
    );
    let unverified = |key: &'static str| {
        let mut call = Call::new().with("ip", "10.0.0.1");
        call.set_unverified("api_key".into(), key.into());
        call.set_unverified("tier".into(), "pro".into());
        applicable(&set, &call)
    };
    assert_eq!(unverified("partner_1"), ["everyone 1/min", "partners 100/min", "guests 5/min", "keyed 2/min"]);
    assert_eq!(unverified("friend_1"), ["everyone 1/min", "guests 5/min", "friends 50/min", "keyed 2/min"]);
    assert_eq!(unverified("vip"), ["everyone 1/min", "guests 5/min", "keyed 2/min"]);
    assert_eq!(unverified("big"), ["everyone 1/min", "guests 5/min", "keyed 9/min"], "it is that key's own counter");
    let named = |key: &'static str| applicable(&set, &Call::new().with("ip", "10.0.0.1").with("api_key", key));
    assert_eq!(named("partner_1"), ["partners 100/min", "guests 5/min", "keyed 2/min"]);
    assert_eq!(named("friend_1"), ["everyone 1/min", "friends 50/min", "keyed 2/min"]);
    assert_eq!(named("vip"), ["everyone 1/min", "guests 5/min", "keyed unlimited"]);
}

/// `leases` stands wherever settings stand, and is refused where nothing can be leased.
#[test]
fn leases_are_on_unless_a_file_says_otherwise() {
    let leases = |yaml: &str| {
        let set = accepted(yaml);
        set.rules[0].policy.expect("a policy").may_lease()
    };
    assert!(leases("rules: [{ name: a, per: [ip], quota: 9/s }]"));
    assert!(leases("rules: [{ name: a, per: [ip], quota: 9/s, consistency: strict }]"));
    assert!(!leases("rules: [{ name: a, per: [ip], quota: 9/s, leases: off }]"));
    assert!(!leases("defaults: { leases: off }\nrules: [{ name: a, per: [ip], quota: 9/s }]"));
    assert!(leases("defaults: { leases: off }\nrules: [{ name: a, per: [ip], quota: 9/s, leases: on }]"));
    assert!(!leases("rules: [{ name: a, per: [ip], quota: 9/s, burst: true }]"));
    let text = refusal("rules: [{ name: a, per: [ip], quota: 9/s, algorithm: token_bucket, leases: on }]");
    assert!(text.contains("has no `leases`; remove it"), "{text}");
    for wrong in ["yes please", "1"] {
        let text = refusal(&format!("rules: [{{ name: a, per: [ip], quota: 9/s, leases: {wrong} }}]"));
        assert!(text.contains(&format!("rules.yaml:1: `leases` is `{wrong}`; write on or off")), "{text}");
    }
}
