//! Index of the rules that may apply to a call, so that most others are never looked at.
//!
//! Each rule is stored under one condition that must hold where it applies: a descriptor has a value, begins with a text, or
//! is present. Of the conditions of a rule, the index takes the one that the fewest rules share. The final decision is made
//! by `match_rules`.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use smallvec::SmallVec;

use super::{Pattern, ResolvedCall, Rule};

/// Largest number of rules that is matched faster without an index.
const UNINDEXED_LEN_MAX: usize = 16;

/// Index of one list of rules. It is valid only for the rules that it was built from.
#[derive(Clone, Debug, Default)]
pub struct Index {
    /// Positions of rules that may apply to any call.
    always: Vec<usize>,
    by_name: HashMap<Arc<str>, NameIndex>,
}

/// Positions of the rules that have a condition on one descriptor.
#[derive(Clone, Debug, Default)]
struct NameIndex {
    present: Vec<usize>,
    exact: HashMap<Box<str>, Vec<usize>>,
    prefix: HashMap<Box<str>, Vec<usize>>,
    /// Lengths of the keys of `prefix`, ascending.
    prefix_lens: Vec<usize>,
}

/// Necessary condition on a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum ValueTest<'r> {
    /// Any value.
    Present,
    /// A value with this prefix, which is not empty.
    Prefix(&'r str),
    /// Exactly this value.
    Exact(&'r str),
}

/// A descriptor's name, and tests of which at least one holds where the rule applies.
type Condition<'r> = (&'r Arc<str>, Vec<ValueTest<'r>>);

impl Index {
    /// Builds the index of rules by their positions.
    #[must_use]
    pub fn new(rules: &[Arc<Rule>]) -> Self {
        if rules.len() <= UNINDEXED_LEN_MAX {
            return Self { always: (0..rules.len()).collect(), ..Self::default() };
        }
        Self::of_many(rules)
    }

    fn of_many(rules: &[Arc<Rule>]) -> Self {
        let conditions: Vec<Vec<Condition<'_>>> = rules.iter().map(|rule| conditions(rule)).collect();
        let mut uses: HashMap<(&str, ValueTest<'_>), usize> = HashMap::new();
        for (name, tests) in conditions.iter().flatten() {
            for test in tests {
                *uses.entry((name, *test)).or_default() += 1;
            }
        }
        let mut index = Self::default();
        for (position, conditions) in conditions.into_iter().enumerate() {
            // Among equally rare conditions the narrowest, and among these the first.
            let rarest = conditions.into_iter().min_by_key(|(name, tests)| {
                let most = tests.iter().map(|test| uses[&(&***name, *test)]).max();
                (most, tests.iter().map(|test| test.kind()).max())
            });
            match rarest {
                None => index.always.push(position),
                Some((name, tests)) => {
                    let name_index = index.by_name.entry(name.clone()).or_default();
                    for test in tests {
                        name_index.insert(test, position);
                    }
                }
            }
        }
        for name_index in index.by_name.values_mut() {
            name_index.prefix_lens = name_index.prefix.keys().map(|prefix| prefix.len()).collect();
            name_index.prefix_lens.sort_unstable();
            name_index.prefix_lens.dedup();
        }
        index
    }

    /// Returns the positions of all rules that may apply to a call, ascending. Most other rules are left out.
    #[must_use]
    pub fn candidates(&self, call: &ResolvedCall<'_>) -> SmallVec<[usize; 16]> {
        let mut positions = SmallVec::from_slice(&self.always);
        if self.by_name.is_empty() {
            return positions;
        }
        for name in call.names() {
            if let Some(name_index) = self.by_name.get(name)
                && let Some(value) = call.get(name)
            {
                name_index.find(value, &mut positions);
            }
        }
        positions.sort_unstable();
        positions.dedup();
        positions
    }
}

impl ValueTest<'_> {
    /// Returns the rank of the test; a narrower test has a smaller rank.
    fn kind(self) -> u8 {
        match self {
            Self::Exact(_) => 0,
            Self::Prefix(_) => 1,
            Self::Present => 2,
        }
    }
}

impl NameIndex {
    fn insert(&mut self, test: ValueTest<'_>, position: usize) {
        match test {
            ValueTest::Present => self.present.push(position),
            ValueTest::Prefix(text) => self.prefix.entry(text.into()).or_default().push(position),
            ValueTest::Exact(text) => self.exact.entry(text.into()).or_default().push(position),
        }
    }

    fn find(&self, value: &str, positions: &mut SmallVec<[usize; 16]>) {
        positions.extend_from_slice(&self.present);
        positions.extend_from_slice(self.exact.get(value).map_or(&[], Vec::as_slice));
        for len in &self.prefix_lens {
            let Some(prefix) = value.get(..*len) else { continue };
            positions.extend_from_slice(self.prefix.get(prefix).map_or(&[], Vec::as_slice));
        }
    }
}

/// Returns the necessary conditions of a rule, as far as an index can use them.
fn conditions(rule: &Rule) -> Vec<Condition<'_>> {
    let mut conditions = Vec::new();
    for (name, pattern) in &rule.matches {
        let required = match pattern {
            Pattern::All(patterns) => &patterns[..],
            one => std::slice::from_ref(one),
        };
        // A condition with an empty list still requires the descriptor.
        conditions.push((name, vec![ValueTest::Present]));
        conditions.extend(
            required
                .iter()
                .map(value_tests)
                .filter(|tests| tests[..] != [ValueTest::Present])
                .map(|tests| (name, tests)),
        );
    }
    conditions.extend(rule.per.iter().map(|name| (name, vec![ValueTest::Present])));
    conditions
}

/// Returns tests of which at least one holds for every value that matches.
fn value_tests(pattern: &Pattern) -> Vec<ValueTest<'_>> {
    let one = match pattern {
        Pattern::Any(patterns) => {
            let mut all: Vec<_> = patterns.as_slice().iter().flat_map(value_tests).collect();
            let mut seen = HashSet::new();
            all.retain(|test| seen.insert(*test));
            // A test that holds for every value makes the others redundant.
            return if all.is_empty() || all.contains(&ValueTest::Present) { vec![ValueTest::Present] } else { all };
        }
        Pattern::Exact(text) => return vec![ValueTest::Exact(text)],
        Pattern::Prefix(text) => text,
        Pattern::Glob(text, _) => text.split(['*', '?']).next().unwrap_or_default(),
        Pattern::Regex(_) | Pattern::Cidr(_) | Pattern::Not(_) | Pattern::All(_) => "",
    };
    vec![if one.is_empty() { ValueTest::Present } else { ValueTest::Prefix(one) }]
}

#[cfg(test)]
mod tests {
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
            let descriptors = vec![
                DescriptorSpec::new("from-a", derived),
                DescriptorSpec { default: Some("x".into()), ..with_default },
            ];
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
                for (call, exact_entries) in &calls {
                    let scope = MatchScope { exact_entries: *exact_entries, ..MatchScope::default() };
                    let resolved = set.resolved_within(call, scope);
                    let candidates = index.candidates(&resolved);
                    prop_assert!(candidates.is_sorted_by(|a, b| a < b), "{candidates:?}");
                    let found = set.applicable_among(&resolved, candidates);
                    prop_assert_eq!(indices(&found), indices(&set.applicable(&resolved)));
                }
            }
        }
    }

    fn candidates(rules: &[Rule], call: &Call<'_>) -> Vec<usize> {
        let set = RuleSet::new(1, rules.iter().cloned());
        Index::new(&set.rules).candidates(&set.resolved(call)).to_vec()
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
}
