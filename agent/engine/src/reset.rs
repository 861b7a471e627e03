//! Resets: an operator gives one caller its quotas back at once.
//!
//! The store empties the counters, and this agent forgets what it remembers of them. It tells the other agents by its next
//! heartbeats; each forgets its cached denial, its lease and its counts. The aggregator empties its count by a row of the log. A
//! reset is no set of refunds, because a refund must know the instant and the units of each charge.
//!
//! Slots stay, because the calls that hold them run. Units that an agent was about to tell the store are dropped. A lease that
//! another agent holds is spent until it has heard of the reset, so the caller may have that many units more.

use std::sync::Arc;

use tollgate_core::call::Call;
use tollgate_core::clock::Timestamp;
use tollgate_core::counter::{ChargeMode, ChargeResults, CounterId, StoreError};
use tollgate_core::messages::calls::Outcome;
use tollgate_core::messages::presence::CounterReset;
use tollgate_core::rules::MatchScope;

use crate::engine::{Context, Engine};
use crate::match_rules::{ShadowedRules, has_place};
use crate::matched_rule::{Charges, MatchedRule, MatchedRules};
use crate::record::CallRow;
use crate::view::forget;

/// Rule of a reset, for one caller.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ResetRule {
    /// Name of the rule.
    pub rule: Arc<str>,
    /// Values of the caller as people see them: secrets are digested.
    pub label: String,
    /// Effect on the counter.
    pub effect: ResetEffect,
}

/// Effect of a reset on one counter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ResetEffect {
    /// The counter holds nothing.
    Emptied,
    /// The counter is as it was: its units are slots, which running calls hold.
    HoldsSlots,
    /// The counter holds nothing in the store; but this agent has no place for it, and limits the caller by a sketch.
    Sketched,
}

#[derive(Debug)]
pub(crate) struct Reset<'a> {
    number: u64,
    /// Rules whose counters the store empties.
    matched: MatchedRules<'a>,
    rules: Vec<ResetRule>,
}

impl Engine {
    /// Begins a reset. A rule that no store counts is done at once.
    pub(crate) fn begin_reset<'a>(&self, context: &Context<'a>, call: &Call<'_>) -> (Charges, Reset<'a>) {
        let (mut matched, mut shadowed) = (MatchedRules::new(), ShadowedRules::new());
        // A caller on the deny list is exempt here, as in a correction.
        let _ = self.match_call(context, call, MatchScope::default(), true, &mut matched, &mut shadowed);
        let mut reset = Reset { number: self.next_call(), matched: MatchedRules::new(), rules: Vec::new() };
        let mut charges = Charges::new();
        for matched in matched {
            let has_place = has_place(context, &mut self.table.lock([matched.counter].into_iter()), &matched);
            let effect = match (matched.is_slot(), has_place) {
                (true, _) => ResetEffect::HoldsSlots,
                (false, true) => ResetEffect::Emptied,
                (false, false) => ResetEffect::Sketched,
            };
            let label = context.active.set.label(&matched.rule, call, &self.settings.digest_key);
            reset.rules.push(ResetRule { rule: matched.rule.name.clone(), label, effect });
            if effect == ResetEffect::HoldsSlots {
                continue;
            }
            if self.is_eventual(&matched.policy) {
                self.emptied(context, call, &matched, reset.number, context.bounds.latest);
            } else {
                charges.push(matched.charge(context.active.order, 0, ChargeMode::Reset));
                reset.matched.push(matched);
            }
        }
        (charges, reset)
    }

    /// Finishes a reset with the answer of the store; returns the rules that apply to the caller.
    pub(crate) fn finish_reset(
        &self,
        context: &Context<'_>,
        call: &Call<'_>,
        reset: &mut Reset<'_>,
        answer: Result<ChargeResults, StoreError>,
    ) -> Result<Vec<ResetRule>, StoreError> {
        for (matched, result) in reset.matched.iter().zip(answer?) {
            self.emptied(context, call, matched, reset.number, result.at);
        }
        Ok(std::mem::take(&mut reset.rules))
    }

    /// Applies resets that another agent has told.
    pub(crate) fn learn_resets(&self, now: Timestamp, resets: &[CounterReset]) {
        for reset in resets {
            if self.resets.lock().is_news(now, reset) {
                self.forget_counter(reset.counter);
            }
        }
    }

    /// Publishes that a counter was emptied at `at`, and forgets what this agent remembers of it.
    fn emptied(&self, context: &Context<'_>, call: &Call<'_>, matched: &MatchedRule<'_>, number: u64, at: Timestamp) {
        let row = CallRow { call: number, at, cost: 0, outcome: Outcome::Reset };
        self.publish(context, call, Some(matched.charged_counter()), row, None);
        self.forget_counter(matched.counter);
        if self.settings.publishes {
            self.resets.lock().tell(context.now, CounterReset { counter: matched.counter, at });
        }
    }

    fn forget_counter(&self, counter: CounterId) {
        if self.table.holds(counter) {
            self.counting_unsynced(counter, forget);
        }
    }
}

impl Reset<'_> {
    pub(crate) fn into_owned(self) -> Reset<'static> {
        Reset { matched: self.matched.into_iter().map(MatchedRule::into_owned).collect(), ..self }
    }
}
