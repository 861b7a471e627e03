//! The rules in force, as far as a server knows them: those that were published or pinned, or those of an agent in the same process.

use std::sync::Arc;

use parking_lot::Mutex;
use tollgate_core::rules::RuleSet;

/// Function that passes rules to another one.
type ReadRules = dyn Fn(&mut dyn FnMut(&RuleSet)) + Send + Sync;

/// The rules in force, if they are known; clones share them.
#[derive(Clone)]
pub struct RulesReader {
    read: Arc<ReadRules>,
}

/// Rules that change by themselves, behind [`RulesReader`].
#[derive(Clone, Default)]
pub struct NewestRules(Arc<Mutex<Option<Arc<RuleSet>>>>);

impl RulesReader {
    /// Takes the rules from a function that passes them to another one, or does not if there are none.
    pub fn by(read: impl Fn(&mut dyn FnMut(&RuleSet)) + Send + Sync + 'static) -> Self {
        Self { read: Arc::new(read) }
    }

    /// Passes the rules to a function. Returns its answer; none if no rules are known.
    pub(crate) fn read<T>(&self, answer: impl FnOnce(&RuleSet) -> T) -> Option<T> {
        let (mut answer, mut answered) = (Some(answer), None);
        (self.read)(&mut |rules| answered = answer.take().map(|answer| answer(rules)));
        answered
    }
}

/// No rules.
impl Default for RulesReader {
    fn default() -> Self {
        Self::by(|_| ())
    }
}

impl NewestRules {
    /// Replaces the rules.
    pub fn set(&self, rules: RuleSet) {
        *self.0.lock() = Some(Arc::new(rules));
    }

    /// Returns the rules, as they are when they are read.
    #[must_use]
    pub fn known(&self) -> RulesReader {
        let newest = self.0.clone();
        RulesReader::by(move |read| {
            let rules = newest.lock().clone();
            if let Some(rules) = rules {
                read(&rules);
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_are_those_of_the_time_at_which_they_are_read() {
        let newest = NewestRules::default();
        let known = newest.known();
        assert_eq!((known.read(|_| ()), RulesReader::default().read(|_| ())), (None, None));
        for generation in [7, 8] {
            let mut rules = RuleSet::default();
            rules.generation = generation;
            newest.set(rules);
            assert_eq!(known.read(|rules| rules.generation), Some(generation));
        }
    }
}
