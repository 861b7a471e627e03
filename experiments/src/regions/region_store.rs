//! Model of a region's store: limits as the engine's reference sets them, and an exact list of admissions per counter.
//!
//! The store goes by a clock that steps. The true state beside it goes by a clock that takes part in the steps forward only: a step
//! forward shortens a window and a term, as in every store, and a step back lengthens neither. Units that the store admits after the
//! true end of their term are overdue.

use std::collections::{BTreeMap, VecDeque};

use tollgate_core::clock::Timestamp;
use tollgate_core::counter::CounterId;
use tollgate_core::regions::stored_limit::{LimitAnswer, LimitWrite, StoredLimit};

/// Store of one region.
#[derive(Clone, Debug, Default)]
pub(super) struct RegionStore {
    /// Floor that was written; none at first, and after a loss.
    floor: Option<StoredLimit>,
    limits: BTreeMap<CounterId, LimitRecord>,
    admitted: BTreeMap<CounterId, VecDeque<Timestamp>>,
    /// True instants of the admissions that are not overdue.
    due: BTreeMap<CounterId, VecDeque<Timestamp>>,
    window_ms: u64,
}

/// Time of a store.
#[derive(Clone, Copy, Debug)]
pub(super) struct StoreTime {
    /// By its clock.
    pub(super) clock: Timestamp,
    /// By a clock that does not step back.
    pub(super) steady: Timestamp,
}

/// Process that decided on a write, and the true end of the term, as it knew it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct WriteOrigin {
    /// Life of the process.
    pub(super) life: u64,
    pub(super) ends: Timestamp,
}

#[derive(Clone, Copy, Debug, Default)]
struct LimitRecord {
    limit: StoredLimit,
    origin: WriteOrigin,
}

/// Admission of a call by a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum StoreAdmission {
    Denied,
    Admitted,
    /// Its units are those of a term that has ended.
    Overdue,
}

impl RegionStore {
    pub(super) fn new(window_ms: u64) -> Self {
        Self { window_ms, ..Self::default() }
    }

    /// Returns the units that a counter may have in a window. Without a written floor, calls have that of their rules.
    pub(super) fn limit(&self, counter: CounterId, now: Timestamp, rules_floor: u64) -> u64 {
        let record = self.limits.get(&counter);
        self.floor(rules_floor).saturating_add(record.map_or(0, |record| record.limit.units_at(now)))
    }

    pub(super) fn has_floor(&self) -> bool {
        self.floor.is_some()
    }

    fn floor(&self, rules_floor: u64) -> u64 {
        self.floor.map_or(rules_floor, |floor| floor.units)
    }

    /// Returns the larger of the limit and the units of the last window, both without overdue units.
    pub(super) fn live(&mut self, counter: CounterId, now: StoreTime, rules_floor: u64) -> u64 {
        let limit = self.due_limit(counter, now, rules_floor);
        limit.max(in_window(&mut self.due, counter, now.steady, self.window_ms))
    }

    fn due_limit(&self, counter: CounterId, now: StoreTime, rules_floor: u64) -> u64 {
        match self.overdue(counter, now) {
            Some(_) => self.floor(rules_floor),
            None => self.limit(counter, now.clock, rules_floor),
        }
    }

    /// Returns the origin of units whose term has ended, but not by the store's clock.
    pub(super) fn overdue(&self, counter: CounterId, now: StoreTime) -> Option<WriteOrigin> {
        let record = self.limits.get(&counter)?;
        let is_overdue = record.limit.units_at(now.clock) > 0 && now.steady >= record.origin.ends;
        is_overdue.then_some(record.origin)
    }

    /// Returns the units of a counter in the last window.
    fn used(&mut self, counter: CounterId, now: Timestamp) -> u64 {
        if let Some(admitted) = self.admitted.get_mut(&counter) {
            // After a step back, no unit leaves the window early.
            let ahead_ms = admitted.back().map_or(0, |newest| newest.ms_since(now));
            for at in admitted.iter_mut() {
                *at = at.minus_ms(ahead_ms);
            }
        }
        in_window(&mut self.admitted, counter, now, self.window_ms)
    }

    pub(super) fn charge(&mut self, counter: CounterId, now: StoreTime, rules_floor: u64) -> StoreAdmission {
        if self.used(counter, now.clock) >= self.limit(counter, now.clock, rules_floor) {
            return StoreAdmission::Denied;
        }
        self.admitted.entry(counter).or_default().push_back(now.clock);
        if in_window(&mut self.due, counter, now.steady, self.window_ms) >= self.due_limit(counter, now, rules_floor) {
            return StoreAdmission::Overdue;
        }
        self.due.entry(counter).or_default().push_back(now.steady);
        StoreAdmission::Admitted
    }

    /// Writes the limit of a counter; whatever was written before, if it `is_fenced` no more.
    pub(super) fn write(
        &mut self,
        counter: CounterId,
        now: Timestamp,
        write: &LimitWrite,
        origin: WriteOrigin,
        is_fenced: bool,
    ) -> LimitAnswer {
        let record = self.limits.entry(counter).or_default();
        let before = record.limit;
        let limit = if is_fenced { before.after(write) } else { write.limit };
        let is_accepted = limit == write.limit;
        let ends = match is_accepted {
            true => origin.ends,
            // A fence keeps the limit below what the writer holds: the units are those of its term.
            false if write.limit.units >= before.units => record.origin.ends.max(origin.ends),
            false => record.origin.ends.min(origin.ends),
        };
        let origin = WriteOrigin { ends, life: if is_accepted { origin.life } else { record.origin.life } };
        *record = LimitRecord { limit, origin };
        LimitAnswer { limit, floor: self.floor.map_or(0, |floor| floor.units), used: self.used(counter, now) }
    }

    pub(super) fn write_floor(&mut self, write: &LimitWrite) -> StoredLimit {
        let floor = self.floor.unwrap_or_default().after(write);
        self.floor = Some(floor);
        floor
    }

    /// Forgets the limits whose terms have ended, with their fences.
    pub(super) fn forget_ended(&mut self, now: Timestamp) {
        self.limits.retain(|_, record| now < record.limit.until);
    }

    /// Loses all data. The true state begins again with it: the store does not keep what it has acknowledged.
    pub(super) fn lose(&mut self) {
        *self = Self::new(self.window_ms);
    }
}

/// Returns the number of admissions in the window that ends now.
fn in_window(
    admitted: &mut BTreeMap<CounterId, VecDeque<Timestamp>>,
    counter: CounterId,
    now: Timestamp,
    window_ms: u64,
) -> u64 {
    let Some(admitted) = admitted.get_mut(&counter) else { return 0 };
    while admitted.front().is_some_and(|at| now.ms_since(*at) >= window_ms) {
        admitted.pop_front();
    }
    admitted.len() as u64
}
