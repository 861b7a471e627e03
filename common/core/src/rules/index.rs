//! Which rules may apply to a call, found without looking at all of them.
//!
//! Each rule is filed under one thing that must be so where it applies: a descriptor has a value, begins with a text, or is
//! there at all. Of those that a rule asks for the rarest among all rules is taken, so few others lie beside it.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use smallvec::SmallVec;

use super::{Pattern, ResolvedCall, Rule};

/// So few rules are looked at one by one in less time.
const FEW: usize = 16;

/// Which rules may apply to a call. It is of the rules that it was made of, and of no others.
#[derive(Clone, Debug, Default)]
pub struct Index {
    /// The places of rules that may apply to any call.
    always: Vec<usize>,
    by_name: HashMap<Arc<str>, OfName>,
}

/// The places of rules that ask something of one descriptor.
#[derive(Clone, Debug, Default)]
struct OfName {
    present: Vec<usize>,
    exact: HashMap<Box<str>, Vec<usize>>,
    head: HashMap<Box<str>, Vec<usize>>,
    /// The lengths of the texts in `head`, ascending.
    head_lens: Vec<usize>,
}

/// What a value must be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Clue<'r> {
    /// Anything.
    Present,
    /// It begins so, which is not empty.
    Head(&'r str),
    /// The whole value.
    Exact(&'r str),
}

/// A name, and of which one of these clues holds where the rule applies.
type Condition<'r> = (&'r Arc<str>, Vec<Clue<'r>>);

impl Index {
    /// An index of rules by their places.
    #[must_use]
    pub fn new(rules: &[Arc<Rule>]) -> Self {
        if rules.len() <= FEW {
            return Self { always: (0..rules.len()).collect(), ..Self::default() };
        }
        Self::of_many(rules)
    }

    fn of_many(rules: &[Arc<Rule>]) -> Self {
        let conditions: Vec<Vec<Condition<'_>>> = rules.iter().map(|rule| conditions(rule)).collect();
        let mut uses: HashMap<(&str, Clue<'_>), usize> = HashMap::new();
        for (name, clues) in conditions.iter().flatten() {
            for clue in clues {
                *uses.entry((name, *clue)).or_default() += 1;
            }
        }
        let mut index = Self::default();
        for (place, conditions) in conditions.into_iter().enumerate() {
            // Of equals that which tells most, and of these the first.
            let rarest = conditions.into_iter().min_by_key(|(name, clues)| {
                let most = clues.iter().map(|clue| uses[&(&***name, *clue)]).max();
                (most, clues.iter().map(|clue| clue.kind()).max())
            });
            match rarest {
                None => index.always.push(place),
                Some((name, clues)) => {
                    let of_name = index.by_name.entry(name.clone()).or_default();
                    for clue in clues {
                        of_name.file(clue, place);
                    }
                }
            }
        }
        for of_name in index.by_name.values_mut() {
            of_name.head_lens = of_name.head.keys().map(|head| head.len()).collect();
            of_name.head_lens.sort_unstable();
            of_name.head_lens.dedup();
        }
        index
    }

    /// The places of all rules that may apply to a call, ascending; most of the others are left out.
    #[must_use]
    pub fn candidates(&self, call: &ResolvedCall<'_>) -> SmallVec<[usize; 16]> {
        let mut places = SmallVec::from_slice(&self.always);
        if self.by_name.is_empty() {
            return places;
        }
        for name in call.names() {
            if let Some(of_name) = self.by_name.get(name)
                && let Some(value) = call.get(name)
            {
                of_name.find(value, &mut places);
            }
        }
        places.sort_unstable();
        places.dedup();
        places
    }
}

impl Clue<'_> {
    /// The more is told, the less.
    fn kind(self) -> u8 {
        match self {
            Self::Exact(_) => 0,
            Self::Head(_) => 1,
            Self::Present => 2,
        }
    }
}

impl OfName {
    fn file(&mut self, clue: Clue<'_>, place: usize) {
        match clue {
            Clue::Present => self.present.push(place),
            Clue::Head(text) => self.head.entry(text.into()).or_default().push(place),
            Clue::Exact(text) => self.exact.entry(text.into()).or_default().push(place),
        }
    }

    fn find(&self, value: &str, places: &mut SmallVec<[usize; 16]>) {
        places.extend_from_slice(&self.present);
        places.extend_from_slice(self.exact.get(value).map_or(&[], Vec::as_slice));
        for len in &self.head_lens {
            let Some(head) = value.get(..*len) else { continue };
            places.extend_from_slice(self.head.get(head).map_or(&[], Vec::as_slice));
        }
    }
}

/// All that must be so where a rule applies, as far as an index knows it.
fn conditions(rule: &Rule) -> Vec<Condition<'_>> {
    let mut conditions = Vec::new();
    for (name, pattern) in &rule.matches {
        let asked = match pattern {
            Pattern::All(patterns) => &patterns[..],
            one => std::slice::from_ref(one),
        };
        // Of an empty list, too, the name must be there.
        conditions.push((name, vec![Clue::Present]));
        conditions
            .extend(asked.iter().map(clues).filter(|clues| clues[..] != [Clue::Present]).map(|clues| (name, clues)));
    }
    conditions.extend(rule.per.iter().map(|name| (name, vec![Clue::Present])));
    conditions
}

/// Of which one holds for every value that matches.
fn clues(pattern: &Pattern) -> Vec<Clue<'_>> {
    let one = match pattern {
        Pattern::Any(patterns) => {
            let mut all: Vec<_> = patterns.as_slice().iter().flat_map(clues).collect();
            let mut seen = HashSet::new();
            all.retain(|clue| seen.insert(*clue));
            // What holds for every value makes the others needless.
            return if all.is_empty() || all.contains(&Clue::Present) { vec![Clue::Present] } else { all };
        }
        Pattern::Exact(text) => return vec![Clue::Exact(text)],
        Pattern::Prefix(text) => text,
        Pattern::Glob(text, _) => text.split(['*', '?']).next().unwrap_or_default(),
        Pattern::Regex(_) | Pattern::Cidr(_) | Pattern::Not(_) | Pattern::All(_) => "",
    };
    vec![if one.is_empty() { Clue::Present } else { Clue::Head(one) }]
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::{DescriptorSource, DescriptorSpec, RuleSet};
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

    fn named(place: usize) -> Arc<str> {
        format!("r{place}").into()
    }

    fn set() -> impl Strategy<Value = RuleSet> {
        prop::collection::vec(rule(), 0..40).prop_map(|mut rules| {
            rules.iter_mut().enumerate().for_each(|(place, rule)| rule.name = named(place));
            let table = vec![(Pattern::parse("x"), "xy".into()), (Pattern::parse("y*"), "ßx".into())];
            let follows = DescriptorSource::Map { of: "a".into(), table };
            let with_default = DescriptorSpec::new("c", DescriptorSource::Header("c".into()));
            let descriptors = vec![
                DescriptorSpec::new("from-a", follows),
                DescriptorSpec { default: Some("x".into()), ..with_default },
            ];
            RuleSet { descriptors, ..RuleSet::new(1, rules) }
        })
    }

    fn call() -> impl Strategy<Value = Call<'static>> {
        let said = (prop::sample::select(&NAMES[..]), prop::sample::select(&VALUES[..]), any::<bool>());
        (prop::collection::vec(said, 0..5), any::<bool>()).prop_map(|(said, entries)| {
            let mut call = Call::new();
            for (name, value, claimed) in said {
                if claimed { call.claim(name.into(), value.into()) } else { call.set(name.into(), value.into()) }
            }
            if entries { call.as_entries() } else { call }
        })
    }

    proptest! {
        #[test]
        fn what_applies_among_the_candidates_is_what_applies(set in set(), calls in prop::collection::vec(call(), 1..8)) {
            let told = |applicable: &[super::super::ApplicableRule<'_>]| -> Vec<usize> {
                applicable.iter().map(|applicable| applicable.index).collect()
            };
            for index in [Index::of_many(&set.rules), Index::new(&set.rules)] {
                for call in &calls {
                    let described = set.resolved(call);
                    let candidates = index.candidates(&described);
                    prop_assert!(candidates.is_sorted_by(|a, b| a < b), "{candidates:?}");
                    let found = set.applicable_among(&described, candidates);
                    prop_assert_eq!(told(&found), told(&set.applicable(&described)));
                }
            }
        }
    }

    fn candidates(rules: &[Rule], call: &Call<'_>) -> Vec<usize> {
        let set = RuleSet::new(1, rules.iter().cloned());
        Index::new(&set.rules).candidates(&set.resolved(call)).to_vec()
    }

    fn asking(matches: &[(&str, &str)], per: &[&str]) -> Rule {
        let mut rule = Rule::per("r", per, "1/s".parse().unwrap());
        rule.matches = matches.iter().map(|(name, text)| ((*name).into(), Pattern::parse(text))).collect();
        rule
    }

    #[test]
    fn only_what_may_apply_is_looked_at() {
        let mut rules: Vec<_> =
            (0..100).map(|i| asking(&[("domain", "d"), ("user", &format!("u{i}"))], &["api_key"])).collect();
        rules.extend((0..100).map(|i| asking(&[("domain", "d"), ("path", &format!("/p{i}/*"))], &["api_key"])));
        rules.extend((0..100).map(|i| asking(&[("domain", "d")], &[&format!("name-{i}")])));
        rules.push(asking(&[], &[]));
        let call = Call::new().with("domain", "d").with("api_key", "k").with("user", "u7").with("path", "/p42/x");
        assert_eq!(candidates(&rules, &call), [7, 142, 300]);
        assert_eq!(candidates(&rules, &Call::new().with("domain", "d").with("name-5", "n")), [205, 300]);
        assert_eq!(candidates(&rules, &Call::new()), [300]);
    }
}
