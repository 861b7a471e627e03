//! Output, warnings and refusals of the import of `params`.

use super::super::Foreign;
use super::from_params;
use tollgate_core::call::Call;
use tollgate_core::rules::ListMatch;

const PARAMS: &str = "rules:
  - id: rule_001
    version: 42
    tier: pro
    match:
      api_key_pattern: sk_prod_*
      endpoint_regex: ^/v1/orders.*
    algorithm: token_bucket
    params: { capacity: 100, refill_rate: 1.67, window: 60 }
    override:
      sk_prod_vip_001: { capacity: 1000, refill_rate: 16.67 }
  - id: rule_002
    tier: free
    match: { api_key_pattern: sk_free_*, endpoint_regex: .* }
    algorithm: sliding_window_counter
    params: { limit: 100, window: 60 }
whitelist: [sk_internal_*, sk_monitoring_*]
blacklist: [sk_revoked_*]
";

#[test]
fn params_become_quotas_bursts_keys_and_lists() {
    let imported = from_params(Foreign { name: "limits.yaml", text: PARAMS }).expect("is valid");
    assert_eq!(
        imported.text,
        "# Imported from limits.yaml.
version: 42
descriptors:
  # Add `verified: true` if the gateway checks the key before it asks; `allow` below needs it.
  api_key: { header: x-api-key }
  endpoint: { path: raw }
rules:
  # For the tier pro.
  - name: rule_001
    match:
      api_key: \"sk_prod_*\"
      endpoint: { regex: \"^/v1/orders.*\" }
    per: [api_key]
    algorithm: token_bucket
    quota: 100/min
    burst: 100
    keys:
      sk_prod_vip_001: { quota: 1000/min, burst: 1000 }
  # For the tier free.
  - name: rule_002
    match:
      api_key: \"sk_free_*\"
    per: [api_key]
    algorithm: sliding_window
    quota: 100/min
lists:
  allow:
    - { api_key: \"sk_internal_*\" }
    - { api_key: \"sk_monitoring_*\" }
  deny:
    - { api_key: \"sk_revoked_*\" }
"
    );
    assert!(
        imported.warnings[0]
            .to_string()
            .starts_with("limits.yaml:17: the `whitelist` lets pass only keys that are verified")
    );
}

#[test]
fn imported_params_limit_the_same_callers() {
    let imported = from_params(Foreign { name: "limits.yaml", text: PARAMS }).expect("is valid");
    let set = crate::from_yaml("limits.yaml", &imported.text, 1).unwrap_or_else(|problems| panic!("{problems}"));
    let limit = |key: &'static str, path: &'static str| {
        let call = Call::new().with("api_key", key).with("endpoint", path);
        let described = set.resolved(&call);
        let limits: Vec<String> = set
            .applicable(&described)
            .iter()
            .map(|it| {
                it.policy.as_deref().map_or_else(String::new, |policy| format!("{} {}", policy.quota, policy.burst))
            })
            .collect();
        (limits.join(", "), set.list_match(&described))
    };
    assert_eq!(set.generation, 42);
    assert_eq!(limit("sk_prod_1", "/v1/orders/7"), ("100/min 100".into(), ListMatch::Unlisted));
    assert_eq!(limit("sk_prod_vip_001", "/v1/orders"), ("1000/min 1000".into(), ListMatch::Unlisted));
    assert_eq!(limit("sk_prod_1", "/v2"), (String::new(), ListMatch::Unlisted));
    assert_eq!(limit("sk_free_1", "/v2"), ("100/min 0".into(), ListMatch::Unlisted));
    assert_eq!(limit("sk_internal_1", "/v2").1, ListMatch::Allowed(0));
    assert_eq!(limit("sk_revoked_1", "/v2").1, ListMatch::Denied(0));
}

#[test]
fn params_that_do_not_belong_to_the_algorithm_are_refused() {
    let text = "rules:
  - { id: a, algorithm: token_bucket, params: { limit: 5, refill_rate: fast, capacity: 0 } }
  - { id: b, algorithm: bucket, params: {} }
  - { id: c, algorithm: fixed_window, params: { limit: 1, window: 60 }, override: { 'k*': { limit: 2 } } }
  - { id: c, algorithm: fixed_window, params: { limit: 1, window: 40_000_000 } }
  - { id: c, algorithm: fixed_window, params: { limit: 1, window: 60 } }
blocklist: []
";
    let text = from_params(Foreign { name: "p", text }).expect_err("must be refused").to_string();
    for part in [
        "p:2: unknown field `limit` in the params of a bucket",
        "p:2: `refill_rate` is `fast`; write units per second",
        "p:2: `capacity` is 0",
        "p:3: unknown algorithm `bucket`",
        "p:4: `k*` is a pattern",
        "p:5: `window` is `40_000_000`",
        "p:6: a rule with `id: c` stands above",
        "p:7: unknown field `blocklist` in the file; did you mean `blacklist`?",
    ] {
        assert!(text.contains(part), "{part}\n{text}");
    }
}
