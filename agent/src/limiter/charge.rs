//! A call's charges: which rules apply, on which terms, and which counter each of them means.

use std::sync::Arc;

use smallvec::SmallVec;
use tollgate_common::call::Call;
use tollgate_common::charge::CounterEntry;
use tollgate_common::clock::Timestamp;
use tollgate_common::counter::{CounterId, DigestKey, RequestId, SlotId};
use tollgate_common::rule::{Charging, Described, Generation, Rule, RuleSet, Standing, Terms};

use super::{Limiter, Loaded};
use crate::enforce::{Manner, Span, Take, TakeKind};

pub(super) type Charges = SmallVec<[Charge; 2]>;

/// One rule that applies to a call.
#[derive(Clone, Debug)]
pub(super) struct Charge {
    pub(super) rule: Arc<Rule>,
    /// What it asks of this caller.
    pub(super) terms: Terms,
    /// The rule's place in the set.
    pub(super) index: usize,
    /// Its own place in the call.
    pub(super) place: usize,
    pub(super) counter: CounterId,
    pub(super) slot: SlotId,
    pub(super) overflow: bool,
    pub(super) cost: u64,
    pub(super) manner: Manner,
}

impl Limiter {
    /// The charges of a call, in the order of the rules; or the place of the rule that denies it outright.
    pub(super) fn charges(
        &self,
        loaded: &Loaded,
        now: Span,
        asked: &Call<'_>,
        standing: Standing,
    ) -> Result<Charges, usize> {
        let set = &loaded.set;
        let call = &set.described(asked);
        let key = &self.settings.digest_key;
        let slot = set.slot_by.as_ref().and_then(|name| Some((name, key.slot(call.get(name)?))));
        let exempt = matches!(standing, Standing::Allowed(_));
        let mut charges = Charges::new();
        for applying in set.applying_among(call, loaded.index.candidates(call)) {
            let rule = applying.rule;
            if rule.deny && rule.shadow {
                loaded.counters[applying.index].shadowed.inc();
            } else if rule.deny && !exempt {
                return Err(applying.index);
            }
            let Some(terms) = applying.terms else { continue };
            let named = key.counter(&rule.name, rule.values(call));
            let counter = self.seen.place(named, &rule.name, now.lo, || key.overflow(&rule.name));
            let overflow = counter != named;
            if overflow {
                self.metrics.overflowed.inc();
            }
            let shared = slot.as_ref().filter(|(name, _)| !overflow && rule.per.contains(name));
            charges.push(Charge {
                rule: rule.clone(),
                terms,
                index: applying.index,
                place: charges.len(),
                counter,
                slot: shared.map_or_else(|| SlotId::of(counter), |(_, slot)| *slot),
                overflow,
                cost: rule.cost_of(call, asked.cost()),
                manner: manner(rule, exempt, asked.id().is_some()),
            });
        }
        // Alone, a counter that is full until its edge gains nothing from being counted on.
        if let [only] = &mut charges[..]
            && only.manner == Manner::Anew
            && asked.id().is_none()
        {
            only.manner = Manner::Usual;
        }
        Ok(charges)
    }
}

/// Who may not be denied is counted all the same, and who asks a second time may have passed before.
fn manner(rule: &Rule, exempt: bool, named: bool) -> Manner {
    if exempt || rule.shadow {
        Manner::Lenient
    } else if named || rule.charge == Charging::Each {
        Manner::Anew
    } else {
        Manner::Usual
    }
}

impl Charge {
    /// Whether it is never denied.
    pub(super) fn is_lenient(&self) -> bool {
        self.manner == Manner::Lenient
    }

    /// The question to the store.
    pub(super) fn ask(&self, generation: Generation, id: Option<RequestId>, now: Span) -> Take {
        // Past this instant, by the latest the store's clock may show, nobody waits any more.
        let deadline_ms = u64::try_from(self.terms.deadline.as_millis()).unwrap_or(u64::MAX);
        let expires_at = now.hi.plus_ms(deadline_ms);
        let counts = self.is_lenient() || self.rule.charge == Charging::Each;
        let kind = if counts { TakeKind::Count { expires_at } } else { TakeKind::Ask { expires_at } };
        Take { id, ..self.take(generation, self.cost, kind) }
    }

    /// Something else that the store is told.
    pub(super) fn take(&self, generation: Generation, cost: u64, kind: TakeKind) -> Take {
        let (counter, slot, limit) = (self.counter, self.slot, self.terms.limit());
        Take { counter, slot, id: None, limit, generation, cost, kind }
    }

    /// Where a batch counts something of this time.
    pub(super) fn sub_window(&self, at: Timestamp) -> u64 {
        self.terms.window.sub_window(at)
    }

    /// What a batch says of the counter.
    pub(super) fn entry(&self, set: &RuleSet, call: &Described<'_>, key: &DigestKey) -> CounterEntry {
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
            quota: self.terms.quota.units(),
            window: self.terms.window,
        }
    }
}
