//! Number of the callers of one rule in one slice, and the sketch of those past the cap.

use tollgate_core::counter::CounterId;

use super::caller_sketch::CallerSketch;

#[derive(Clone, Debug, Default)]
pub(super) struct CallersOfRule {
    /// Number of callers with sums of their own, of those that came before the cap.
    pub(super) callers: usize,
    /// Number of callers with a rollup of their own.
    pub(super) with_rollup: usize,
    /// True if further callers are added to the others.
    pub(super) is_full: bool,
    /// Calls of callers that may not have been counted as callers.
    uncounted_calls: u64,
    pub(super) sketch: Option<Box<CallerSketch>>,
}

impl CallersOfRule {
    /// Notes calls of a caller past the cap. If the caller shall get sums of its own, returns the maximum number of its calls that
    /// are not in them.
    pub(super) fn add_to_others(&mut self, caller: CounterId, calls: u64) -> Option<u64> {
        if let Some(sketch) = &mut self.sketch {
            return sketch.add(caller, calls);
        }
        self.uncounted_calls = self.uncounted_calls.saturating_add(calls);
        None
    }

    /// Returns the number of callers, and its maximum error.
    pub(super) fn callers(&self) -> (u64, u64) {
        let counted = (self.callers as u64, self.uncounted_calls);
        self.sketch.as_ref().map_or(counted, |sketch| sketch.callers())
    }
}
