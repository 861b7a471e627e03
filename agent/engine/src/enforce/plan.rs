//! What to do with a charge.

use tollgate_core::algorithm::Verdict;
use tollgate_core::decision::Source;
use tollgate_core::rules::{Generation, LimitPolicy};

use super::{Authority, Facts, fallback};
use crate::view::{CounterView, Sequence};

/// What to do with a charge.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Plan {
    /// The agent knows the answer. An admission is already entered in [`CounterView`], so two calls never get the same unit.
    Decided(Verdict, Source),
    /// The store must be asked.
    NeedsStore,
}

/// How a charge is meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Enforcement {
    /// It may be denied, by what is known if that is enough.
    Normal,
    /// It may be denied, but only the store can tell: it is counted anyway, or the request may have passed before.
    AskStore,
    /// It is counted and never denied.
    NeverDeny,
}

/// Plans one charge of `cost` units on the counter of which this was seen.
pub(crate) fn plan(
    policy: &LimitPolicy,
    generation: Generation,
    seen: &mut CounterView,
    facts: &Facts,
    cost: u64,
    enforcement: Enforcement,
) -> Plan {
    let known = seen
        .denial
        .filter(|denial| enforcement == Enforcement::Normal && denial.holds(policy, generation, cost, facts.now));
    if let Some(denial) = known {
        return Plan::Decided(denial.verdict, Source::Local);
    }
    let (mut verdict, source) = match &facts.authority {
        Authority::Store => return Plan::NeedsStore,
        Authority::Signals(heard) => (fallback::by_signal(policy, seen, facts, heard, cost), Source::Signal),
        Authority::Fallback => match fallback::denied_by_old_signal(policy, seen, facts.now, cost) {
            Some(denial) => (denial, Source::Signal),
            None => (fallback::on_failure(policy, seen, facts, cost), Source::Fallback),
        },
    };
    verdict = fallback::paced(policy, seen, facts, cost, verdict);
    verdict.admitted |= enforcement == Enforcement::NeverDeny;
    if verdict.admitted {
        seen.own(policy).admit(facts.now.latest, cost, Sequence::Unknown);
    }
    Plan::Decided(verdict, source)
}
