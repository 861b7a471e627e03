//! Floor of a region in its store: the units of each counter of a rule that the region has without any grant.
//!
//! A floor falls only by a give-back of the region for all counters of the rule. The store enforces the lower one for a whole
//! window first; then no counter has more units in its window than the lower floor and its grants.
//!
//! A floor lives for ever, so a store without it has lost its data. The floor is written each second as if by a writer who knows less
//! of the ledger: a store that has it refuses this write.

use std::ops::RangeInclusive;

use tollgate_core::clock::Timestamp;
use tollgate_core::messages::ledger::{EntryId, Terms};

use super::coordinator::DEADLINE_MS;
use super::counter_budget::floor_of;
use tollgate_core::regions::stored_limit::{Fence, LimitWrite, StoredLimit};

/// Time after which an appended give-back that is not in the ledger is repeated, in ms.
const REPEATED_AFTER_MS: u64 = 1_000;
/// Interval at which the store is asked if it has the floor still, in ms.
const PROBED_EVERY_MS: u64 = 1_000;
/// End of a floor.
const NEVER: Timestamp = Timestamp::from_ms(u64::MAX);

#[derive(Clone, Debug, Default)]
pub(super) struct RegionFloor {
    /// Floor in the store, as its last answer said.
    stored: Option<StoredLimit>,
    lowered: Option<LoweredFloor>,
    appended_at: Option<Timestamp>,
    /// Last write that only a store without the floor accepts, and its instant.
    probe: Option<(StoredLimit, Timestamp)>,
}

/// A lower floor that the store enforces.
#[derive(Clone, Copy, Debug)]
struct LoweredFloor {
    fence: EntryId,
    /// Own time at which the store had it.
    since: Timestamp,
}

impl RegionFloor {
    /// Returns the write that the store needs; none if it has the floor. `reserved` are the lowest and the highest
    /// floor that the region has of a counter in the ledger. `id` is a new identity for a give-back, and `as_of` the
    /// number and the length of the ledger.
    pub(super) fn write(
        &mut self,
        now: Timestamp,
        terms: (EntryId, &Terms),
        region: (&str, RangeInclusive<u64>),
        id: EntryId,
        as_of: (u64, u64),
        is_read: impl Fn(EntryId) -> bool,
    ) -> Option<LimitWrite> {
        let ((terms_id, terms), (region, reserved)) = (terms, region);
        let lower = floor_of(terms, region);
        let known = self.stored.and_then(|stored| stored.fence).filter(|fence| !is_read(fence.id));
        let fence = match known {
            Some(fence) => Some(fence),
            None if lower < *reserved.end() => Some(Fence { id, grant: terms_id, keeps: lower }),
            None => None,
        };
        let lowest = *reserved.start();
        let units = fence.map_or(lowest, |fence| fence.keeps.min(lowest));
        let (ledger, as_of) = as_of;
        let (from, window_ms) = (Timestamp::default(), terms.window_ms);
        let limit = StoredLimit { units, from, until: NEVER, window_ms, ledger, as_of, fence };
        let is_known = self.stored.is_some_and(|stored| StoredLimit { as_of: stored.as_of, ..limit } == stored);
        let is_waiting = self.lowered.is_some_and(|lowered| {
            now.ms_since(lowered.since) >= terms.window_ms
                && self.appended_at.is_none_or(|at| now.ms_since(at) >= REPEATED_AFTER_MS)
        });
        let seen = self.stored.and_then(|stored| stored.fence).map(|fence| fence.id).filter(|id| is_read(*id));
        if !is_known || (fence.is_some() && is_waiting) {
            return Some(LimitWrite { limit, seen, ..LimitWrite::default() });
        }
        let is_due = self.probe.is_none_or(|(_, at)| now.ms_since(at) >= PROBED_EVERY_MS);
        let stored = self.stored.filter(|stored| is_due && stored.as_of > 0)?;
        let limit = StoredLimit { as_of: stored.as_of - 1, ..stored };
        self.probe = Some((limit, now));
        Some(LimitWrite { limit, ..LimitWrite::default() })
    }

    /// Returns true if the store's answer shows that it had lost the floor, and so all its data.
    pub(super) fn is_lost(&self, stored: StoredLimit) -> bool {
        self.probe.is_some_and(|(probe, _)| probe == stored)
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

#[cfg(test)]
mod tests {
    use super::*;

    fn id(sequence: u64) -> EntryId {
        EntryId { writer: 1, sequence }
    }

    /// The window is 10 s. A give-back is appended after it and 105 ms for the deadline and the drift.
    #[test]
    fn a_floor_is_given_back_after_a_window_under_the_lower_one() {
        let (window_ms, term_ms, key_fingerprint) = (10_000, 12_000, 42);
        let floors = vec![("a".into(), 3)];
        let terms = Terms { rule: "rule".into(), generation: 2, quota: 9, window_ms, term_ms, key_fingerprint, floors };
        let ms = Timestamp::from_ms;
        let mut floor = RegionFloor::default();
        let fence = Fence { id: id(5), grant: id(1), keeps: 3 };
        let write = |floor: &mut RegionFloor, now_ms, reserved, is_read: bool| {
            floor.write(ms(now_ms), (id(1), &terms), ("a", reserved..=reserved), id(5), (1, 7), |_| is_read)
        };
        let plain = StoredLimit { units: 3, until: NEVER, window_ms, ledger: 1, as_of: 7, ..StoredLimit::default() };
        let lowered = StoredLimit { fence: Some(fence), ..plain };
        assert_eq!(write(&mut floor, 0, 8, false), Some(LimitWrite { limit: lowered, ..LimitWrite::default() }));
        assert_eq!(floor.written(ms(0), &terms, lowered, |_| false), None);
        let probe = StoredLimit { as_of: 6, ..lowered };
        assert_eq!(
            write(&mut floor, 9_999, 8, false).map(|write| write.limit),
            Some(probe),
            "the window has not passed"
        );
        assert!(write(&mut floor, 10_000, 8, false).is_some());
        for (now_ms, expected) in [(10_104, None), (10_105, Some(fence)), (11_104, None), (11_105, Some(fence))] {
            assert_eq!(floor.written(ms(now_ms), &terms, lowered, |_| false), expected, "{now_ms}");
        }
        // The give-back is in the ledger.
        let seen = LimitWrite { limit: plain, seen: Some(id(5)), ..LimitWrite::default() };
        assert_eq!(write(&mut floor, 12_000, 3, true), Some(seen));
        assert_eq!(floor.written(ms(12_000), &terms, plain, |_| true), None);
        assert_eq!(write(&mut floor, 10_998, 3, true), None, "the store has the floor");
    }

    /// A counter whose floor could not rise keeps the store's floor low. The higher floors of others are given back all the same.
    #[test]
    fn the_highest_floor_is_given_back() {
        let floors = vec![("a".into(), 3)];
        let (window_ms, term_ms, key_fingerprint) = (10_000, 12_000, 42);
        let terms = Terms { rule: "rule".into(), generation: 2, quota: 9, window_ms, term_ms, key_fingerprint, floors };
        let fence = Fence { id: id(5), grant: id(1), keeps: 3 };
        for (reserved, expected) in
            [(3..=3, (3, None)), (2..=3, (2, None)), (3..=8, (3, Some(fence))), (2..=8, (2, Some(fence)))]
        {
            let case = format!("{reserved:?}");
            let region = ("a", reserved);
            let write =
                RegionFloor::default().write(Timestamp::default(), (id(1), &terms), region, id(5), (1, 7), |_| false);
            assert_eq!(write.map(|write| (write.limit.units, write.limit.fence)), Some(expected), "{case}");
        }
    }

    /// A write that knows less than the store changes nothing there. A store without the floor takes it.
    #[test]
    fn a_store_without_its_floor_has_lost_its_data() {
        let ms = Timestamp::from_ms;
        let floors = vec![("a".into(), 3)];
        let (window_ms, term_ms, key_fingerprint) = (10_000, 12_000, 42);
        let terms = Terms { rule: "rule".into(), generation: 2, quota: 9, window_ms, term_ms, key_fingerprint, floors };
        let mut floor = RegionFloor::default();
        let mut write = |now_ms, store: &mut StoredLimit| {
            let write = floor.write(ms(now_ms), (id(1), &terms), ("a", 3..=3), id(5), (1, 7), |_| false);
            *store = write.map_or(*store, |write| store.after(&write));
            let is_lost = write.is_some() && floor.is_lost(*store);
            assert_eq!(floor.written(ms(now_ms), &terms, *store, |_| false), None);
            (write.map(|write| write.limit.as_of), is_lost)
        };
        let mut store = StoredLimit::default();
        assert_eq!(write(0, &mut store), (Some(7), false));
        let stored = store;
        assert_eq!(write(1, &mut store), (Some(6), false));
        assert_eq!((store, write(1_000, &mut store)), (stored, (None, false)));
        assert_eq!((write(1_001, &mut store), store), ((Some(6), false), stored));
        store = StoredLimit::default();
        assert_eq!(write(2_001, &mut store), (Some(6), true));
        assert_eq!(store.units, 3, "the floor is there again");
    }
}
