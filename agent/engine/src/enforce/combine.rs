//! What the rules of one call mean together.

use tollgate_core::algorithm::Verdict;
use tollgate_core::decision::Source;

/// What one rule said.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RuleVerdict {
    /// Its verdict.
    pub(crate) verdict: Verdict,
    /// The quota by which it was judged, in units.
    pub(crate) limit: u64,
    /// Who gave it.
    pub(crate) source: Source,
}

/// What they say together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Combined {
    /// Whether the call may pass: every rule admits it.
    pub(crate) allowed: bool,
    /// Which rule to show: of those that deny the one that does so the longest, else the one with the least part left.
    pub(crate) shown: Option<usize>,
    /// Who decided.
    pub(crate) source: Source,
}

/// All or none. A rule that need not be asked any more said nothing.
#[must_use]
pub(crate) fn combine(verdicts: &[Option<RuleVerdict>]) -> Combined {
    let judged = || verdicts.iter().enumerate().filter_map(|(place, judged)| Some((place, judged.as_ref()?)));
    let denied = judged().filter(|(_, judged)| !judged.verdict.admitted);
    // `max_by_key` takes the last of equals; the first in the order of rules is meant.
    let denied = denied.rev().max_by_key(|(_, judged)| judged.verdict.retry_at);
    let tightest = || {
        judged().min_by(|(_, a), (_, b)| {
            let left = |x: &RuleVerdict, y: &RuleVerdict| u128::from(x.verdict.remaining) * u128::from(y.limit);
            left(a, b).cmp(&left(b, a))
        })
    };
    let shown = denied.or_else(tightest);
    Combined {
        allowed: denied.is_none(),
        shown: shown.map(|(index, _)| index),
        source: shown.map_or(Source::Local, |(_, judged)| judged.source),
    }
}

#[cfg(test)]
mod tests {
    use tollgate_core::clock::Timestamp;

    use super::*;

    fn judged(admitted: bool, remaining: u64, limit: u64, retry_ms: u64) -> RuleVerdict {
        let at = Timestamp::from_ms(retry_ms);
        RuleVerdict {
            verdict: Verdict { admitted, remaining, retry_at: at, reset_at: at, delay_ms: 0 },
            limit,
            source: Source::Store,
        }
    }

    #[test]
    fn one_refusal_refuses_and_the_longest_is_shown() {
        let settled = combine(&[
            None,
            Some(judged(true, 0, 9, 0)),
            Some(judged(false, 0, 9, 5)),
            Some(judged(false, 0, 9, 7)),
            Some(judged(false, 0, 9, 7)),
        ]);
        assert_eq!((settled.allowed, settled.shown), (false, Some(3)));
    }

    #[test]
    fn of_those_that_admit_the_tightest_is_shown() {
        let settled =
            combine(&[Some(judged(true, 50, 100, 0)), Some(judged(true, 9, 10, 0)), Some(judged(true, 40, 100, 0))]);
        assert_eq!((settled.allowed, settled.shown), (true, Some(2)));
        assert_eq!(combine(&[]), Combined { allowed: true, shown: None, source: Source::Local });
    }
}
