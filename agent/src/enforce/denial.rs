//! Denials that need not be asked for again.
//!
//! Without give-backs a count only falls by time passing; so until the earliest instant at which it could admit, the store
//! would say the same. A denial is repeated while the store's time is surely before that instant.

use tollgate_common::algorithm::Verdict;
use tollgate_common::rule::Generation;

use super::time::Span;

/// A denial of the store and how long it holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CachedDenial {
    /// What the store said.
    pub verdict: Verdict,
    /// For which cost: a smaller one may have room.
    pub cost: u64,
    /// By which rules: others may see it otherwise.
    pub generation: Generation,
}

impl CachedDenial {
    /// Whether the store would surely deny this, too.
    #[must_use]
    pub fn holds(&self, generation: Generation, cost: u64, now: Span) -> bool {
        generation == self.generation && cost >= self.cost && now.hi < self.verdict.retry_at
    }
}
