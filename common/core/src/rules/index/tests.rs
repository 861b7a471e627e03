//! Tests of the index against a full scan of the rules.

use proptest::prelude::*;

use super::super::{ApplicableRule, DescriptorSource, DescriptorSpec, MatchScope, RuleSet};
use super::*;
use crate::call::Call;

const NAMES: [&str; 4] = ["a", "b", "c", "from-a"];
const VALUES: [&str; 8] = ["", "x", "xy", "xyz", "y", "ß", "ßx", "x*"];

const TEXTS: [&str; 11] = ["", "x", "xy", "x*", "xy*", "*", "ß*", "x?z", "*y", "?", "y"];

fn pattern() -> impl Strategy<Value = Pattern> {
    let leaf = prop_oneof![
        4 => prop::sample::select(&TEXTS[..]).prop_map(Pattern::parse),
        1 => prop::sample::select(&VALUES[..]).prop_map(|text| Pattern::Exact(text.into())),
        1 => Just(Pattern::regex("^x|y$").unwrap()),
        1 => Just(Pattern::Cidr("10.0.0.0/8".parse().unwrap())),
    ];
    leaf.prop_recursive(2, 12, 4, |inner| {
        let some = prop::collection::vec(inner, 0..4);
        prop_oneof![
            some.clone().prop_map(|patterns| Pattern::Any(patterns.into())),
            some.clone().prop_map(|patterns| Pattern::Not(patterns.into())),
            some.prop_map(Pattern::All),
        ]
    })
}

fn name() -> impl Strategy<Value = Arc<str>> {
    prop::sample::select(&NAMES[..]).prop_map(Arc::from)
}

fn rule() -> impl Strategy<Value = Rule> {
    let matches = prop::collection::vec((name(), pattern()), 0..3);
    let per = prop::collection::vec(name(), 0..3);
    let group = prop::option::of(prop::sample::select(&["g", "h"][..]));
    (matches, per, group, prop::option::of(0_usize..40)).prop_map(|(matches, per, group, replaces)| {
        let mut rule = Rule::per("", &[], "1/s".parse().unwrap());
        (rule.matches, rule.per, rule.group) = (matches, per, group.map(Arc::from));
        rule.replaces = replaces.into_iter().filter(|other| other % 4 == 0).map(named).collect();
        rule
    })
}

fn named(position: usize) -> Arc<str> {
    format!("r{position}").into()
}

fn set() -> impl Strategy<Value = RuleSet> {
    prop::collection::vec(rule(), 0..40).prop_map(|mut rules| {
        rules.iter_mut().enumerate().for_each(|(position, rule)| rule.name = named(position));
        let table = vec![(Pattern::parse("x"), "xy".into()), (Pattern::parse("y*"), "ßx".into())];
        let derived = DescriptorSource::Map { of: "a".into(), table };
        let with_default = DescriptorSpec::new("c", DescriptorSource::Header("c".into()));
        let descriptors =
            vec![DescriptorSpec::new("from-a", derived), DescriptorSpec { default: Some("x".into()), ..with_default }];
        RuleSet { descriptors, ..RuleSet::new(1, rules) }
    })
}

fn call() -> impl Strategy<Value = Call<'static>> {
    let descriptor = (prop::sample::select(&NAMES[..]), prop::sample::select(&VALUES[..]), any::<bool>());
    prop::collection::vec(descriptor, 0..5).prop_map(|descriptors| {
        let mut call = Call::new();
        for (name, value, verified) in descriptors {
            if verified {
                call.set(name.into(), value.into());
            } else {
                call.set_unverified(name.into(), value.into());
            }
        }
        call
    })
}

proptest! {
    #[test]
    fn the_candidates_hold_every_applicable_rule(
        set in set(),
        calls in prop::collection::vec((call(), any::<bool>()), 1..8),
    ) {
        let indices = |applicable: &[ApplicableRule<'_>]| -> Vec<usize> {
            applicable.iter().map(|applicable| applicable.index).collect()
        };
        for index in [Index::of_many(&set.rules), Index::new(&set.rules)] {
            for (call, ordered_entries) in &calls {
                let scope = MatchScope { ordered_entries: *ordered_entries, ..MatchScope::default() };
                let resolved = set.resolved_within(call, scope);
                let mut positions = Positions::new();
                let candidates = index.candidates(&resolved, &mut positions);
                prop_assert!(candidates.is_sorted_by(|a, b| a < b), "{candidates:?}");
                let found = set.applicable_among(&resolved, candidates.iter().copied());
                prop_assert_eq!(indices(&found), indices(&set.applicable(&resolved)));
            }
        }
    }
}

fn candidates(rules: &[Rule], call: &Call<'_>) -> Vec<usize> {
    let set = RuleSet::new(1, rules.iter().cloned());
    Index::new(&set.rules).candidates(&set.resolved(call), &mut Positions::new()).to_vec()
}

fn rule_with(matches: &[(&str, &str)], per: &[&str]) -> Rule {
    let mut rule = Rule::per("r", per, "1/s".parse().unwrap());
    rule.matches = matches.iter().map(|(name, text)| ((*name).into(), Pattern::parse(text))).collect();
    rule
}

#[test]
fn few_rules_are_candidates() {
    let mut rules: Vec<_> =
        (0..100).map(|i| rule_with(&[("domain", "d"), ("user", &format!("u{i}"))], &["api_key"])).collect();
    rules.extend((0..100).map(|i| rule_with(&[("domain", "d"), ("path", &format!("/p{i}/*"))], &["api_key"])));
    rules.extend((0..100).map(|i| rule_with(&[("domain", "d")], &[&format!("name-{i}")])));
    rules.push(rule_with(&[], &[]));
    let call = Call::new().with("domain", "d").with("api_key", "k").with("user", "u7").with("path", "/p42/x");
    assert_eq!(candidates(&rules, &call), [7, 142, 300]);
    assert_eq!(candidates(&rules, &Call::new().with("domain", "d").with("name-5", "n")), [205, 300]);
    assert_eq!(candidates(&rules, &Call::new()), [300]);
}
