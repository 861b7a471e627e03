//! What to do with a charge.

use tollgate_common::algorithm::Verdict;
use tollgate_common::decision::Source;
use tollgate_common::rule::{Generation, Terms};

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
pub fn plan(terms: &Terms, generation: Generation, seen: &mut Seen, facts: &Facts, cost: u64, manner: Manner) -> Plan {
    let known =
        seen.denial.filter(|denial| manner == Manner::Usual && denial.holds(terms, generation, cost, facts.now));
    if let Some(denial) = known {
        return Plan::Answer(denial.verdict, Source::Local);
    }
    let (mut verdict, source) = match &facts.footing {
        Footing::Store => return Plan::Ask,
        Footing::Signal(heard) => (fallback::by_signal(terms, seen, facts, heard, cost), Source::Signal),
        Footing::Alone => match fallback::denied_by_old_signal(terms, seen, facts.now, cost) {
            Some(denial) => (denial, Source::Signal),
            None => (fallback::on_failure(terms, seen, facts, cost), Source::Fallback),
        },
    };
    verdict = fallback::paced(terms, seen, facts, cost, verdict);
    verdict.admitted |= manner == Manner::Lenient;
    if verdict.admitted {
        seen.own(terms).admit(facts.now.hi, cost, Sequence::Unknown);
    }
    Plan::Answer(verdict, source)
}
