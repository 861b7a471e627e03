//! Check of a call to which one rule applies, where a look at its counter is enough: the usual case, in one step under
//! one lock.
//!
//! It is [`check`](crate::call::check) without anything that several rules, several calls or a store need, and gives the same
//! decision, row and view: planned by [`plan()`], charged by the same `step`. A call that needs more is left to
//! `check`: where the store has several primaries, with a request id, on a list, under `charge: each` or `concurrency`, with a cost past 2^32, of a counter
//! that is new, or while the store must be asked. What was found for a call is kept for the next one that is equal:
//! [`crate::call::known_calls`].

#[cfg(test)]
mod tests;

use std::borrow::Cow;

use tollgate_core::call::Call;
use tollgate_core::clock::Timestamp;
use tollgate_core::counter::{Charge, PrimaryIndex};
use tollgate_core::decision::{Decision, LocalAnswer, Source};
use tollgate_core::messages::calls::{DenialCause, Outcome};
use tollgate_core::rules::{Charging, LimitPolicy, ListMatch, Origin, Positions};

use crate::call::known_calls::{FoundRule, KnownCall, SoleRule};
use crate::call::record::{CallHome, CallRow, signed};
use crate::call::thread_rules::ThreadRules;
use crate::counters::{
    Authority, ChargeFacts, ChargedCounter, Enforcement, Facts, LeasedCall, Plan, RoundNumber, RuleVerdict, TableEntry,
    UNPUBLISHED, ViewEvent, plan, spend_lease, update,
};
use crate::engine::{Context, Engine};
use crate::rules::{ActiveRules, is_of_slots, status};

struct SoleDecision {
    decided: RuleVerdict,
    /// Instant at which an admission counts, and the one from which waits count, if they are not the bounds of the
    /// store's time.
    counted_at: Option<(Timestamp, Timestamp)>,
    /// Round by which the row of an admission is published, as the view has entered it; none if it has entered nothing.
    round: RoundNumber,
}

impl SoleDecision {
    fn new(decided: RuleVerdict) -> Self {
        Self { decided, counted_at: None, round: None }
    }
}

impl Engine {
    /// Decides a call at once and makes the caller's answer of the decision, if one rule applies and a look at its
    /// counter is enough; else nothing has happened, and `otherwise` decides, by [`Engine::begin_found`] with the rule that was found.
    ///
    /// The answer is made in its place. To move a decision that was just written takes as long as all other steps together:
    /// the processor must wait until the writes have ended.
    #[expect(clippy::inline_always, reason = "an answer that is returned by a call is moved")]
    #[inline(always)]
    pub fn decide<R>(
        &self,
        now: Timestamp,
        call: &Call<'_>,
        answer: impl FnOnce(Decision) -> R,
        otherwise: impl FnOnce(Option<FoundRule>) -> R,
    ) -> R {
        let mut found = None;
        // A request that may have been charged, and a store that lacks units, need more.
        if call.id().is_none() && !self.store.has_several_primaries() && !self.store.is_needed() {
            let mut thread_rules = ThreadRules::of(self.rules.in_force());
            if let Some(sole) = self.check_sole(&mut thread_rules, now, call, &mut found) {
                return answer(sole);
            }
        }
        otherwise(found)
    }

    #[expect(clippy::inline_always, reason = "as for `decide`")]
    #[inline(always)]
    fn check_sole(
        &self,
        thread_rules: &mut ThreadRules,
        now: Timestamp,
        call: &Call<'_>,
        found: &mut Option<FoundRule>,
    ) -> Option<Decision> {
        let (active, known) = thread_rules.load();
        let bounds = self.store_time(now);
        let mut known = known.place(active.number, call);
        let known_sole = known.as_ref().and_then(|known| known.call.sole);
        let mut sole = match known_sole {
            Some(sole) => sole,
            None => self.match_sole(active, call)?,
        };
        let (index, cost) = (sole.index as usize, u64::from(sole.cost));
        let rule = &active.set.rules[index];
        let policy = match &rule.policy {
            Some(policy) if sole.has_own_policy => Cow::Borrowed(policy),
            _ => rule.policy_for(&active.set.resolved(call)).0?,
        };
        if is_of_slots(&policy) {
            return None;
        }
        let context = Context { now, bounds, active, store: &self.store };
        let denial = known.as_ref().and_then(|known| known.call.denial(&self.counters, now, bounds));
        let SoleDecision { decided, counted_at, round } = if let Some(denial) = denial {
            SoleDecision::new(RuleVerdict::local(&policy, denial, policy.quota.units(), LocalAnswer::CachedDenial))
        } else {
            let known = known.as_mut().map(|known| &mut *known.call);
            let decided = self.decide_by_counter(&context, &policy, &mut sole, known);
            let Some(decided) = decided else {
                *found = Some(FoundRule { sole, rules: active.number });
                return None;
            };
            decided
        };
        let (number, source, by, allowed) = (self.ids.next(), decided.source, decided.by, decided.verdict.admitted);
        active.counts[index].decided(source, allowed);
        if decided.is_near_limit() {
            active.counts[index].came_near_limit();
        }
        let (at, from) = counted_at.unwrap_or((bounds.latest, bounds.earliest));
        if self.settings.publishes {
            let denied = (!allowed).then_some(DenialCause::Count);
            let outcome = denied.map_or(Outcome::Admitted, Outcome::Denied);
            let row = CallRow::new(number, at, signed(cost), outcome, source);
            let counter = ChargedCounter::new(sole.counter, index, &policy);
            // A call that came once only needs no place.
            let place = known.filter(|_| known_sole.is_some()).map(|known| known.subject);
            let (decider, remaining) = (Some(&*rule.name), Some(decided.verdict.remaining));
            let home = CallHome { decider, shadow_denied: false, denied, remaining };
            let is_added = self.publish_sole(&context, call, place, counter, row, home);
            if let Some(entered) = round {
                let published = if is_added { self.bus.rows().round_of_added() } else { UNPUBLISHED };
                if published > entered {
                    let event = ViewEvent::PublishedLater { at, units: cost, entered, published };
                    let correct = |entry: &mut TableEntry| update(&policy, &mut entry.view, event);
                    self.counters.find(sole.counter, &mut sole.position, bounds.earliest, correct);
                }
            }
        }
        let mut status = status(&policy, active.names[index].clone(), cost, decided, from);
        status.own_answer.clone_from(&rule.own_answer);
        let delay_ms = if allowed { decided.verdict.delay_ms } else { 0 };
        Some(Decision::of_rule(
            allowed,
            (source, by),
            at,
            self.ids.decision(number, Some(sole.counter)),
            status,
            delay_ms,
        ))
    }

    /// Decides by the counter of a call, which is locked once, and keeps the decision. None if the counter is new, or
    /// if the store must be asked.
    fn decide_by_counter(
        &self,
        context: &Context<'_>,
        policy: &LimitPolicy,
        sole: &mut SoleRule,
        mut known: Option<&mut KnownCall>,
    ) -> Option<SoleDecision> {
        let Context { now, bounds, active, .. } = *context;
        let (counter, cost, generation) = (sole.counter, u64::from(sole.cost), active.order);
        let leases = self.lease_facts(context, PrimaryIndex::ONLY, policy);
        let decide = |entry: &mut TableEntry| {
            let payment = entry.view.leased(&leases, cost).filter(|payment| payment.units == cost);
            if let Some(LeasedCall { verdict, span, .. }) = payment {
                let (at, round) = (span.nearest(bounds.latest), self.next_round());
                spend_lease(policy, &mut entry.view, at, cost, round);
                let decided = RuleVerdict::local(policy, verdict, entry.view.quota(policy), LocalAnswer::Lease);
                return Some(SoleDecision { decided, counted_at: Some((at, bounds.earliest)), round });
            }
            let facts = Facts {
                now: bounds,
                at: bounds.latest,
                own_now: now,
                authority: Authority::Store,
                part: self.fleet.part(),
                rank: None,
            };
            let enforcement = Enforcement::Normal;
            let charge = ChargeFacts { policy, generation, view: &entry.view, cost, enforcement };
            let decided = match plan(&charge, &facts) {
                Plan::Denied(verdict) => {
                    let limit = entry.view.quota(policy);
                    SoleDecision::new(RuleVerdict::local(policy, verdict, limit, LocalAnswer::CachedDenial))
                }
                Plan::NeedsStore if self.settings.owns_table => {
                    // In the own table no charge expires.
                    let charge = Charge::enforce(counter, policy.limit(), generation, cost, now);
                    let (result, ends_denial) = entry.charge(&charge, now).ok()?;
                    if ends_denial {
                        self.counters.end_denials(counter);
                    }
                    let decided = RuleVerdict::new(policy, result.verdict, result.limit, Source::Store);
                    SoleDecision { decided, counted_at: Some((result.at, result.at)), round: None }
                }
                // Authorities other than the store are not asked here.
                Plan::NeedsStore | Plan::Decided(..) => return None,
            };
            if let Some(known) = &mut known
                && policy.global_quota.is_none()
                && let Some(denial) = entry.view.denial()
                && !denial.is_asked()
                && denial.holds(policy, generation, cost, now, bounds)
            {
                known.remember(denial, self.counters.denials_ended(counter));
            }
            Some(decided)
        };
        let decided = self.counters.find(counter, &mut sole.position, bounds.earliest, decide)??;
        if let Some(known) = known {
            known.sole = Some(*sole);
        }
        Some(decided)
    }

    /// Finds the only rule that applies to a call; none if the call needs more than a look at one counter.
    fn match_sole(&self, active: &ActiveRules, call: &Call<'_>) -> Option<SoleRule> {
        if active.emergency.is_some() || call.cost() == 0 {
            return None;
        }
        let resolved = active.set.resolved(call);
        let mut positions = Positions::new();
        let candidates = active.index.candidates(&resolved, &mut positions);
        let (index, rule) = active.set.sole_applicable(&resolved, candidates)?;
        let is_plain = !rule.deny && !rule.shadow && rule.charge != Charging::Each;
        if !is_plain || active.set.list_match(&resolved) != ListMatch::Unlisted {
            return None;
        }
        let has_own_policy = rule.policy_for(&resolved).1 == Origin::Rule;
        let counter = self.settings.digest_key.known_counter(&rule.name, rule.values(&resolved));
        let cost = u32::try_from(rule.cost_of(&resolved, call.cost())).ok()?;
        let index = u32::try_from(index).ok()?;
        Some(SoleRule { index, has_own_policy, counter, position: u32::MAX, cost })
    }
}
