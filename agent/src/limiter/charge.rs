//! A call's charges: which rules apply, and which counter each of them means.

use std::sync::Arc;

use smallvec::SmallVec;
use tollgate_common::call::Call;
use tollgate_common::charge::CounterEntry;
use tollgate_common::counter::{CounterId, DigestKey};
use tollgate_common::rule::{Rule, RuleSet};

use super::Limiter;
use crate::enforce::Span;

pub(super) type Charges = SmallVec<[Charge; 2]>;

/// One rule that applies to a call.
#[derive(Clone, Debug)]
pub(super) struct Charge {
    pub(super) rule: Arc<Rule>,
    /// The rule's place in the set.
    pub(super) index: usize,
    /// Its own place in the call.
    pub(super) place: usize,
    pub(super) counter: CounterId,
    pub(super) overflow: bool,
    pub(super) cost: u64,
}

impl Limiter {
    /// The charges of a call, in the order of the rules.
    pub(super) fn charges(&self, set: &RuleSet, now: Span, call: &Call<'_>) -> Charges {
        let applying = set.rules.iter().enumerate().filter(|(_, rule)| rule.applies_to(call));
        let key = &self.settings.digest_key;
        applying
            .map(|(index, rule)| {
                let named = key.counter(&rule.name, rule.values(call));
                let counter = self.seen.place(named, now.lo, || key.overflow(&rule.name));
                if counter != named {
                    self.metrics.overflowed.inc();
                }
                Charge { rule: rule.clone(), index, place: 0, counter, overflow: counter != named, cost: call.cost() }
            })
            .enumerate()
            .map(|(place, charge)| Charge { place, ..charge })
            .collect()
    }
}

impl Charge {
    /// What a batch says of the counter.
    pub(super) fn entry(&self, set: &RuleSet, call: &Call<'_>, key: &DigestKey) -> CounterEntry {
        let label = match (self.overflow, self.rule.per.is_empty()) {
            (true, _) => "(all callers past counters_max)".to_owned(),
            (false, true) => "(all calls)".to_owned(),
            (false, false) => {
                let mut label = String::new();
                for name in &self.rule.per {
                    let space = if label.is_empty() { "" } else { " " };
                    let value = key.shown(call.get(name).unwrap_or_default(), set.is_secret(name));
                    label.extend([space, name, "=", &value]);
                }
                label
            }
        };
        CounterEntry {
            id: self.counter,
            rule: self.rule.name.clone(),
            label,
            generation: set.generation,
            quota: self.rule.quota.units(),
            window: self.rule.window,
        }
    }
}
