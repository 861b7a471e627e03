//! The plan for one matched rule: a decision from the view, or a request to the store.
//!
//! A plan changes nothing. Its caller applies the event of an admission to the view under the same lock, so that concurrent
//! calls cannot admit the same unit. The verdicts without the store are in [`fallback`].

use tollgate_core::algorithm::Verdict;
use tollgate_core::decision::Source;
use tollgate_core::rules::{Generation, LimitPolicy};

use super::{Authority, Facts, fallback, pace};
use crate::view::{CounterView, ViewEvent};

/// Plan for one matched rule.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Plan<'a> {
    /// The agent decides. The event enters an admission in the view.
    Decided(Verdict, Source, Option<ViewEvent<'a>>),
    /// The store must be asked.
    NeedsStore,
}

/// Way in which a rule is enforced on a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Enforcement {
    /// It may deny, from the view if that is enough.
    Normal,
    /// It may deny, but only the store can decide: it is counted anyway, or the request may have been admitted before.
    AskStore,
    /// It is counted and never denies.
    NeverDeny,
}

/// Plans a charge of `cost` units on the counter of this view.
pub(crate) fn plan<'a>(
    policy: &LimitPolicy,
    generation: Generation,
    view: &CounterView,
    facts: &'a Facts,
    cost: u64,
    enforcement: Enforcement,
) -> Plan<'a> {
    let cached = view.denial.as_ref().filter(|denial| {
        enforcement == Enforcement::Normal && denial.holds(policy, generation, cost, facts.own_now, facts.now)
    });
    if let Some(denial) = cached {
        return Plan::Decided(denial.verdict(), Source::Local, None);
    }
    let ((mut verdict, source), covered) = match &facts.authority {
        Authority::Store => return Plan::NeedsStore,
        Authority::Signals(fresh) => (fallback::by_signal(policy, view, facts, fresh, cost), &fresh.covered),
        Authority::Fallback(covered) => {
            ((fallback::alone(policy, view, facts, covered, cost), Source::Fallback), covered)
        }
    };
    let pace = pace::pace(policy, facts).filter(|_| verdict.admitted);
    if let Some(limit) = &pace {
        verdict = pace::paced(limit, view, facts.now.earliest, cost, verdict);
    }
    verdict.admitted |= enforcement == Enforcement::NeverDeny;
    let admission = ViewEvent::Planned { now: facts.now, cost, pace, covered };
    Plan::Decided(verdict, source, verdict.admitted.then_some(admission))
}
