//! Check: the decision of one call, from its rules to the answer.
//!
//! [`decide`](crate::decide) makes the decision from the verdicts; [`check_all`](crate::check_all) does the same for several
//! calls of one request.

use std::sync::atomic::Ordering;

use tollgate_core::algorithm::Verdict;
use tollgate_core::call::Call;
use tollgate_core::clock::Timestamp;
use tollgate_core::counter::{ChargeResult, ChargeResults, StoreError};
use tollgate_core::decision::{Decision, Source};
use tollgate_core::rules::MatchScope;

use crate::decide::{Evaluation, Verdicts};
use crate::enforce::RuleVerdict;
use crate::engine::{ActiveRules, Engine};
use crate::matched_rule::{MatchedRule, MatchedRules};
use crate::stage::{Charges, Stage};
use crate::time_bounds::TimeBounds;

/// A call for which the store is asked.
#[derive(Debug)]
pub(crate) struct PendingCheck {
    number: u64,
    matched: MatchedRules,
}

impl Engine {
    pub(crate) fn begin_check(
        &self,
        now: Timestamp,
        active: &ActiveRules,
        call: &Call<'_>,
    ) -> Stage<Decision, PendingCheck> {
        let bounds = self.store_time(now);
        let number = self.next_call();
        let matched = match self.match_call(active, bounds, call, MatchScope::default()) {
            Ok(matched) => matched,
            Err(rejection) => return Stage::Done(self.reject(now, active, call, number, bounds, rejection)),
        };
        if let Some(verdicts) = self.plan(active, &matched, bounds, self.may_ask_store(&matched)) {
            let evaluation = Evaluation::local(number, active, &matched, &verdicts, bounds);
            return Stage::Done(self.decide(now, call, &evaluation));
        }
        let charges = self.check_charges(active, &matched, call, bounds);
        let deadline = matched.iter().map(|matched| matched.policy.deadline).min().unwrap_or_default();
        Stage::NeedsStore(charges, deadline, PendingCheck { number, matched })
    }

    pub(crate) fn finish_check(
        &self,
        now: Timestamp,
        active: &ActiveRules,
        call: &Call<'_>,
        PendingCheck { number, matched }: &PendingCheck,
        answer: Result<ChargeResults, StoreError>,
    ) -> Decision {
        let bounds = self.store_time(now);
        let error = answer.as_ref().err().copied();
        let results = answer.unwrap_or_default();
        let verdicts = match error {
            None => verdicts_of(matched, &results),
            Some(_) => self.plan(active, matched, bounds, false).unwrap_or_default(),
        };
        let evaluation =
            Evaluation { results: &results, error, ..Evaluation::local(*number, active, matched, &verdicts, bounds) };
        self.decide(now, call, &evaluation)
    }

    /// Returns the charges that decide a call.
    pub(crate) fn check_charges(
        &self,
        active: &ActiveRules,
        matched: &[MatchedRule],
        call: &Call<'_>,
        bounds: TimeBounds,
    ) -> Charges {
        let request = call.id().map(|id| self.settings.digest_key.request(id));
        matched.iter().map(|matched| matched.check(active.set.generation, request, bounds)).collect()
    }

    /// Returns true if the store may be asked: not while the breaker is open, nor about a counter that lacks units which were
    /// admitted without the store.
    pub(crate) fn may_ask_store(&self, matched: &[MatchedRule]) -> bool {
        !self.is_degraded() && !self.any_unsynced(matched)
    }

    /// Returns the number of the next call.
    pub(crate) fn next_call(&self) -> u64 {
        self.calls.fetch_add(1, Ordering::Relaxed)
    }
}

/// Returns the verdicts of a call from the answer of the store.
pub(crate) fn verdicts_of(matched: &[MatchedRule], results: &[ChargeResult]) -> Verdicts {
    let verdict_of = |(matched, result): (&MatchedRule, &ChargeResult)| {
        let admitted = result.verdict.admitted || matched.never_denies();
        let verdict = Verdict { admitted, ..result.verdict };
        Some(RuleVerdict { verdict, limit: result.limit, source: Source::Store })
    };
    matched.iter().zip(results).map(verdict_of).collect()
}
