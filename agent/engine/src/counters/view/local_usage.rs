//! Local usage: what the agent itself has admitted on one counter.
//!
//! The same units are kept in two forms: per sub-window for the last W (`on_failure: share`), and those that no signal
//! contains yet (answers by signal). Beside them is the count in the last answer of the store. Those that the store
//! does not know are in [`pending`](super::pending).

use tollgate_core::clock::Timestamp;
use tollgate_core::rules::LimitPolicy;
use tollgate_core::window::{Estimate, Ring, Window};

use super::acknowledgement::Acknowledgement;
use super::demand::LeaseDemand;
use super::store_count::{CountedUnits, StoreCount};
use super::uncovered::{RoundNumber, UncoveredUnits};

#[derive(Clone, Debug)]
pub(crate) struct LocalUsage {
    /// Units of the last W.
    pub(super) ring: Ring,
    pub(crate) uncovered: UncoveredUnits,
    pub(super) demand: LeaseDemand,
    by_store: StoreCount,
    /// Instant of the newest charge that the store has acknowledged. Without a birth it proves nothing, and only tells
    /// that the store has answered since its last loss. It ends when the store's clock steps back.
    pub(super) acknowledged: Timestamp,
}

impl LocalUsage {
    pub(super) fn new(window: Window) -> Self {
        Self {
            ring: Ring::new(window),
            uncovered: UncoveredUnits::default(),
            demand: LeaseDemand::default(),
            by_store: StoreCount::default(),
            acknowledged: Timestamp::default(),
        }
    }

    pub(super) fn admit(&mut self, at: Timestamp, units: u64, round: RoundNumber) {
        self.ring.add_at(at, units);
        if let Some(round) = round {
            self.uncovered.admit(at, units, round);
        }
        self.by_store.since = self.by_store.since.saturating_add(units);
    }

    pub(super) fn acknowledge(&mut self, answer: &Acknowledgement) {
        self.acknowledged = if answer.is_comparable() { answer.at } else { answer.lost_before };
    }

    pub(super) fn rebase(&mut self, by_ms: u64, now: Timestamp) {
        self.ring.rebase(now, Estimate::Conservative);
        self.uncovered.rebase(by_ms, now);
        self.by_store.rebase(by_ms);
        self.demand = LeaseDemand::default();
        self.acknowledged = Timestamp::default();
    }

    pub(super) fn refund(&mut self, at: Timestamp, units: u64) {
        self.ring.subtract(self.ring.window().sub_window(at), units);
        self.uncovered.remove(at, units);
        self.by_store.since = self.by_store.since.saturating_sub(units);
    }

    /// Remembers the count of an answer of the store at `at`. This agent has leased `leased` of these units and not
    /// spent them. All units have left the window at `until`.
    pub(super) fn answered(&mut self, policy: &LimitPolicy, at: Timestamp, used: u64, leased: u64, until: Timestamp) {
        let own = self.ring.used(at, policy.algorithm.estimate()).saturating_add(leased);
        self.by_store = StoreCount::of_window(used, own, until);
    }

    pub(super) fn answered_by(&mut self, limit: u64) {
        self.by_store.limit = limit;
    }

    /// Returns the quota by which the store answered last; 0 before its first answer.
    pub(super) fn limit(&self) -> u64 {
        self.by_store.limit
    }

    /// Remembers the level of a bucket in an answer of the store at `at`; all its units have drained at `until`.
    pub(super) fn answered_by_bucket(&mut self, at: Timestamp, level: u64, until: Timestamp) {
        self.by_store = StoreCount::of_bucket(level, at, until);
    }

    /// Returns the units of the store's last answer that are still in the window.
    pub(super) fn store_count(&self, policy: &LimitPolicy, now: Timestamp) -> Option<CountedUnits> {
        self.by_store.known(self.ring.used(now, policy.algorithm.estimate()), now)
    }
}

#[cfg(test)]
mod tests {
    use super::super::uncovered::CoveredRounds;
    use super::*;

    /// Without a bus there are no signals, so nothing can be beyond a signal.
    #[test]
    fn an_agent_without_a_bus_keeps_no_uncovered_units() {
        let at = Timestamp::from_ms(10);
        let mut local = LocalUsage::new(Window::new(1_000, 10).unwrap());
        local.admit(at, 2, None);
        let uncovered = local.uncovered.beyond(&CoveredRounds::default(), at, 1_000);
        assert_eq!((local.ring.used(at, Estimate::Conservative), uncovered), (2, 0));
    }

    #[test]
    fn units_that_another_counter_denied_are_removed() {
        let at = Timestamp::from_ms(10);
        let mut local = LocalUsage::new(Window::new(1_000, 10).unwrap());
        local.admit(at, 2, Some(1));
        local.refund(at, 2);
        let uncovered = local.uncovered.beyond(&CoveredRounds::default(), at, 1_000);
        assert_eq!((local.ring.used(at, Estimate::Conservative), uncovered), (0, 0));
    }
}
