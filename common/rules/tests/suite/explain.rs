//! Explanations of calls under a rules file.

use tollgate_core::call::Call;
use tollgate_core::rules::*;

const RULES: &str = "
descriptors:
  api_key: { header: x-api-key }
  tier: { of: api_key, map: { sk_pro_*: pro }, default: free }
tiers: { free: { quota: 1/s }, pro: { quota: 2/s } }
rules:
  - { name: key, per: [api_key], quota: tier, keys: { vip: { quota: 9/s } } }
  - { name: search, per: [api_key], quota: 3/s, match: { endpoint: /search* }, group: g, cost: 2 }
  - { name: any, per: [api_key], quota: 4/s, group: g }
  - { name: tenant, per: [tenant], quota: 5/s }
  - { name: batch, per: [], quota: 6/s, match: { endpoint: /search/batch }, replaces: key }
lists: { deny: [{ api_key: bad }] }
";

fn results<'a>(set: &'a RuleSet, call: &'a Call<'_>) -> Vec<MatchResult<'a>> {
    set.explain(call).rules.into_iter().map(|explained| explained.result).collect()
}

#[test]
fn every_rule_has_a_result() {
    let set = tollgate_rules::from_yaml("rules.yaml", RULES, 1).unwrap();
    let call = Call::new().with("api_key", "sk_pro_1").with("endpoint", "/search/batch");
    let [key, search, any, tenant, batch] = results(&set, &call)[..] else { panic!("five rules") };
    assert_eq!(key, MatchResult::Replaced { by: "batch" });
    assert!(matches!(search, MatchResult::Applies { cost: 2, origin: Origin::Rule, .. }));
    assert!(matches!(any, MatchResult::Wider { than } if *than.name == *"search"), "{any:?}");
    assert_eq!(tenant, MatchResult::MissingDescriptor { descriptor: "tenant" });
    assert!(matches!(batch, MatchResult::Applies { cost: 1, .. }));

    let call = Call::new().with("api_key", "sk_pro_1").with("endpoint", "/users");
    let found = results(&set, &call);
    assert!(matches!(found[0], MatchResult::Applies { origin: Origin::Tier("pro"), .. }));
    assert!(matches!(found[1], MatchResult::Mismatch { descriptor: "endpoint", value: Some("/users"), .. }));
    assert!(matches!(found[2], MatchResult::Applies { .. }));
    assert!(matches!(results(&set, &Call::new())[4], MatchResult::Mismatch { value: None, .. }));
}

#[test]
fn derived_and_unverified_values_are_marked() {
    let set = tollgate_rules::from_yaml("rules.yaml", RULES, 1).unwrap();
    let mut call = Call::new().with("endpoint", "/users");
    call.set_unverified("api_key".into(), "sk_pro_1".into());
    let explanation = set.explain(&call);
    let of = |name: &str| *explanation.descriptors.iter().find(|known| known.name == name).unwrap();
    assert!(!of("api_key").verified && of("endpoint").verified && !of("endpoint").derived);
    let tier = ExplainedDescriptor { name: "tier", value: "free", verified: true, derived: true };
    assert_eq!(of("tier"), tier);
    assert!(
        matches!(explanation.rules[0].result, MatchResult::Applies { origin: Origin::Rule, .. }),
        "an unverified value selects no tier"
    );
    assert_eq!(set.explain(&Call::new().with("api_key", "bad")).list_match, ListMatch::Denied(0));
}

/// Explanation and decision are separate code, so they are compared.
#[test]
fn the_rules_that_apply_are_explained_as_such() {
    let set = tollgate_rules::from_yaml("rules.yaml", RULES, 1).unwrap();
    for endpoint in ["/search/batch", "/search/x", "/users"] {
        for name in ["api_key", "tenant", "user"] {
            let call = Call::new().with(name, "vip").with("endpoint", endpoint);
            let explanation = set.explain(&call);
            let applies = |result: &MatchResult<'_>| matches!(result, MatchResult::Applies { .. });
            let explained: Vec<_> = explanation
                .rules
                .iter()
                .filter(|found| applies(&found.result))
                .map(|found| &*found.rule.name)
                .collect();
            let resolved = set.resolved(&call);
            let mut found: Vec<_> = set.applicable(&resolved).iter().map(|a| (a.index, &*a.rule.name)).collect();
            found.sort_unstable();
            assert_eq!(explained, found.into_iter().map(|(_, name)| name).collect::<Vec<_>>());
            assert!(explanation.rules.iter().all(|found| found.result != MatchResult::OutOfScope));
        }
    }
}
