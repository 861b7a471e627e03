//! Index of the rules that may apply to a call, so that most others are never looked at.
//!
//! Each rule is stored under one condition that must hold where it applies: a descriptor has a value, begins with a text, or
//! is present. Of the conditions of a rule, the index takes the one that the fewest rules share. The final decision is made
//! by `match_rules`.

#[cfg(test)]
mod tests;

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use smallvec::SmallVec;

use super::{Pattern, ResolvedCall, Rule};

/// Largest number of rules that is matched faster without an index.
const UNINDEXED_LEN_MAX: usize = 16;

/// Positions of rules, in memory of the caller's own.
pub type Positions = SmallVec<[usize; 16]>;

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
    Present,
    /// A value with this prefix, which is not empty.
    Prefix(&'r str),
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
    pub fn candidates<'s>(&'s self, call: &ResolvedCall<'_>, positions: &'s mut Positions) -> &'s [usize] {
        if self.by_name.is_empty() {
            return &self.always;
        }
        positions.extend_from_slice(&self.always);
        for name in call.names() {
            if let Some(name_index) = self.by_name.get(name)
                && let Some(value) = call.get(name)
            {
                name_index.find(value, positions);
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
            ValueTest::Prefix(expected) => self.prefix.entry(expected.into()).or_default().push(position),
            ValueTest::Exact(expected) => self.exact.entry(expected.into()).or_default().push(position),
        }
    }

    fn find(&self, value: &str, positions: &mut Positions) {
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
        let tests = required.iter().map(value_tests).filter(|tests| tests[..] != [ValueTest::Present]);
        conditions.extend(tests.map(|tests| (name, tests)));
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
