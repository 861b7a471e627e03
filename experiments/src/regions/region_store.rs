//! Model of a region's store: limits as the engine's reference sets them, and an exact list of admissions per counter.

use std::collections::{BTreeMap, VecDeque};

use tollgate_core::clock::Timestamp;
use tollgate_core::counter::CounterId;
use tollgate_core::regions::stored_limit::{LimitAnswer, LimitWrite, StoredLimit};

/// Store of one region.
#[derive(Clone, Debug, Default)]
pub struct RegionStore {
    floor: StoredLimit,
    limits: BTreeMap<CounterId, StoredLimit>,
    admitted: BTreeMap<CounterId, VecDeque<Timestamp>>,
    window_ms: u64,
}

impl RegionStore {
    pub(super) fn new(window_ms: u64) -> Self {
        Self { window_ms, ..Self::default() }
    }

    /// Returns the units that a counter may have in a window.
    #[must_use]
    pub fn limit(&self, counter: CounterId, now: Timestamp) -> u64 {
        let granted = self.limits.get(&counter).map_or(0, |limit| limit.units_at(now));
        self.floor.units.saturating_add(granted)
    }

    /// Returns the units of a counter in the last window.
    pub fn used(&mut self, counter: CounterId, now: Timestamp) -> u64 {
        let Some(admitted) = self.admitted.get_mut(&counter) else { return 0 };
        while admitted.front().is_some_and(|at| now.ms_since(*at) >= self.window_ms) {
            admitted.pop_front();
        }
        admitted.len() as u64
    }

    /// Admits a call if the window has room.
    pub(super) fn charge(&mut self, counter: CounterId, now: Timestamp) -> bool {
        let has_room = self.used(counter, now) < self.limit(counter, now);
        if has_room {
            self.admitted.entry(counter).or_default().push_back(now);
        }
        has_room
    }

    /// Writes the limit of a counter; whatever was written before, if it `is_fenced` no more.
    pub(super) fn write(
        &mut self,
        counter: CounterId,
        now: Timestamp,
        write: &LimitWrite,
        is_fenced: bool,
    ) -> LimitAnswer {
        let limit = self.limits.entry(counter).or_default();
        *limit = if is_fenced { limit.after(write) } else { write.limit };
        let limit = *limit;
        LimitAnswer { limit, floor: self.floor.units, used: self.used(counter, now) }
    }

    pub(super) fn write_floor(&mut self, write: &LimitWrite) -> StoredLimit {
        self.floor = self.floor.after(write);
        self.floor
    }

    /// Forgets the limits whose terms have ended, with their fences.
    pub(super) fn forget_ended(&mut self, now: Timestamp) {
        self.limits.retain(|_, limit| now < limit.until);
    }
}
