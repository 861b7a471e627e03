//! Matching of a call: the rules that apply, the policy of each for the caller, and the counter that each charges.
//!
//! The rules themselves are matched in `tollgate_core::rules`. Here each match gets its counter, its slot in the store,
//! and the way in which it is enforced.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use smallvec::SmallVec;
use tollgate_core::algorithm::Verdict;
use tollgate_core::call::Call;
use tollgate_core::clock::Timestamp;
use tollgate_core::counter::{HashSlotId, PrimaryIndex};
use tollgate_core::decision::{DenyStatus, LimitKind, LimitStatus, Source};
use tollgate_core::name::Name;
use tollgate_core::own_answer::OwnAnswer;
use tollgate_core::rules::{ApplicableRule, Charging, ListMatch, MatchScope, Positions, Rule};

use crate::call::known_calls::{FoundRule, SoleRule};
use crate::counters::{Authority, Enforcement, Facts, LockedTable, RuleVerdict, SketchCharge, StoreAccess};
use crate::engine::{Context, Engine};
use crate::report::{Notice, RuleCounts};
use crate::rules::{MatchedRule, MatchedRules};

/// `Retry-After` of a denial that no counter gave, in ms: the rules may have changed by then.
const REJECTED_RETRY_MS: u64 = 60_000;

/// Indexes of the rules in shadow that would deny a call whatever their counters hold.
pub(crate) type ShadowedRules = SmallVec<[usize; 1]>;

/// Denial of a call without a counter: by the deny list, or by a rule that denies every call that it matches.
#[derive(Clone, Debug)]
pub(crate) struct Rejection {
    /// Name of the rule, or of the list.
    pub(crate) by: Name,
    pub(crate) deny_status: DenyStatus,
    pub(crate) own_answer: Option<Arc<OwnAnswer>>,
    pub(crate) counts: Arc<RuleCounts>,
}

impl Rejection {
    pub(crate) fn status(&self, cost: u64) -> LimitStatus {
        let mut status = LimitStatus::new(self.by.clone(), LimitKind::Denial(self.deny_status), cost);
        (status.reset_ms, status.retry_after_ms) = (REJECTED_RETRY_MS, REJECTED_RETRY_MS);
        status.own_answer.clone_from(&self.own_answer);
        status
    }
}

impl FoundRule {
    /// Returns the rule as it applies to its call; none if other rules are in force, or if a hash slot
    /// depends on the call.
    pub(crate) fn matched<'a>(&self, context: &Context<'a>, call: &Call<'_>) -> Option<MatchedRule<'a>> {
        let active = context.active;
        let FoundRule { sole: SoleRule { index, has_own_policy, counter, cost, .. }, rules } = *self;
        if rules != active.number || active.set.slot_by.is_some() || call.id().is_some() {
            return None;
        }
        let rule = &active.set.rules[index as usize];
        let policy = match &rule.policy {
            Some(policy) if has_own_policy => Cow::Borrowed(policy),
            _ => rule.policy_for(&active.set.resolved(call)).0?,
        };
        let (index, slot) = (index as usize, HashSlotId::of(counter));
        let counter = (counter, slot, context.store.primary_of(slot));
        Some(MatchedRule::new(Cow::Borrowed(rule), policy, index, counter, cost.into(), Enforcement::Normal))
    }
}

impl Engine {
    /// Finds the rules that apply to a call, in their order. A caller that is exempt, by the allow list or because the call
    /// has been decided, is counted and never denied. The indexes of the rules in shadow that deny every call are added to
    /// `shadowed`.
    pub(crate) fn match_call<'a>(
        &self,
        context: &Context<'a>,
        call: &Call<'_>,
        scope: MatchScope<'_>,
        is_decided: bool,
        matched: &mut MatchedRules<'a>,
        shadowed: &mut ShadowedRules,
    ) -> Result<(), Rejection> {
        let active = context.active;
        let resolved = active.set.resolved_within(call, scope);
        let rejection = |by: &Name, counts: &Arc<RuleCounts>, own_answer: &Option<Arc<OwnAnswer>>| Rejection {
            by: by.clone(),
            deny_status: active.set.deny_status,
            own_answer: own_answer.clone(),
            counts: counts.clone(),
        };
        let exempt = is_decided
            || match active.set.list_match(&resolved) {
                ListMatch::Denied(_) => {
                    let (name, counts) = self.rules.deny_list();
                    return Err(rejection(name, counts, &active.set.own_answer));
                }
                list_match => list_match != ListMatch::Unlisted,
            };
        let key = &self.settings.digest_key;
        let slot = active.set.slot_by.as_ref().and_then(|name| Some((name, key.slot(resolved.get(name)?))));
        let applicable = active
            .set
            .applicable_among(&resolved, active.index.candidates(&resolved, &mut Positions::new()).iter().copied());
        let is_alone = applicable.iter().filter(|applicable| applicable.policy.is_some()).count() == 1;
        for ApplicableRule { index, rule, policy, .. } in applicable {
            if rule.deny && !exempt {
                if !rule.shadow {
                    return Err(rejection(&active.names[index], &active.counts[index], &rule.own_answer));
                }
                shadowed.push(index);
            }
            let Some(policy) = policy else { continue };
            let counter = key.known_counter(&rule.name, rule.values(&resolved));
            // The aggregator finds the limit of a global counter by the counter alone.
            let has_own = policy.global_quota.is_some();
            let shared = slot.as_ref().filter(|(name, _)| !has_own && rule.per.contains(name));
            let slot = shared.map_or_else(|| HashSlotId::of(counter), |(_, slot)| *slot);
            // A call of cost 0 asks, whatever the rule charges for others.
            let cost = if call.cost() == 0 { 0 } else { rule.cost_of(&resolved, call.cost()) };
            let enforcement = enforcement(rule, exempt, call.id().is_some(), is_alone);
            let (rule, counter) = (Cow::Borrowed(rule), (counter, slot, self.store.primary_of(slot)));
            matched.push(MatchedRule::new(rule, policy, index, counter, cost, enforcement));
        }
        Ok(())
    }

    /// Finds a place in the table for each counter of a call, and returns their shards, locked. The sketch decides for a
    /// counter without a place. If `is_tried`, a call that the sketch or the signals decide for one of its counters, and that asks
    /// the store about another one, is not begun, and none is returned: what they have entered could not be given back.
    pub(crate) fn place(
        &self,
        context: &Context<'_>,
        matched: &mut [MatchedRule<'_>],
        is_tried: bool,
    ) -> Option<LockedTable<'_>> {
        let mut table = self.counters.lock(matched.iter().map(|matched| matched.counter));
        let have_places: SmallVec<[bool; 8]> =
            matched.iter().map(|matched| has_place(context, &mut table, matched)).collect();
        if is_tried && !self.settings.owns_table {
            let asks =
                |(matched, has_place): &(&MatchedRule<'_>, &bool)| **has_place && !self.is_eventual(&matched.policy);
            let asking = matched.iter().zip(&have_places).filter(asks).count();
            if asking > 0 && asking < matched.len() {
                return None;
            }
        }
        for (matched, has_place) in matched.iter_mut().zip(have_places) {
            if !has_place {
                let (verdict, limit) = self.charge_sketch(context, matched, matched.cost, matched.never_denies());
                let verdict = RuleVerdict::new(&matched.policy, verdict, limit, Source::Local);
                matched.sketched = Some(Box::new(verdict));
            }
        }
        Some(table)
    }

    /// Returns true if a call can carry the units of its counters at a primary that the primary does not know.
    fn can_carry(&self, primary: PrimaryIndex, matched: &[MatchedRule<'_>], table: &mut LockedTable<'_>) -> bool {
        let mut placed = matched.iter().filter(|matched| matched.primary == primary && matched.sketched.is_none());
        !self.store.outbox(primary).has_units() || placed.all(|matched| table.view(matched.counter).may_ask_store())
    }

    /// Returns the access of a call to a primary. A request is not sent while the breaker is open for its deadline, nor
    /// about a counter that lacks more units than the call can carry.
    pub(crate) fn access(
        &self,
        now: Timestamp,
        primary: PrimaryIndex,
        deadline: Duration,
        matched: &[MatchedRule<'_>],
        table: &mut LockedTable<'_>,
    ) -> StoreAccess {
        let breaker = self.store.breaker(primary);
        let is_open = breaker.is_open() && breaker.is_open_for(deadline);
        if is_open || !self.can_carry(primary, matched, table) {
            StoreAccess::Closed
        } else if breaker.is_recovering(now) && !self.fleet.is_guessed() {
            StoreAccess::Recovering
        } else {
            StoreAccess::Open
        }
    }

    /// Charges the caller of a counter without a place. Returns the verdict, and the limit that gave it.
    pub(crate) fn charge_sketch(
        &self,
        context: &Context<'_>,
        matched: &MatchedRule<'_>,
        cost: u64,
        is_forced: bool,
    ) -> (Verdict, u64) {
        if self.counters.sketches().begin_use() {
            self.reports.notify(Notice::TableFull { counters_max: self.settings.counters_max });
        }
        let active = context.active;
        active.counts[matched.index].sketch_charges.add(1);
        let MatchedRule { rule, policy, counter: caller, .. } = matched;
        let shares = (!self.settings.owns_table).then(|| {
            let rank = self.rank_of(policy, *caller);
            Facts {
                now: context.bounds_of(matched.primary),
                at: context.bounds_of(matched.primary).latest,
                own_now: context.now,
                authority: Authority::Store,
                part: self.fleet.part(),
                rank,
            }
        });
        let charge = SketchCharge { rule: &rule.name, policy, shares, caller: *caller, cost, is_forced };
        self.counters.sketches().charge(context.now, &charge, active.sketch_kinds)
    }
}

/// Finds a place in the table for a counter; returns false if there is none.
pub(crate) fn has_place(context: &Context<'_>, table: &mut LockedTable<'_>, matched: &MatchedRule<'_>) -> bool {
    let (now, is_alone) = (context.bounds_of(matched.primary).earliest, context.active.has_one_limit);
    let has_place = table.place(matched.counter, &matched.rule.name, is_alone, now);
    if has_place && context.store.has_several_primaries() {
        table.follow_primary(matched.counter, matched.primary, |primary| context.bounds_of(primary));
    }
    has_place
}

/// Returns the enforcement of a rule. A caller that is never denied is counted all the same. A request with an id may
/// have been admitted before, which only the store knows. If the rule is alone, a counter that is full until its edge
/// gains nothing from further counts.
fn enforcement(rule: &Rule, exempt: bool, has_id: bool, is_alone: bool) -> Enforcement {
    if exempt || rule.shadow {
        Enforcement::NeverDeny
    } else if has_id || rule.charge == Charging::Each && !is_alone {
        Enforcement::AskStore
    } else {
        Enforcement::Normal
    }
}
