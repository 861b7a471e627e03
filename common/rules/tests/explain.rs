//! Explanations of why a call is limited as it is.

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

fn fates<'a>(set: &'a RuleSet, call: &'a Call<'_>) -> Vec<Fate<'a>> {
    set.explain(call).rules.into_iter().map(|explained| explained.fate).collect()
}

#[test]
fn every_rule_says_why() {
    let set = tollgate_rules::from_yaml("rules.yaml", RULES, 1).unwrap();
    let call = Call::new().with("api_key", "sk_pro_1").with("endpoint", "/search/batch");
    let [key, search, any, tenant, batch] = fates(&set, &call)[..] else { panic!("five rules") };
    assert_eq!(key, Fate::Replaced { by: "batch" });
    assert!(matches!(search, Fate::Applies { cost: 2, origin: Origin::Rule, .. }));
    assert_eq!(any, Fate::LessSpecific { than: "search" });
    assert_eq!(tenant, Fate::Missing { descriptor: "tenant" });
    assert!(matches!(batch, Fate::Applies { cost: 1, .. }));

    let call = Call::new().with("api_key", "sk_pro_1").with("endpoint", "/users");
    let found = fates(&set, &call);
    assert!(matches!(found[0], Fate::Applies { origin: Origin::Tier("pro"), .. }));
    assert!(matches!(found[1], Fate::Mismatch { descriptor: "endpoint", value: Some("/users"), .. }));
    assert!(matches!(found[2], Fate::Applies { .. }));
    assert!(matches!(fates(&set, &Call::new())[4], Fate::Mismatch { value: None, .. }));
}

#[test]
fn what_follows_is_told_and_a_clients_word_is_called_that() {
    let set = tollgate_rules::from_yaml("rules.yaml", RULES, 1).unwrap();
    let mut call = Call::new().with("endpoint", "/users");
    call.claim("api_key".into(), "sk_pro_1".into());
    let told = set.explain(&call);
    let fact = |name: &str| *told.descriptors.iter().find(|fact| fact.name == name).unwrap();
    assert!(!fact("api_key").verified && fact("endpoint").verified && !fact("endpoint").derived);
    assert_eq!(fact("tier"), Fact { name: "tier", value: "free", verified: true, derived: true });
    assert!(matches!(told.rules[0].fate, Fate::Applies { origin: Origin::Rule, .. }), "no tier by a client's word");
    assert_eq!(set.explain(&Call::new().with("api_key", "bad")).list_match, ListMatch::Denied(0));
}

/// The fate is told by other code than that which decides, so both are held together.
#[test]
fn what_is_said_to_apply_is_what_applies() {
    let set = tollgate_rules::from_yaml("rules.yaml", RULES, 1).unwrap();
    for endpoint in ["/search/batch", "/search/x", "/users"] {
        for name in ["api_key", "tenant", "user"] {
            let call = Call::new().with(name, "vip").with("endpoint", endpoint);
            let told = set.explain(&call);
            let applies = |fate: &Fate<'_>| matches!(fate, Fate::Applies { .. });
            let said: Vec<_> =
                told.rules.iter().filter(|found| applies(&found.fate)).map(|found| &*found.rule.name).collect();
            let described = set.resolved(&call);
            let mut found: Vec<_> = set.applicable(&described).iter().map(|a| (a.index, &*a.rule.name)).collect();
            found.sort_unstable();
            assert_eq!(said, found.into_iter().map(|(_, name)| name).collect::<Vec<_>>());
            assert!(told.rules.iter().all(|found| found.fate != Fate::NotAsked));
        }
    }
}
