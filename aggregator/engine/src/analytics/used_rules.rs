//! The rules that calls of the last day met, with their newest generations.

use std::collections::HashMap;
use std::sync::Arc;

use foldhash::fast::RandomState;
use tollgate_core::clock::Timestamp;
use tollgate_core::rules::Generation;

/// Maximum number of rules. Past the cap, further ones are unknown until one is forgotten.
const RULES_LEN_MAX: usize = 10_000;

#[derive(Clone, Debug, Default)]
pub(super) struct UsedRules(HashMap<Arc<str>, UsedRule, RandomState>);

#[derive(Clone, Copy, Debug)]
struct UsedRule {
    generation: Generation,
    /// Start of the rollup with its first call; none for the first generation that was seen.
    changed_at: Option<Timestamp>,
    /// Start of the newest rollup.
    used_at: Timestamp,
}

impl UsedRules {
    /// Notes a rollup of a rule.
    pub(super) fn used(&mut self, rule: &Arc<str>, generation: Generation, start: Timestamp) {
        let has_room = self.0.len() < RULES_LEN_MAX;
        match self.0.get_mut(rule) {
            Some(known) => {
                if generation > known.generation {
                    (known.generation, known.changed_at) = (generation, Some(start));
                }
                known.used_at = known.used_at.max(start);
            }
            None if has_room => {
                self.0.insert(rule.clone(), UsedRule { generation, changed_at: None, used_at: start });
            }
            None => {}
        }
    }

    pub(super) fn knows(&self, rule: &str) -> bool {
        self.0.contains_key(rule)
    }

    /// Returns the time at which the newest generation of a rule was first used, if it was seen to change.
    pub(super) fn changed_at(&self, rule: &str) -> Option<Timestamp> {
        self.0.get(rule)?.changed_at
    }

    /// Returns the latest time at which a rule was seen to change.
    pub(super) fn newest_change(&self) -> Option<Timestamp> {
        self.0.values().filter_map(|rule| rule.changed_at).max()
    }

    /// Forgets rules that no call has met since.
    pub(super) fn forget_before(&mut self, first: Timestamp) {
        self.0.retain(|_, rule| rule.used_at >= first);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each deployment may name its rules anew.
    #[test]
    fn a_rule_without_calls_is_forgotten_and_makes_room() {
        let mut rules = UsedRules::default();
        let at = Timestamp::from_ms;
        for number in 0..RULES_LEN_MAX {
            rules.used(&format!("r{number}").into(), 1, at(100));
        }
        rules.used(&"new".into(), 1, at(200));
        assert!(rules.knows("r7") && !rules.knows("new"), "the cap");
        rules.used(&"r7".into(), 2, at(300));
        rules.forget_before(at(200));
        assert_eq!((rules.0.len(), rules.changed_at("r7"), rules.newest_change()), (1, Some(at(300)), Some(at(300))));
        rules.used(&"new".into(), 1, at(400));
        assert!(rules.knows("new"));
    }
}
