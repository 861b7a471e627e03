//! The plan for one matched rule: a decision from the view, or a request to the store.
//!
//! A plan changes nothing. Its caller applies the event of an admission to the view under the same lock, so that concurrent
//! calls cannot admit the same unit. The verdicts without the store are in [`fallback`].

use tollgate_core::algorithm::{Algorithm, Verdict};
use tollgate_core::clock::Timestamp;
use tollgate_core::decision::Source;
use tollgate_core::rules::{Consistency, Generation, LimitPolicy, OnFailure};

use super::facts::{Authority, Facts};
use super::{fallback, pace};
use crate::counters::view::{CounterView, ViewEvent};
use crate::fleet::FleetPart;
use crate::time::TimeBounds;

/// Number of deadlines from the first miss within which a store that is late answers in time again, or is taken for unavailable.
pub(crate) const OPEN_WITHIN_DEADLINES: u32 = 5;

#[derive(Clone, Copy, Debug)]
pub(crate) enum Plan<'a> {
    /// The agent repeats a denial of the store.
    Denied(Verdict),
    /// The agent decides without the store. The event enters an admission in the view.
    Decided(Verdict, Source, Option<ViewEvent<'a>>),
    NeedsStore,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StoreAccess {
    /// It may be asked.
    Open,
    /// It may be asked. It was away, and may lack units that other agents have admitted without it.
    Recovering,
    /// It was asked and is late, but it is not down: other agents may still get answers.
    Late,
    /// It is down, or cannot charge a counter of the call.
    Closed,
}

impl StoreAccess {
    /// Returns the state as calls under this policy find it. Only rules whose agents admit their parts while the store is away wait
    /// for the units of the other agents.
    pub(crate) fn under(self, policy: &LimitPolicy) -> Self {
        let waits = policy.consistency != Consistency::Eventual && policy.on_failure == OnFailure::Share;
        if self == Self::Recovering && !waits { Self::Open } else { self }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Enforcement {
    /// It may deny, from the view if that is enough.
    Normal,
    /// It may deny, but only the store can decide: it is counted anyway, or the request may have been admitted before.
    AskStore,
    /// It is counted and never denies.
    NeverDeny,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct ChargeFacts<'a> {
    pub(crate) policy: &'a LimitPolicy,
    pub(crate) generation: Generation,
    pub(crate) view: &'a CounterView,
    pub(crate) cost: u64,
    pub(crate) enforcement: Enforcement,
}

/// Plans a charge, while the store may be asked or is away.
#[inline]
pub(crate) fn plan<'a>(charge: &ChargeFacts<'_>, facts: &'a Facts) -> Plan<'a> {
    let ChargeFacts { policy, view, cost, enforcement, .. } = *charge;
    if let Some(denial) = cached_denial(charge, facts.own_now, facts.now) {
        return Plan::Denied(denial);
    }
    let ((mut verdict, source), covered) = match &facts.authority {
        // The store lacks units that the signal may contain.
        Authority::Store if view.has_unsynced() && enforcement == Enforcement::Normal => {
            return match fallback::denied_by_signal(policy, view, facts, cost) {
                Some(denial) => Plan::Decided(denial, Source::Signal, None),
                None => Plan::NeedsStore,
            };
        }
        Authority::Store => return Plan::NeedsStore,
        Authority::Signals(fresh) if policy.consistency == Consistency::Eventual => {
            ((fallback::eventual(policy, view, facts, fresh, cost), Source::Signal), &fresh.covered)
        }
        Authority::Signals(fresh) => (fallback::by_signal(policy, view, facts, fresh, cost), &fresh.covered),
        Authority::Fallback(covered) => {
            ((fallback::alone(policy, view, facts, covered, cost), Source::Fallback), covered)
        }
    };
    // The part that the signal alone leaves to this agent. It is also held to those of the last periods.
    let is_divided = policy.consistency == Consistency::Strict && policy.on_failure == OnFailure::Share;
    let part =
        (is_divided && source == Source::Signal && verdict.admitted).then(|| verdict.remaining.saturating_add(cost));
    if let (Some(_), Some(remote)) = (part, view.remote.as_deref()) {
        verdict = remote.parts.held(facts.now.earliest, cost, verdict);
    }
    let pace = pace::pace(policy, facts, view).filter(|_| verdict.admitted);
    if let Some(limit) = &pace {
        verdict = pace::paced(limit, view, facts.now.earliest, cost, verdict);
    }
    verdict.admitted |= enforcement == Enforcement::NeverDeny;
    let admission = ViewEvent::Planned { now: facts.now.earliest, at: facts.at, cost, part, pace, covered };
    Plan::Decided(verdict, source, verdict.admitted.then_some(admission))
}

/// Returns the denial by the store that the agent may repeat; none if it knows of none.
#[inline]
pub(crate) fn cached_denial(charge: &ChargeFacts<'_>, own_now: Timestamp, now: TimeBounds) -> Option<Verdict> {
    let ChargeFacts { policy, generation, view, cost, enforcement } = *charge;
    let denial = view.denial.as_ref().filter(|_| enforcement == Enforcement::Normal)?;
    denial.holds(policy, generation, cost, own_now, now).then(|| denial.verdict())
}

/// Plans a charge on a store that may lack units of other agents: this agent keeps to its part, and the store must have
/// room, too.
pub(crate) fn plan_recovering<'a>(charge: &ChargeFacts<'_>, facts: &'a Facts) -> Plan<'a> {
    match plan(charge, facts) {
        denial @ (Plan::Denied(_) | Plan::Decided(_, _, None)) if charge.enforcement == Enforcement::Normal => denial,
        _ => Plan::NeedsStore,
    }
}

/// Plans a charge whose answer from the store is late, and whose call no lease pays. `on_failure: open` admits it. Under `strict`, it
/// is denied until the store has answered or the breakers of the agents that ask it are open. Under `bounded`, `on_failure` decides
/// without signals: agents that still receive answers are held neither to a signal nor to their parts, so the signal leaves no more
/// free than the last answer.
pub(crate) fn plan_late<'a>(charge: &ChargeFacts<'_>, facts: &'a Facts) -> Plan<'a> {
    let ChargeFacts { policy, enforcement, .. } = *charge;
    let deadline_ms = u64::try_from(policy.deadline.as_millis()).unwrap_or(u64::MAX);
    let again_at = facts.now.earliest.plus_ms(u64::from(OPEN_WITHIN_DEADLINES) * deadline_ms.max(1));
    let may_admit = enforcement == Enforcement::NeverDeny || policy.admits_late_calls() || has_late_part(policy, facts);
    match plan(charge, facts) {
        // The store may have room for it.
        Plan::Decided(verdict, Source::Fallback, None) => {
            Plan::Decided(Verdict { retry_at: again_at, ..verdict }, Source::Fallback, None)
        }
        Plan::Decided(_, Source::Fallback, Some(_)) if !may_admit => {
            let denial = Verdict { admitted: false, remaining: 0, retry_at: again_at, reset_at: again_at, delay_ms: 0 };
            Plan::Decided(denial, Source::Fallback, None)
        }
        plan => plan,
    }
}

/// Returns true if this agent may admit late calls within a part of the quota. It knows no part before it has learned the size of the
/// fleet. Where agents have less than a unit each, and for slots, the parts of all would be a multiple of the quota.
fn has_late_part(policy: &LimitPolicy, facts: &Facts) -> bool {
    let has_part = match (policy.on_failure, facts.part) {
        (OnFailure::Share, FleetPart::OneOf(agents)) => policy.quota.units() >= u64::from(agents.get()),
        (OnFailure::Limit(_), _) => true,
        _ => false,
    };
    has_part && policy.consistency == Consistency::Bounded && policy.algorithm != Algorithm::Concurrency
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroU32;

    use tollgate_core::clock::Timestamp;

    use super::*;
    use crate::counters::view::CoveredRounds;
    use crate::fleet::FleetPart;
    use crate::time::TimeBounds;

    const SLOTS_OPEN: (Algorithm, OnFailure) = (Algorithm::Concurrency, OnFailure::Open);
    const STRICT_OPEN: (Consistency, OnFailure) = (Consistency::Strict, OnFailure::Open);

    /// While the store is late, `open` admits, `bounded` admits this agent's part, and every other call may come again once the
    /// breakers have had the time to open.
    #[test]
    fn a_late_call_is_decided_by_consistency_and_on_failure() {
        // Name, change of a bounded policy of 100 units, agents of which this is one, cost, true if the call is admitted.
        type Case = (&'static str, fn(&mut LimitPolicy), FleetPart, u64, bool);
        let now = Timestamp::from_ms(1_000_000);
        let one_of = |agents| FleetPart::OneOf(NonZeroU32::new(agents).unwrap());
        let cases: [Case; 13] = [
            ("bounded", |_| {}, one_of(4), 25, true),
            ("bounded, past the part of one of four agents", |_| {}, one_of(4), 26, false),
            (
                "bounded, the size of the fleet is not known",
                |_| {},
                FleetPart::Expected(4.try_into().unwrap()),
                1,
                false,
            ),
            ("bounded, without a part", |_| {}, FleetPart::Nothing, 1, false),
            ("bounded, fewer units than agents", |_| {}, one_of(101), 1, false),
            ("bounded, of slots", |policy| policy.algorithm = Algorithm::Concurrency, one_of(4), 1, false),
            ("strict", |policy| policy.set_consistency(Consistency::Strict), one_of(4), 1, false),
            ("closed", |policy| policy.on_failure = OnFailure::Closed, one_of(4), 1, false),
            ("open", |policy| policy.on_failure = OnFailure::Open, one_of(4), 500, true),
            ("open, strict", |policy| (policy.consistency, policy.on_failure) = STRICT_OPEN, one_of(4), 500, true),
            ("open, of slots", |policy| (policy.algorithm, policy.on_failure) = SLOTS_OPEN, one_of(4), 500, true),
            ("limit", |policy| policy.on_failure = OnFailure::Limit("5/min".parse().unwrap()), one_of(4), 5, true),
            (
                "past a limit",
                |policy| policy.on_failure = OnFailure::Limit("5/min".parse().unwrap()),
                one_of(4),
                6,
                false,
            ),
        ];
        for (name, change, part, cost, is_admitted) in cases {
            let mut policy = LimitPolicy::of("100/min".parse().unwrap());
            change(&mut policy);
            let authority = Authority::Fallback(CoveredRounds::default());
            let facts = Facts { now: TimeBounds::exactly(now), at: now, own_now: now, authority, part, rank: None };
            let (view, enforcement) = (&CounterView::default(), Enforcement::Normal);
            let plan = plan_late(&ChargeFacts { policy: &policy, generation: 1, view, cost, enforcement }, &facts);
            let Plan::Decided(verdict, Source::Fallback, admission) = plan else { panic!("{name}: {plan:?}") };
            assert_eq!((verdict.admitted, admission.is_some()), (is_admitted, is_admitted), "{name}");
            if !is_admitted {
                assert_eq!(verdict.retry_at.ms_since(now), 75, "{name}: five deadlines");
            }
        }
    }
}
