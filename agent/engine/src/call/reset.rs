//! Resets: an operator gives one caller its quotas back at once.
//!
//! The store empties the counters, and this agent forgets what it remembers of them. It announces the reset in its next heartbeats;
//! each other agent forgets its cached denial, its lease and its counts. The aggregator empties its count by a row of the log. A
//! reset is a charge mode of its own, because a refund needs the instant and the units of each charge.
//!
//! Slots stay, because the calls that hold them run. A counter that all callers share stays, too. Another agent may spend its lease
//! until it receives the reset. A settlement of an earlier call may refund units that were used since.

use std::sync::Arc;
use std::time::Duration;

use tollgate_core::call::Call;
use tollgate_core::clock::{CLOCK_ERROR_MAX_MS, Timestamp};
use tollgate_core::counter::{ChargeMode, StoreError};
use tollgate_core::decision::Source;
use tollgate_core::messages::calls::Outcome;
use tollgate_core::messages::presence::CounterReset;
use tollgate_core::rules::MatchScope;

use crate::call::match_rules::{ShadowedRules, has_place};
use crate::call::record::CallRow;
use crate::engine::{Context, Engine};
use crate::rules::{Charges, MatchedRule, MatchedRules};
use crate::store::ChargeAnswer;

/// Deadline of the request to the store, for which an operator waits.
pub(crate) const RESET_DEADLINE: Duration = Duration::from_secs(1);
/// Age in store time from which a reset is ignored that another agent announces, in ms: its record was delayed for so long that every
/// cached denial of before has ended.
const OUTDATED_MS: u64 = 10_000;

/// Result of a reset.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct CallerReset {
    /// Rules that apply to the caller.
    pub rules: Vec<ResetRule>,
    /// Error of the store, if it did not confirm the reset.
    pub error: Option<StoreError>,
}

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
    /// The store did not confirm the reset: it may have emptied the counter, or may do so yet.
    Unconfirmed,
    /// The counter is as it was, because all callers share it.
    Shared,
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
        let mut reset = Reset { number: self.ids.next(), matched: MatchedRules::new(), rules: Vec::new() };
        let mut charges = Charges::new();
        for matched in matched {
            let has_place = has_place(context, &mut self.counters.lock([matched.counter].into_iter()), &matched);
            let effect = if matched.is_slot() {
                ResetEffect::HoldsSlots
            } else if matched.rule.per.is_empty() {
                ResetEffect::Shared
            } else if has_place {
                ResetEffect::Emptied
            } else {
                ResetEffect::Sketched
            };
            let label = context.active.set.label(&matched.rule, call, &self.settings.digest_key);
            reset.rules.push(ResetRule { rule: matched.rule.name.clone(), label, effect });
            if matches!(effect, ResetEffect::HoldsSlots | ResetEffect::Shared) {
                continue;
            }
            if self.is_eventual(&matched.policy) {
                self.emptied(context, call, &matched, reset.number, context.bounds_of(matched.primary).earliest);
            } else {
                charges.push(matched.charge(context.active.order, 0, ChargeMode::Reset));
                reset.matched.push(matched);
            }
        }
        (charges, reset)
    }

    /// Finishes a reset with the answer of the store. Without one, no agent forgets anything: the counters may hold their units still,
    /// and units that the store does not know must reach it.
    pub(crate) fn finish_reset(
        &self,
        context: &Context<'_>,
        call: &Call<'_>,
        reset: &mut Reset<'_>,
        answers: &[ChargeAnswer],
    ) -> CallerReset {
        let mut rules = std::mem::take(&mut reset.rules);
        for (matched, answer) in reset.matched.iter().zip(answers) {
            if let Ok(result) = answer {
                self.emptied(context, call, matched, reset.number, result.at);
                continue;
            }
            for rule in rules.iter_mut().filter(|rule| rule.rule == matched.rule.name) {
                rule.effect = ResetEffect::Unconfirmed;
            }
        }
        CallerReset { rules, error: answers.iter().find_map(|answer| answer.err()) }
    }

    /// Applies resets that another agent has announced. One from before a step back of the store's clock may lie in the future; it would
    /// outdate all that follows.
    pub(crate) fn learn_resets(&self, now: Timestamp, resets: &[CounterReset]) {
        let store_now = self.store_time(now);
        let latest = store_now.latest.plus_ms(CLOCK_ERROR_MAX_MS);
        let is_recent = |at: Timestamp| at.plus_ms(OUTDATED_MS) > store_now.earliest && at <= latest;
        for reset in resets.iter().filter(|reset| is_recent(reset.at)) {
            if self.store.resets().learn(now, reset) {
                self.store.forget_counter(*reset);
            }
        }
    }

    /// Publishes that a counter was emptied at `at`, and lets all agents forget what they remember of it.
    fn emptied(&self, context: &Context<'_>, call: &Call<'_>, matched: &MatchedRule<'_>, number: u64, at: Timestamp) {
        let row = CallRow::new(number, at, 0, Outcome::Reset, Source::Store);
        self.publish(context, call, Some(matched.charged_counter()), row, None);
        self.store.emptied(context.now, CounterReset { counter: matched.counter, at });
    }
}

impl Reset<'_> {
    pub(crate) fn into_owned(self) -> Reset<'static> {
        Reset { matched: self.matched.into_iter().map(MatchedRule::into_owned).collect(), ..self }
    }
}
