//! A call's charges: which rules apply, on which policy, and which counter each of them means.

use std::sync::Arc;

use smallvec::SmallVec;
use tollgate_core::call::Call;
use tollgate_core::clock::Timestamp;
use tollgate_core::counter::{CounterId, DigestKey, RequestId, SlotId};
use tollgate_core::messages::calls::CounterEntry;
use tollgate_core::rules::{Charging, Generation, LimitPolicy, ListMatch, MatchScope, ResolvedCall, Rule, RuleSet};

use crate::enforce::Enforcement;
use crate::engine::{ActiveRules, Engine};
use crate::time_bounds::TimeBounds;
use tollgate_core::counter::{Charge, ChargeMode};

pub(crate) type MatchedRules = SmallVec<[MatchedRule; 2]>;

/// One rule that applies to a call.
#[derive(Clone, Debug)]
pub(crate) struct MatchedRule {
    pub(crate) rule: Arc<Rule>,
    /// What it asks of this caller.
    pub(crate) policy: LimitPolicy,
    /// The rule's place in the set.
    pub(crate) index: usize,
    /// Its own place in the call.
    pub(crate) place: usize,
    pub(crate) counter: CounterId,
    pub(crate) slot: SlotId,
    pub(crate) overflow: bool,
    pub(crate) cost: u64,
    pub(crate) enforcement: Enforcement,
}

impl Engine {
    /// The charges of a call, in the order of the rules; or the place of the rule that denies it outright.
    pub(crate) fn charges(
        &self,
        active: &ActiveRules,
        now: TimeBounds,
        (asked, scope): (&Call<'_>, MatchScope<'_>),
        list_match: ListMatch,
    ) -> Result<MatchedRules, usize> {
        let set = &active.set;
        let call = &set.resolved_within(asked, scope);
        let key = &self.settings.digest_key;
        let slot = set.slot_by.as_ref().and_then(|name| Some((name, key.slot(call.get(name)?))));
        let exempt = matches!(list_match, ListMatch::Allowed(_));
        let mut charges = MatchedRules::new();
        for applicable in set.applicable_among(call, active.index.candidates(call)) {
            let rule = applicable.rule;
            if rule.deny && rule.shadow {
                active.counts[applicable.index].shadow_denials.add(1);
            } else if rule.deny && !exempt {
                return Err(applicable.index);
            }
            let Some(policy) = applicable.policy else { continue };
            let named = key.counter(&rule.name, rule.values(call));
            let counter = self.table.place(named, &rule.name, now.earliest, || key.overflow(&rule.name));
            let overflow = counter != named;
            if overflow {
                self.metrics.overflow_charges.add(1);
            }
            let shared = slot.as_ref().filter(|(name, _)| !overflow && rule.per.contains(name));
            charges.push(MatchedRule {
                rule: rule.clone(),
                policy,
                index: applicable.index,
                place: charges.len(),
                counter,
                slot: shared.map_or_else(|| SlotId::of(counter), |(_, slot)| *slot),
                overflow,
                cost: rule.cost_of(call, asked.cost()),
                enforcement: enforcement(rule, exempt, asked.id().is_some()),
            });
        }
        // Alone, a counter that is full until its edge gains nothing from being counted on.
        if let [only] = &mut charges[..]
            && only.enforcement == Enforcement::AskStore
            && asked.id().is_none()
        {
            only.enforcement = Enforcement::Normal;
        }
        Ok(charges)
    }
}

/// Who may not be denied is counted all the same, and who asks a second time may have passed before.
fn enforcement(rule: &Rule, exempt: bool, named: bool) -> Enforcement {
    if exempt || rule.shadow {
        Enforcement::NeverDeny
    } else if named || rule.charge == Charging::Each {
        Enforcement::AskStore
    } else {
        Enforcement::Normal
    }
}

impl MatchedRule {
    /// Whether it is never denied.
    pub(crate) fn is_lenient(&self) -> bool {
        self.enforcement == Enforcement::NeverDeny
    }

    /// The question to the store.
    pub(crate) fn ask(&self, generation: Generation, id: Option<RequestId>, now: TimeBounds) -> Charge {
        // Past this instant, by the latest the store's clock may show, nobody waits any more.
        let deadline_ms = u64::try_from(self.policy.deadline.as_millis()).unwrap_or(u64::MAX);
        let expires_at = now.latest.plus_ms(deadline_ms);
        let counts = self.is_lenient() || self.rule.charge == Charging::Each;
        let kind = if counts { ChargeMode::CountOnly { expires_at } } else { ChargeMode::Enforce { expires_at } };
        Charge { request: id, ..self.take(generation, self.cost, kind) }
    }

    /// Something else that the store is told.
    pub(crate) fn take(&self, generation: Generation, cost: u64, mode: ChargeMode) -> Charge {
        let (counter, slot, limit) = (self.counter, self.slot, self.policy.limit());
        Charge { counter, slot, request: None, limit, generation, cost, mode }
    }

    /// Where a batch counts something of this time.
    pub(crate) fn sub_window(&self, at: Timestamp) -> u64 {
        self.policy.window.sub_window(at)
    }

    /// What a batch says of the counter.
    pub(crate) fn entry(&self, set: &RuleSet, call: &ResolvedCall<'_>, key: &DigestKey) -> CounterEntry {
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
            quota: self.policy.quota.units(),
            window: self.policy.window,
        }
    }
}
