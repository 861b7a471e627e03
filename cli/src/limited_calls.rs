//! Calls that rules limit, by the descriptors that a call needs: a call without them passes, which is rarely meant.

use std::collections::BTreeSet;

use tollgate::{Rule, RuleSet};
use tollgate_core::rules::{DescriptorSource, DescriptorSpec};

/// Maximum number of combinations of descriptors that are named.
const NEEDS_SHOWN_MAX: usize = 4;

/// Returns a sentence about the descriptors without which a call is not limited, if a call can lack them.
pub(crate) fn notice(rules: &RuleSet) -> Option<String> {
    let limits = |rule: &&Rule| !rule.deny && !rule.shadow && rule.all_policies().next().is_some();
    let limiting = rules.rules.iter().map(|rule| &**rule).filter(limits);
    let mut all: Vec<_> = limiting.map(|rule| needed(&rules.descriptors, rule)).collect();
    all.sort_by_key(BTreeSet::len);
    // A call with more descriptors than another rule needs is limited by that one.
    let mut needs: Vec<BTreeSet<&str>> = Vec::new();
    for names in all {
        if !needs.iter().any(|fewer| fewer.is_subset(&names)) {
            needs.push(names);
        }
    }
    if needs.first()?.is_empty() {
        return None;
    }
    let shown = needs.iter().take(NEEDS_SHOWN_MAX).map(|names| {
        let names: Vec<String> = names.iter().map(|name| format!("`{name}`")).collect();
        format!("with {}", names.join(" and "))
    });
    let mut shown: Vec<String> = shown.collect();
    shown.extend(needs.get(NEEDS_SHOWN_MAX).map(|_| "with what further rules need".to_owned()));
    Some(format!(
        "rules limit only calls {}; any other call passes, and tollgate_decisions_total{{rule=\"\"}} counts it",
        shown.join(", or ")
    ))
}

/// Returns the descriptors without which the rule does not apply to a call.
fn needed<'a>(specs: &[DescriptorSpec], rule: &'a Rule) -> BTreeSet<&'a str> {
    let is_always_there =
        |spec: &DescriptorSpec| spec.default.is_some() || matches!(spec.source, DescriptorSource::Constant(_));
    let can_lack = |name: &&str| !specs.iter().any(|spec| *spec.name == **name && is_always_there(spec));
    let per = rule.per.iter().map(|name| &**name).filter(can_lack);
    per.chain(rule.matches.iter().map(|(name, _)| &**name)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_fewest_descriptors_of_a_limited_call_are_named() {
        let per_key = "{ name: key, per: [api_key], quota: 1/s }";
        let search = "{ name: search, per: [api_key], match: { endpoint: /search* }, quota: 1/s }";
        let login = "{ name: login, per: [ip], match: { endpoint: /login }, quota: 1/s }";
        let tenant = "{ name: tenant, per: [tenant], quota: 1/s }";
        for (rules, expected) in [
            (vec![search, per_key, login], Some("with `api_key`, or with `endpoint` and `ip`")),
            (vec![per_key, tenant], None),
            (vec![per_key, "{ name: all, per: [], quota: 1/s }"], None),
            (vec!["{ name: get, per: [], match: { method: GET }, quota: 1/s }"], Some("with `method`")),
            (vec!["{ name: shadow, per: [ip], quota: 1/s, shadow: true }"], None),
            (vec!["{ name: free, per: [ip], quota: unlimited }", per_key], Some("with `api_key`")),
            (vec!["{ name: old, match: { endpoint: /v1* }, deny: true }", per_key], Some("with `api_key`")),
            (vec![], None),
        ] {
            let yaml = format!(
                "descriptors: {{ tenant: {{ header: x-tenant, default: none }} }}\nrules: [{}]",
                rules.join(", ")
            );
            let found = notice(&tollgate_rules::from_yaml("rules.yaml", &yaml, 1).unwrap());
            assert_eq!(
                found.as_deref().map(|text| &text["rules limit only calls ".len()..text.find(';').unwrap()]),
                expected
            );
        }
    }
}
