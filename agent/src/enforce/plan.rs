//! What to do with a charge.

use tollgate_core::algorithm::Verdict;
use tollgate_core::decision::Source;
use tollgate_core::rules::{Generation, LimitPolicy};

use super::own::Sequence;
use super::seen::Seen;
use super::{Facts, Footing, fallback};

/// What to do with a charge.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Plan {
    /// The agent knows the answer. An admission is already entered in [`Seen`], so two calls never get the same unit.
    Answer(Verdict, Source),
    /// The store must be asked.
    Ask,
}

/// How a charge is meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Manner {
    /// It may be denied, by what is known if that is enough.
    Usual,
    /// It may be denied, but only the store can tell: it is counted anyway, or the request may have passed before.
    Anew,
    /// It is counted and never denied.
    Lenient,
}

/// Plans one charge of `cost` units on the counter of which this was seen.
pub fn plan(
    policy: &LimitPolicy,
    generation: Generation,
    seen: &mut Seen,
    facts: &Facts,
    cost: u64,
    manner: Manner,
) -> Plan {
    let known =
        seen.denial.filter(|denial| manner == Manner::Usual && denial.holds(policy, generation, cost, facts.now));
    if let Some(denial) = known {
        return Plan::Answer(denial.verdict, Source::Local);
    }
    let (mut verdict, source) = match &facts.footing {
        Footing::Store => return Plan::Ask,
        Footing::Signal(heard) => (fallback::by_signal(policy, seen, facts, heard, cost), Source::Signal),
        Footing::Alone => match fallback::denied_by_old_signal(policy, seen, facts.now, cost) {
            Some(denial) => (denial, Source::Signal),
            None => (fallback::on_failure(policy, seen, facts, cost), Source::Fallback),
        },
    };
    verdict = fallback::paced(policy, seen, facts, cost, verdict);
    verdict.admitted |= manner == Manner::Lenient;
    if verdict.admitted {
        seen.own(policy).admit(facts.now.hi, cost, Sequence::Unknown);
    }
    Plan::Answer(verdict, source)
}
