//! The local answers and the budgets that an agent knows for a call: for its explanation, so nothing is counted, charged or kept.

use std::sync::Arc;

use tollgate_core::call::Call;
use tollgate_core::clock::Timestamp;
use tollgate_core::counter::CounterId;
use tollgate_core::decision::LocalAnswer;
use tollgate_core::rules::MatchScope;

use crate::call::match_rules::ShadowedRules;
use crate::call::thread_rules::ThreadRules;
use crate::counters::{CachedDenial, Enforcement};
use crate::engine::{Context, Engine};
use crate::rules::{MatchedRule, MatchedRules};

impl Engine {
    /// Returns the rules for which this agent holds an answer to a call: a lease with room for it, or a denial. A call with a
    /// request id always asks the store.
    #[must_use]
    pub fn local_answers(&self, now: Timestamp, call: &Call<'_>) -> Vec<(Arc<str>, LocalAnswer)> {
        let may_lease = call.id().is_none() && !self.settings.owns_table && !self.is_degraded();
        self.of_matched(now, call, |context, matched| {
            if matched.enforcement != Enforcement::Normal || !self.counters.holds(matched.counter) {
                return None;
            }
            let may_lease = may_lease && !self.store.breaker(matched.primary).is_recovering(now);
            let leases = self.lease_facts(context, matched.primary, &matched.policy);
            let (generation, cost) = (context.active.order, matched.cost);
            self.counters.with(matched.counter, |view| {
                let holds = |denial: &&CachedDenial| {
                    denial.holds(&matched.policy, generation, cost, now, context.bounds_of(matched.primary))
                };
                if may_lease && view.leased(&leases, cost).is_some_and(|leased| leased.units == cost) {
                    Some(LocalAnswer::Lease)
                } else {
                    view.denial().filter(holds).map(|_| LocalAnswer::CachedDenial)
                }
            })
        })
    }

    /// Returns the global rules of a call, with their counters and the quotas of the last answer of the store, or the floors before the
    /// first one.
    #[must_use]
    pub fn budgets(&self, now: Timestamp, call: &Call<'_>) -> Vec<(Arc<str>, (CounterId, u64))> {
        self.of_matched(now, call, |_, MatchedRule { counter, policy, .. }| {
            policy.global_quota?;
            let answered =
                self.counters.holds(*counter).then(|| self.counters.with(*counter, |view| view.quota(policy)));
            Some((*counter, answered.unwrap_or(policy.quota.units())))
        })
    }

    /// Returns what is known about each rule that limits a call; nothing while no rule does.
    fn of_matched<T>(
        &self,
        now: Timestamp,
        call: &Call<'_>,
        known: impl Fn(&Context<'_>, &MatchedRule<'_>) -> Option<T>,
    ) -> Vec<(Arc<str>, T)> {
        let mut thread_rules = ThreadRules::of(self.rules.in_force());
        let active = thread_rules.load().0;
        let context = Context { now, bounds: self.store_time(now), active, store: &self.store };
        let (mut matched, mut shadowed) = (MatchedRules::new(), ShadowedRules::new());
        let is_denied =
            self.match_call(&context, call, MatchScope::default(), false, &mut matched, &mut shadowed).is_err();
        if is_denied || active.emergency.is_some() {
            return Vec::new();
        }
        matched.iter().filter_map(|matched| Some((matched.rule.name.clone(), known(&context, matched)?))).collect()
    }
}
