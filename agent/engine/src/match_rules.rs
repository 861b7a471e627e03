//! Matching of a call: the rules that apply, the policy of each for the caller, and the counter that each charges.
//!
//! The rules themselves are matched in `tollgate_core::rules`. Here each match gets its counter (or the overflow counter of
//! the rule when the table is full), its slot in the store, and the way in which it is enforced.

use std::sync::Arc;

use tollgate_core::call::Call;
use tollgate_core::counter::SlotId;
use tollgate_core::decision::{DENY_LIST, DenyStatus, LimitKind, LimitStatus};
use tollgate_core::rules::{Charging, ListMatch, MatchScope, Rule};

use crate::enforce::Enforcement;
use crate::engine::{Context, Engine};
use crate::matched_rule::{MatchedRule, MatchedRules};
use crate::metrics::RuleCounts;

/// `Retry-After` of a denial that no counter gave, in ms: the rules may have changed by then.
const REJECTED_RETRY_MS: u64 = 60_000;

/// Denial of a call without a counter: by the deny list, or by a rule that denies every call that it matches.
#[derive(Clone, Debug)]
pub(crate) struct Rejection {
    /// Name of the rule, or of the list.
    pub(crate) by: Arc<str>,
    pub(crate) deny_status: DenyStatus,
    pub(crate) counts: Arc<RuleCounts>,
}

impl Rejection {
    /// Returns the status that the caller sees.
    pub(crate) fn status(&self, cost: u64) -> LimitStatus {
        let mut status = LimitStatus::new(self.by.clone(), LimitKind::Denial(self.deny_status), cost);
        (status.reset_ms, status.retry_after_ms) = (REJECTED_RETRY_MS, REJECTED_RETRY_MS);
        status
    }
}

impl Engine {
    /// Returns the rules that apply to a call, in their order. A caller that is exempt, by the allow list or because the call
    /// has been decided, is counted and never denied.
    pub(crate) fn match_call(
        &self,
        context: &Context<'_>,
        call: &Call<'_>,
        scope: MatchScope<'_>,
        is_decided: bool,
    ) -> Result<MatchedRules, Rejection> {
        let active = context.active;
        let resolved = active.set.resolved_within(call, scope);
        let rejection = |by: &Arc<str>, counts: &Arc<RuleCounts>| Rejection {
            by: by.clone(),
            deny_status: active.set.deny_status,
            counts: counts.clone(),
        };
        let exempt = is_decided
            || match active.set.list_match(&resolved) {
                ListMatch::Denied(_) => return Err(rejection(&DENY_LIST.into(), &self.listed)),
                list_match => list_match != ListMatch::Unlisted,
            };
        let key = &self.settings.digest_key;
        let slot = active.set.slot_by.as_ref().and_then(|name| Some((name, key.slot(resolved.get(name)?))));
        let mut matched = MatchedRules::new();
        let applicable = active.set.applicable_among(&resolved, active.index.candidates(&resolved));
        let is_alone = applicable.iter().filter(|applicable| applicable.policy.is_some()).count() == 1;
        for applicable in applicable {
            let (rule, counts) = (applicable.rule, &active.counts[applicable.index]);
            if rule.deny && !exempt {
                if !rule.shadow {
                    return Err(rejection(&rule.name, counts));
                }
                counts.shadow_denials.add(1);
            }
            let Some(policy) = applicable.policy else { continue };
            let own = key.counter(&rule.name, rule.values(&resolved));
            let overflow = !self.table.place(own, &rule.name, context.bounds.earliest);
            let counter = if overflow { key.overflow(&rule.name) } else { own };
            self.metrics.overflow_charges.add(overflow.into());
            let shared = slot.as_ref().filter(|(name, _)| !overflow && rule.per.contains(name));
            matched.push(MatchedRule {
                rule: rule.clone(),
                policy,
                index: applicable.index,
                counter,
                slot: shared.map_or_else(|| SlotId::of(counter), |(_, slot)| *slot),
                cost: rule.cost_of(&resolved, call.cost()),
                enforcement: enforcement(rule, exempt, call.id().is_some(), is_alone),
            });
        }
        Ok(matched)
    }
}

/// Returns the enforcement of a rule. A caller that is never denied is counted all the same; a request with an id may have
/// been admitted before, which only the store knows. Alone, a counter that is full until its edge gains nothing from being
/// counted on.
fn enforcement(rule: &Rule, exempt: bool, has_id: bool, is_alone: bool) -> Enforcement {
    if exempt || rule.shadow {
        Enforcement::NeverDeny
    } else if has_id || rule.charge == Charging::Each && !is_alone {
        Enforcement::AskStore
    } else {
        Enforcement::Normal
    }
}
