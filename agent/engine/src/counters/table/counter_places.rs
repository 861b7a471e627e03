//! Places of the table: the cap on counters, and the part of it that one rule may hold.
//!
//! They are counted for the whole table and not for each shard, so that the cap is exact. Only a new counter and a
//! sweep come here.

use std::collections::HashMap;
use std::ops::RangeInclusive;

use foldhash::fast::RandomState;

/// Caps on counters that an agent may have: a billion of them take about 256 GB.
pub const COUNTERS_MAX_RANGE: RangeInclusive<u64> = 1..=1_000_000_000;

/// Multiple of the free places that one of several rules may hold: four fifths of the table.
const FREE_TIMES: usize = 4;
/// Tag of counters whose call took longer than any deadline. They have a place in any case.
pub(super) const LATE: RuleTag = 0;

/// Digest of a rule's name.
pub(super) type RuleTag = u64;

pub(super) struct Places {
    counters_max: usize,
    len: usize,
    by_rule: HashMap<RuleTag, usize, RandomState>,
}

impl Places {
    pub(super) fn new(counters_max: usize) -> Self {
        Self { counters_max, len: 0, by_rule: HashMap::default() }
    }

    pub(super) fn len(&self) -> usize {
        self.len
    }

    #[cfg(test)]
    pub(super) fn rules(&self) -> usize {
        self.by_rule.len()
    }

    /// Takes a place for a counter of a rule, if there is one. A rule that alone limits may take all.
    pub(super) fn take(&mut self, rule: RuleTag, is_alone: bool) -> bool {
        let free = self.counters_max.saturating_sub(self.len);
        let held = self.by_rule.get(&rule).copied().unwrap_or_default();
        let has_place = rule == LATE || if is_alone { free > 0 } else { held < FREE_TIMES * free };
        if has_place {
            self.len += 1;
            self.by_rule.insert(rule, held + 1);
        }
        has_place
    }

    pub(super) fn give_back(&mut self, dropped: &[RuleTag]) {
        self.len -= dropped.len();
        for rule in dropped {
            self.by_rule.entry(*rule).and_modify(|held| *held -= 1);
        }
        self.by_rule.retain(|_, held| *held > 0);
    }
}
