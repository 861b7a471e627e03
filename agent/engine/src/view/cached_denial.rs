//! Cached denials: denials of the store that the agent repeats without asking again.
//!
//! Without refunds a count falls only as time passes; until the earliest instant at which the counter could admit, the store
//! would give the same answer. A denial is repeated while the store's time is surely before that instant. Where units may be
//! refunded, it is repeated for a moment only.

use tollgate_core::algorithm::{Algorithm, Limit, Verdict};
use tollgate_core::clock::Timestamp;
use tollgate_core::counter::ChargeResult;
use tollgate_core::rules::{Generation, LimitPolicy};

use crate::time_bounds::TimeBounds;

/// Life of a denial that a refund may end, in ms.
const REFUNDABLE_MS: u64 = 10;

/// A denial of the store, and the conditions under which it holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CachedDenial {
    /// Units left, and the times from which the call is admitted and the quota is free, by the store.
    remaining: u64,
    retry_at: Timestamp,
    reset_at: Timestamp,
    /// Cost that was denied; a smaller one may have room.
    cost: u64,
    /// Generation of the rules; other rules may decide otherwise.
    generation: Generation,
    /// Limit of the caller, which another policy may change.
    limit: Limit,
    /// Instant at which the denial ends.
    pub(super) until: Timestamp,
}

impl CachedDenial {
    /// Creates the cached denial of a charge.
    pub(super) fn new(result: &ChargeResult, limit: Limit, generation: Generation, cost: u64) -> Self {
        let Verdict { remaining, retry_at, reset_at, .. } = result.verdict;
        let may_be_refunded = !result.firm || limit.algorithm == Algorithm::Concurrency;
        let until = if may_be_refunded { retry_at.min(result.at.plus_ms(REFUNDABLE_MS)) } else { retry_at };
        Self { remaining, retry_at, reset_at, cost, generation, limit, until }
    }

    /// Returns the verdict of the store.
    pub(crate) fn verdict(&self) -> Verdict {
        let Self { remaining, retry_at, reset_at, .. } = *self;
        Verdict { admitted: false, remaining, retry_at, reset_at, delay_ms: 0 }
    }

    /// Returns the instant at which the denial ends.
    pub(crate) fn until(&self) -> Timestamp {
        self.until
    }

    /// Returns true if the store would surely deny a charge of this cost, too.
    pub(crate) fn holds(&self, policy: &LimitPolicy, generation: Generation, cost: u64, now: TimeBounds) -> bool {
        generation == self.generation && cost >= self.cost && now.latest < self.until && policy.limit() == self.limit
    }
}
