//! The plan for one matched rule: a decision from the view, or a request to the store.
//!
//! A plan that admits enters the units in the view under the same lock, so that concurrent calls cannot admit the same unit.
//! The verdicts without the store are in [`fallback`].

use tollgate_core::algorithm::Verdict;
use tollgate_core::decision::Source;
use tollgate_core::rules::{Generation, LimitPolicy};

use super::{Authority, Facts, fallback};
use crate::view::{CounterView, Sequence};

/// Plan for one matched rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Plan {
    /// The agent decides. An admission is already entered in the view, so that two calls never get the same unit.
    Decided(Verdict, Source),
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
pub(crate) fn plan(
    policy: &LimitPolicy,
    generation: Generation,
    view: &mut CounterView,
    facts: &Facts,
    cost: u64,
    enforcement: Enforcement,
) -> Plan {
    let cached = view
        .denial
        .filter(|denial| enforcement == Enforcement::Normal && denial.holds(policy, generation, cost, facts.now));
    if let Some(denial) = cached {
        return Plan::Decided(denial.verdict, Source::Local);
    }
    let (mut verdict, source) = match &facts.authority {
        Authority::Store => return Plan::NeedsStore,
        Authority::Signals(fresh) => (fallback::by_signal(policy, view, facts, fresh, cost), Source::Signal),
        Authority::Fallback => match fallback::denied_by_old_signal(policy, view, facts.now, cost) {
            Some(denial) => (denial, Source::Signal),
            None => (fallback::on_failure(policy, view, facts, cost), Source::Fallback),
        },
    };
    verdict = fallback::paced(policy, view, facts, cost, verdict);
    verdict.admitted |= enforcement == Enforcement::NeverDeny;
    if verdict.admitted {
        view.local(policy).admit(facts.now.latest, cost, Sequence::Unknown);
    }
    Plan::Decided(verdict, source)
}
