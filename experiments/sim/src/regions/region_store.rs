//! Model of a region's store: limits as the engine's reference sets them, and an exact list of admissions per counter.
//!
//! The store goes by a clock that steps. The true state beside it goes by a clock that takes part in the steps forward only: a step
//! forward shortens a window and a term, as in every store, and a step back lengthens neither. Units that the store admits after the
//! true end of their term are overdue.
//!
//! A charge has a window by the rules of its agent. It has units only if the window of the terms is the same one, as in the records of
//! production. The store counts all units of a counter in the window of its last charge. The true state beside it looks at each unit in
//! the window under which it was admitted, or in that of the terms in force if those have become shorter.

use std::collections::{BTreeMap, VecDeque};

use tollgate_core::clock::Timestamp;
use tollgate_core::counter::CounterId;
use tollgate_core::regions::stored_limit::{LimitAnswer, LimitWrite, StoredLimit};

#[derive(Clone, Debug, Default)]
pub(super) struct RegionStore {
    /// Floor that was written, and the window of its terms; none at first, and after a loss.
    floor: Option<(StoredLimit, u64)>,
    limits: BTreeMap<CounterId, LimitRecord>,
    /// Admissions, and the window of the last charge.
    admitted: BTreeMap<CounterId, (u64, VecDeque<Timestamp>)>,
    /// True instants of the admissions that are not overdue, and of those that are.
    due: BTreeMap<CounterId, UnitWindows>,
    late: BTreeMap<CounterId, UnitWindows>,
}

/// Instants of units, by the width in ms of the window in which each unit counts.
type UnitWindows = BTreeMap<u64, VecDeque<Timestamp>>;

#[derive(Clone, Copy, Debug)]
pub(super) struct AgentRules {
    /// Floor of a store without a written one.
    pub(super) floor: u64,
    pub(super) window_ms: u64,
}

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
    pub(super) life: u64,
    pub(super) ends: Timestamp,
    /// Window of the terms that it had read, in ms.
    pub(super) window_ms: u64,
}

#[derive(Clone, Copy, Debug, Default)]
struct LimitRecord {
    limit: StoredLimit,
    origin: WriteOrigin,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum StoreAdmission {
    Denied,
    Admitted,
    /// Its units are those of a term that has ended.
    Overdue,
}

impl RegionStore {
    /// Returns the units that a counter may have in a window, by an agent that knows the terms. Without a written floor, calls have that
    /// of their rules.
    pub(super) fn limit(&self, counter: CounterId, now: Timestamp, rules_floor: u64) -> u64 {
        let record = self.limits.get(&counter);
        self.floor(rules_floor).saturating_add(record.map_or(0, |record| record.limit.units_at(now)))
    }

    pub(super) fn has_floor(&self) -> bool {
        self.floor.is_some()
    }

    fn floor(&self, rules_floor: u64) -> u64 {
        self.floor.map_or(rules_floor, |(floor, _)| floor.units)
    }

    /// Returns the part of the limit that a charge with a window may use.
    fn limit_of(&self, counter: CounterId, now: StoreTime, rules: AgentRules, is_due: bool) -> u64 {
        if self.floor.is_some_and(|(_, window_ms)| window_ms != rules.window_ms) {
            return 0;
        }
        let record = self.limits.get(&counter).filter(|record| record.origin.window_ms == rules.window_ms);
        let record = record.filter(|_| !is_due || self.overdue(counter, now).is_none());
        self.floor(rules.floor).saturating_add(record.map_or(0, |record| record.limit.units_at(now.clock)))
    }

    /// Returns the larger of the limit and the units of the last window, both without overdue units.
    pub(super) fn live(&mut self, counter: CounterId, now: StoreTime, rules_floor: u64) -> u64 {
        let limit = self.due_limit(counter, now, rules_floor);
        limit.max(in_windows(&mut self.due, counter, now.steady))
    }

    /// Returns the larger of the limit without overdue units, and the units of the last window with them.
    pub(super) fn live_with_overdue(&mut self, counter: CounterId, now: StoreTime, rules_floor: u64) -> u64 {
        let units = in_windows(&mut self.due, counter, now.steady) + in_windows(&mut self.late, counter, now.steady);
        self.due_limit(counter, now, rules_floor).max(units)
    }

    /// Applies the window of the terms in force: units that count in a longer window count in this one from now on.
    pub(super) fn shorten(&mut self, window_ms: u64) {
        for windows in self.due.values_mut().chain(self.late.values_mut()) {
            let mut longer = windows.split_off(&(window_ms + 1));
            let kept = windows.entry(window_ms).or_default();
            kept.extend(longer.values_mut().flat_map(std::mem::take));
            kept.make_contiguous().sort_unstable();
        }
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
        let Some((window_ms, admitted)) = self.admitted.get_mut(&counter) else { return 0 };
        // After a step back, no unit leaves the window early.
        let ahead_ms = admitted.back().map_or(0, |newest| newest.ms_since(now));
        if ahead_ms > 0 {
            for at in admitted.iter_mut() {
                *at = at.minus_ms(ahead_ms);
            }
        }
        in_window(admitted, now, *window_ms)
    }

    /// Decides a call. A unit counts in the window of its agent's rules, or in that of the terms if it is shorter.
    pub(super) fn charge(
        &mut self,
        counter: CounterId,
        now: StoreTime,
        rules: AgentRules,
        terms_window_ms: u64,
    ) -> StoreAdmission {
        if self.floor.is_none_or(|(_, window_ms)| window_ms == rules.window_ms) {
            self.admitted.entry(counter).or_default().0 = rules.window_ms;
        }
        if self.used(counter, now.clock) >= self.limit_of(counter, now, rules, false) {
            return StoreAdmission::Denied;
        }
        self.admitted.entry(counter).or_default().1.push_back(now.clock);
        let window_ms = rules.window_ms.min(terms_window_ms);
        let is_due = in_windows(&mut self.due, counter, now.steady) < self.limit_of(counter, now, rules, true);
        let units = if is_due { &mut self.due } else { &mut self.late };
        units.entry(counter).or_default().entry(window_ms).or_default().push_back(now.steady);
        if is_due { StoreAdmission::Admitted } else { StoreAdmission::Overdue }
    }

    /// Writes the limit of a counter. Without `is_fenced`, it replaces whatever was written before.
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
        let origin = WriteOrigin { ends, ..if is_accepted { origin } else { record.origin } };
        *record = LimitRecord { limit, origin };
        LimitAnswer { limit, floor: self.floor(0), used: self.used(counter, now) }
    }

    pub(super) fn write_floor(&mut self, write: &LimitWrite, window_ms: u64) -> StoredLimit {
        let (before, window_before_ms) = self.floor.unwrap_or_default();
        let floor = before.after(write);
        self.floor = Some((floor, if floor == write.limit { window_ms } else { window_before_ms }));
        floor
    }

    /// Forgets the limits whose terms have ended, with their fences.
    pub(super) fn forget_ended(&mut self, now: Timestamp) {
        self.limits.retain(|_, record| now < record.limit.until);
    }

    /// The true state begins again with the loss: the store does not keep what it has acknowledged.
    pub(super) fn lose(&mut self) {
        *self = Self::default();
    }
}

fn in_window(admitted: &mut VecDeque<Timestamp>, now: Timestamp, window_ms: u64) -> u64 {
    while admitted.front().is_some_and(|at| now.ms_since(*at) >= window_ms) {
        admitted.pop_front();
    }
    admitted.len() as u64
}

/// Returns the number of units of a counter, each in its window.
fn in_windows(units: &mut BTreeMap<CounterId, UnitWindows>, counter: CounterId, now: Timestamp) -> u64 {
    let windows = units.get_mut(&counter).into_iter().flatten();
    windows.map(|(window_ms, admitted)| in_window(admitted, now, *window_ms)).sum()
}
