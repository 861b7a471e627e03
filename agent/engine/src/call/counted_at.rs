//! Instants at which the rules of a call count it: each in the time of the primary that holds the counter, because primaries have
//! clocks of their own.

use tollgate_core::clock::Timestamp;

use crate::call::planned_call::PlannedCall;
use crate::engine::Context;

impl PlannedCall<'_> {
    /// Returns the instant at which the units of the rule at a position count, in the time of its primary.
    pub(crate) fn counted_at(&self, position: usize) -> Timestamp {
        self.result(position).map_or_else(|| self.planned_at(position), |result| result.at)
    }

    /// Returns the instant at which the units of the rule at a position count unless the store has charged them, in the time of
    /// its primary.
    pub(crate) fn planned_at(&self, position: usize) -> Timestamp {
        let matched = &self.matched[position];
        let decided_at = if matched.primary == self.matched[0].primary { self.decided_at() } else { matched.at };
        let taken = matched.paid.as_deref().and_then(|paid| paid.taken);
        taken.map_or(decided_at, |taken| taken.span.nearest(decided_at))
    }

    /// Returns the time in ms from the instant at which the first rule counts the call to that of each further one; nothing if all
    /// rules count it at once.
    pub(crate) fn counted_after_ms(&self) -> Box<[i64]> {
        let instant = |position| self.counted_at(position).as_ms().cast_signed();
        let after = |position| instant(position) - instant(0);
        if (1..self.matched.len()).all(|position| after(position) == 0) {
            return Box::default();
        }
        (1..self.matched.len()).map(after).collect()
    }

    /// Returns the instant from which the waits of the rule at a position count: that of its step, or the earliest that the time of
    /// its primary may be.
    pub(crate) fn waits_from(&self, context: &Context<'_>, position: usize) -> Timestamp {
        let primary = self.matched[position].primary;
        self.result(position).map_or_else(|| context.bounds_of(primary).earliest, |result| result.at)
    }
}
