//! What to do with a charge.

use tollgate_common::algorithm::Verdict;
use tollgate_common::decision::Source;
use tollgate_common::rule::{Generation, Rule};

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

/// Plans one charge of `cost` units on the counter of which this was seen.
pub fn plan(rule: &Rule, generation: Generation, seen: &mut Seen, facts: &Facts, cost: u64) -> Plan {
    if let Some(denial) = seen.denial.filter(|denial| denial.holds(generation, cost, facts.now)) {
        return Plan::Answer(denial.verdict, Source::Local);
    }
    let (verdict, source) = match &facts.footing {
        Footing::Store => return Plan::Ask,
        Footing::Signal(heard) => (fallback::by_signal(rule, seen, facts, heard, cost), Source::Signal),
        Footing::Alone => match fallback::denied_by_old_signal(rule, seen, facts.now, cost) {
            Some(denial) => (denial, Source::Signal),
            None => (fallback::on_failure(rule, seen, facts, cost), Source::Fallback),
        },
    };
    if verdict.admitted {
        seen.own(rule).admit(facts.now.hi, cost, Sequence::Unknown);
    }
    Plan::Answer(verdict, source)
}
