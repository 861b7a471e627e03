//! Counts of answers by rule, for one line of the log per minute and rule.

use std::collections::HashMap;

use parking_lot::Mutex;
use tollgate_core::decision::Decision;
use tollgate_core::name::Name;

const MINUTE_MS: u64 = 60_000;

/// Answers of the present minute. They are counted while the level of the log needs them.
#[derive(Default)]
pub(super) struct AnswerCounts(Mutex<CountedMinute>);

/// Answers of one minute, by rule; those without a rule have none.
#[derive(Default)]
struct CountedMinute {
    number: u64,
    by_rule: HashMap<Option<Name>, CountedAnswers>,
}

/// Answers under one rule in one minute.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct CountedAnswers {
    pub(super) allowed: u64,
    pub(super) denied: u64,
}

impl AnswerCounts {
    /// Counts an answer. The first one of a minute returns the counts of the minute before.
    pub(super) fn count(&self, decision: &Decision) -> HashMap<Option<Name>, CountedAnswers> {
        let mut minute = self.0.lock();
        let number = decision.at.as_ms() / MINUTE_MS;
        let ended = if number == minute.number { HashMap::new() } else { std::mem::take(&mut minute.by_rule) };
        minute.number = number;
        let rule = decision.status.as_ref().map(|status| status.rule.clone());
        let counted = minute.by_rule.entry(rule).or_default();
        *(if decision.allowed { &mut counted.allowed } else { &mut counted.denied }) += 1;
        ended
    }
}

#[cfg(test)]
mod tests {
    use tollgate_core::clock::Timestamp;
    use tollgate_core::decision::Source;
    use tollgate_core::decision_id::DecisionId;

    use super::*;

    #[test]
    fn the_first_answer_of_a_minute_returns_the_counts_of_the_minute_before() {
        let counts = AnswerCounts::default();
        let answer = |at_s: u64, allowed| {
            let id = DecisionId { life: "a-1".into(), call: 1, partition: None };
            counts.count(&Decision::new(allowed, Source::Local, Timestamp::from_ms(at_s * 1_000), id))
        };
        for (at_s, allowed) in [(60, true), (61, false), (119, true)] {
            assert_eq!(answer(at_s, allowed), HashMap::new());
        }
        assert_eq!(answer(120, true), [(None, CountedAnswers { allowed: 2, denied: 1 })].into());
        // A step back of the store's clock ends the minute, too.
        assert_eq!(answer(60, false), [(None, CountedAnswers { allowed: 1, denied: 0 })].into());
    }
}
