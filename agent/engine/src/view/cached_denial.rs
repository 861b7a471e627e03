//! Denials that need not be asked for again.
//!
//! Without give-backs a count only falls by time passing; so until the earliest instant at which it could admit, the store
//! would say the same. A denial is repeated while the store's time is surely before that instant. Where units may be given
//! back, it is repeated for a moment only.

use tollgate_core::algorithm::{Algorithm, Limit, Verdict};
use tollgate_core::clock::Timestamp;
use tollgate_core::rules::{Generation, LimitPolicy};

use crate::time_bounds::TimeBounds;
use tollgate_core::counter::ChargeResult;

/// How long a denial is repeated that a give-back may end, in ms.
const FLEETING_MS: u64 = 10;

/// A denial of the store and how long it holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CachedDenial {
    /// What the store said.
    pub(crate) verdict: Verdict,
    /// For which cost: a smaller one may have room.
    pub(crate) cost: u64,
    /// By which rules: others may see it otherwise.
    pub(crate) generation: Generation,
    /// By which limit: the same caller may have another one when he comes again.
    pub(crate) limit: Limit,
    /// Until when.
    pub(crate) until: Timestamp,
}

impl CachedDenial {
    /// What the store said to a question.
    #[must_use]
    pub(crate) fn of(taken: &ChargeResult, policy: &LimitPolicy, generation: Generation, cost: u64) -> Self {
        let retry_at = taken.verdict.retry_at;
        let fleeting = !taken.firm || policy.algorithm == Algorithm::Concurrency;
        let until = if fleeting { retry_at.min(taken.at.plus_ms(FLEETING_MS)) } else { retry_at };
        Self { verdict: taken.verdict, cost, generation, limit: policy.limit(), until }
    }

    /// Whether the store would surely deny this, too.
    #[must_use]
    pub(crate) fn holds(&self, policy: &LimitPolicy, generation: Generation, cost: u64, now: TimeBounds) -> bool {
        generation == self.generation && cost >= self.cost && now.latest < self.until && policy.limit() == self.limit
    }
}
