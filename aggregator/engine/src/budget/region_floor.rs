//! Floor of a region in its store: the units of each counter of a rule that the region has without any grant.
//!
//! A floor falls only by a give-back of the region for all counters of the rule. The store enforces the lower one for a whole
//! window first; then no counter has more units in its window than the lower floor and its grants.

use tollgate_core::clock::Timestamp;
use tollgate_core::messages::ledger::{EntryId, Terms};

use super::coordinator::DEADLINE_MS;
use super::counter_budget::floor_of;
use super::stored_limit::{Fence, LimitWrite, StoredLimit};

/// Time after which an appended give-back that is not in the ledger is repeated, in ms.
const REPEATED_AFTER_MS: u64 = 1_000;
/// End of a floor.
const NEVER: Timestamp = Timestamp::from_ms(u64::MAX);

/// State of one rule's floor at a region.
#[derive(Clone, Debug, Default)]
pub(super) struct RegionFloor {
    /// Floor in the store, as its last answer said.
    stored: Option<StoredLimit>,
    lowered: Option<LoweredFloor>,
    appended_at: Option<Timestamp>,
}

/// A lower floor that the store enforces.
#[derive(Clone, Copy, Debug)]
struct LoweredFloor {
    fence: EntryId,
    /// Own time at which the store had it.
    since: Timestamp,
}

impl RegionFloor {
    /// Returns the write that the store needs; none if it has the floor. `reserved` is the region's floor in the ledger, `id` a
    /// new identity for a give-back.
    pub(super) fn write(
        &mut self,
        now: Timestamp,
        terms: (EntryId, &Terms),
        region: (&str, u64),
        id: EntryId,
        as_of: u64,
        is_read: impl Fn(EntryId) -> bool,
    ) -> Option<LimitWrite> {
        let ((terms_id, terms), (region, reserved)) = (terms, region);
        let lower = floor_of(terms, region);
        let known = self.stored.and_then(|stored| stored.fence).filter(|fence| !is_read(fence.id));
        let fence = match known {
            Some(fence) => Some(fence),
            None if lower < reserved => Some(Fence { id, grant: terms_id, keeps: lower }),
            None => None,
        };
        let units = fence.map_or(reserved, |fence| fence.keeps.min(reserved));
        let limit = StoredLimit { units, until: NEVER, as_of, fence };
        let is_known = self.stored.is_some_and(|stored| StoredLimit { as_of: stored.as_of, ..limit } == stored);
        let is_waiting = self.lowered.is_some_and(|lowered| {
            now.ms_since(lowered.since) >= terms.window_ms
                && self.appended_at.is_none_or(|at| now.ms_since(at) >= REPEATED_AFTER_MS)
        });
        let seen = self.stored.and_then(|stored| stored.fence).map(|fence| fence.id).filter(|id| is_read(*id));
        (!is_known || (fence.is_some() && is_waiting)).then_some(LimitWrite { limit, seen })
    }

    /// Takes the store's answer. Returns the give-back that may be appended: its fence names the terms.
    pub(super) fn written(
        &mut self,
        now: Timestamp,
        terms: &Terms,
        stored: StoredLimit,
        is_read: impl Fn(EntryId) -> bool,
    ) -> Option<Fence> {
        self.stored = Some(stored);
        let Some(fence) = stored.fence.filter(|fence| !is_read(fence.id)) else {
            (self.lowered, self.appended_at) = (None, None);
            return None;
        };
        let lowered = self.lowered.filter(|lowered| lowered.fence == fence.id);
        let lowered = lowered.unwrap_or(LoweredFloor { fence: fence.id, since: now });
        self.lowered = Some(lowered);
        let has_left = now.ms_since(lowered.since) >= terms.window_ms + DEADLINE_MS + terms.window_ms / 2_000;
        let is_repeated = self.appended_at.is_some_and(|at| now.ms_since(at) < REPEATED_AFTER_MS);
        if !has_left || is_repeated {
            return None;
        }
        self.appended_at = Some(now);
        Some(fence)
    }
}
