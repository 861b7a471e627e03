//! The combination of the verdicts of one call: all rules must admit it, and the strictest one is shown to the caller.

use tollgate_core::algorithm::Verdict;
use tollgate_core::decision::{LocalAnswer, Source};
use tollgate_core::rules::LimitPolicy;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RuleVerdict {
    pub(crate) verdict: Verdict,
    pub(crate) limit: u64,
    /// Maximum units that pass at once: the quota, or the burst.
    pub(crate) at_once: u64,
    pub(crate) source: Source,
    /// Reason for which the agent gave the verdict on its own.
    pub(crate) by: Option<LocalAnswer>,
    /// True for a denial of a call that costs more than the rule ever admits. Of a verdict that is not being combined: only by its
    /// cost, without a look at the counter.
    pub(crate) is_final: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Combined {
    pub(crate) allowed: bool,
    /// Position of the rule to show: of those that deny the one that denies longest, or for ever, else the one with the least part
    /// left.
    pub(crate) shown: Option<usize>,
    /// Source of the decision: of the rule to show, or of one that admits by the agent's part.
    pub(crate) source: Source,
    /// Reason for which the agent decided on its own.
    pub(crate) by: Option<LocalAnswer>,
}

impl RuleVerdict {
    #[inline]
    pub(crate) fn new(policy: &LimitPolicy, verdict: Verdict, limit: u64, source: Source) -> Self {
        let at_once = if policy.burst > 0 { policy.burst } else { limit };
        Self { verdict, limit, at_once, source, by: None, is_final: false }
    }

    #[inline]
    pub(crate) fn local(policy: &LimitPolicy, verdict: Verdict, limit: u64, by: LocalAnswer) -> Self {
        Self { by: Some(by), ..Self::new(policy, verdict, limit, Source::Local) }
    }

    /// Returns true for an admission after which less than a fifth of the units is left that may pass at once.
    #[inline]
    pub(crate) fn is_near_limit(&self) -> bool {
        self.verdict.admitted && self.verdict.remaining < self.at_once.div_ceil(5)
    }
}

/// Combines verdicts. A rule that was not evaluated has none.
pub(crate) fn combine(verdicts: &[Option<RuleVerdict>]) -> Combined {
    let evaluated = || verdicts.iter().enumerate().filter_map(|(position, rule)| Some((position, rule.as_ref()?)));
    let denied = evaluated().filter(|(_, rule)| !rule.verdict.admitted);
    // `max_by_key` returns the last of equals; the first in the order of rules is meant.
    let denied = denied.rev().max_by_key(|(_, rule)| (rule.is_final, rule.verdict.retry_at));
    let tightest = || {
        evaluated().min_by(|(_, a), (_, b)| {
            let left = |x: &RuleVerdict, y: &RuleVerdict| u128::from(x.verdict.remaining) * u128::from(y.at_once);
            left(a, b).cmp(&left(b, a))
        })
    };
    let shown = denied.or_else(tightest);
    // An admission is as uncertain as its weakest verdict.
    let by_part = || evaluated().find(|(_, rule)| rule.by == Some(LocalAnswer::Part));
    let decided = denied.or_else(by_part).or(shown);
    Combined {
        allowed: denied.is_none(),
        shown: shown.map(|(position, _)| position),
        source: decided.map_or(Source::Local, |(_, rule)| rule.source),
        by: decided.and_then(|(_, rule)| rule.by),
    }
}

#[cfg(test)]
mod tests {
    use tollgate_core::clock::Timestamp;

    use super::*;

    fn rule(admitted: bool, remaining: u64, at_once: u64, retry_ms: u64) -> RuleVerdict {
        let at = Timestamp::from_ms(retry_ms);
        RuleVerdict {
            verdict: Verdict { admitted, remaining, retry_at: at, reset_at: at, delay_ms: 0 },
            limit: 1,
            at_once,
            source: Source::Store,
            by: None,
            is_final: false,
        }
    }

    #[test]
    fn one_denial_denies_and_the_longest_is_shown() {
        let combined = combine(&[
            None,
            Some(rule(true, 0, 9, 0)),
            Some(rule(false, 0, 9, 5)),
            Some(rule(false, 0, 9, 7)),
            Some(rule(false, 0, 9, 7)),
        ]);
        assert_eq!((combined.allowed, combined.shown), (false, Some(3)));
        let for_ever = RuleVerdict { is_final: true, ..rule(false, 0, 9, 3) };
        let combined = combine(&[Some(rule(false, 0, 9, 7)), Some(for_ever), Some(rule(false, 0, 9, 5))]);
        assert_eq!((combined.allowed, combined.shown), (false, Some(1)));
    }

    #[test]
    fn of_those_that_admit_the_tightest_is_shown() {
        let combined =
            combine(&[Some(rule(true, 50, 100, 0)), Some(rule(true, 9, 10, 0)), Some(rule(true, 40, 100, 0))]);
        assert_eq!((combined.allowed, combined.shown), (true, Some(2)));
        let alone = RuleVerdict { source: Source::Fallback, by: Some(LocalAnswer::Part), ..rule(true, 90, 100, 0) };
        let leased = RuleVerdict { source: Source::Local, by: Some(LocalAnswer::Lease), ..rule(true, 9, 100, 0) };
        let combined = combine(&[Some(leased), Some(alone)]);
        assert_eq!((combined.shown, combined.source, combined.by), (Some(0), Source::Fallback, alone.by));
        assert_eq!(combine(&[]), Combined { allowed: true, shown: None, source: Source::Local, by: None });
    }
}
