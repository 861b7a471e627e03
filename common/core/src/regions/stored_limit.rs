//! Limit of a counter in the store of its region: the units of its grants, beside its floor.
//!
//! Several processes of a region may write it, and one of them may have been suspended since it decided to. The store itself
//! therefore refuses a limit that rises if its writer knows less of the ledger than an earlier one, or does not know the
//! give-back for which the limit was lowered. A lower limit holds at once, whoever writes it.

use super::EntryId;
use crate::clock::Timestamp;

/// Units that a region may admit in a window beside its floor.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct StoredLimit {
    /// Units from `from` until `until`; none before and none from then on.
    pub units: u64,
    /// Earliest store time of the last asking for any of them. A store whose clock shows less has stepped back: the term would last
    /// longer.
    pub from: Timestamp,
    /// Store time at which the first of their terms ends.
    pub until: Timestamp,
    /// Width of the window of the terms, in ms. Charges by another window have none of these units: they would be spent in windows
    /// that the ledger does not count.
    pub window_ms: u64,
    /// Number of the ledger. One that was created again has another number, and its length says nothing about the earlier one.
    pub ledger: u64,
    /// Length of the ledger that the writer had read.
    pub as_of: u64,
    /// Give-back for which the limit was lowered.
    pub fence: Option<Fence>,
}

/// Give-back that lowers a limit before it is in the ledger.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Fence {
    /// Entry of the give-back.
    pub id: EntryId,
    /// Last entry that granted units of the grant; of a floor, its terms.
    pub grant: EntryId,
    /// Units of the grant that are kept.
    pub keeps: u64,
}

/// Write of a limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct LimitWrite {
    /// The limit.
    pub limit: StoredLimit,
    /// Give-back that the writer has read in the ledger.
    pub seen: Option<EntryId>,
    /// Facts that the store keeps for display.
    pub shown: ShownBudget,
}

/// Facts about a region's budget of a counter, as of the last write of its limit. Nothing depends on them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct ShownBudget {
    /// Units that the region could use.
    pub wants: u64,
    /// Grants and give-backs of all regions that the writer has read since its start.
    pub moves: u64,
}

/// Record of a counter's limit at an instant of store time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LimitView {
    /// Facts as of the last write.
    pub shown: ShownBudget,
    /// Time since the last asking for any of the granted units, in ms; none while there are none.
    pub age_ms: Option<u64>,
}

/// Answer of the store to the write of a counter's limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct LimitAnswer {
    /// Limit in force.
    pub limit: StoredLimit,
    /// Floor in force.
    pub floor: u64,
    /// Units of the last window that the store or the aggregator knows, the larger of both.
    pub used: u64,
}

impl StoredLimit {
    /// Returns the units at an instant of store time.
    #[must_use]
    pub fn units_at(&self, now: Timestamp) -> u64 {
        if self.is_in_force(now) { self.units } else { 0 }
    }

    /// Returns true if the granted units hold at an instant of store time. After its clock has stepped back, they hold for no longer
    /// than a term.
    #[must_use]
    pub fn is_in_force(&self, now: Timestamp) -> bool {
        self.from <= now && now < self.until
    }

    /// Returns the record with these facts at an instant of store time.
    #[must_use]
    pub fn view(&self, shown: ShownBudget, now: Timestamp) -> LimitView {
        let age_ms = (self.units_at(now) > 0).then(|| now.ms_since(self.from));
        LimitView { shown, age_ms }
    }

    /// Returns the limit after a write: as written, or the lower one of both if both are of the same ledger.
    #[must_use]
    pub fn after(self, write: &LimitWrite) -> Self {
        let LimitWrite { limit, seen, .. } = *write;
        let is_older = limit.as_of < self.as_of;
        let is_fenced = self.fence.is_some_and(|fence| seen != Some(fence.id));
        let is_same_fence = self.fence.is_some() && limit.fence == self.fence;
        let is_refused = is_older || (is_fenced && !is_same_fence) || (is_same_fence && limit.units > self.units);
        if is_refused && limit.ledger == self.ledger {
            let (units, until) = (self.units.min(limit.units), self.until.min(limit.until));
            return Self { units, from: self.from.max(limit.from), until, ..self };
        }
        limit
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const G: EntryId = EntryId { writer: 7, sequence: 1 };

    fn limit(units: u64, until: u64, as_of: u64, fence: Option<EntryId>) -> StoredLimit {
        let fence = fence.map(|id| Fence { id, grant: EntryId { writer: 1, sequence: 1 }, keeps: 5 });
        StoredLimit { units, until: Timestamp::from_ms(until), as_of, fence, ..StoredLimit::default() }
    }

    #[test]
    fn a_limit_rises_by_a_writer_who_knows_as_much() {
        let plain = |units, as_of| limit(units, 100, as_of, None);
        let fenced = |units, as_of| limit(units, 100, as_of, Some(G));
        for (case, before, written, seen, after) in [
            ("first", StoredLimit::default(), plain(9, 3), None, plain(9, 3)),
            ("newer", plain(9, 3), plain(12, 4), None, plain(12, 4)),
            ("as new", plain(9, 3), plain(12, 3), None, plain(12, 3)),
            ("older and higher", plain(9, 3), plain(12, 2), None, plain(9, 3)),
            ("older and lower", plain(9, 3), plain(4, 2), None, plain(4, 3)),
            ("lowered for a give-back", plain(9, 3), fenced(4, 3), None, fenced(4, 3)),
            ("give-back unknown", fenced(4, 3), plain(9, 5), None, fenced(4, 3)),
            ("give-back read", fenced(4, 3), plain(9, 5), Some(G), plain(9, 5)),
            ("give-back read by an older writer", fenced(4, 6), plain(9, 5), Some(G), fenced(4, 6)),
            ("renewed under the give-back", fenced(4, 3), fenced(4, 5), None, fenced(4, 5)),
            ("raised under the give-back", fenced(4, 3), fenced(5, 5), None, fenced(4, 3)),
        ] {
            assert_eq!(before.after(&LimitWrite { limit: written, seen, ..LimitWrite::default() }), after, "{case}");
        }
        let older = LimitWrite { limit: limit(4, 50, 2, None), ..LimitWrite::default() };
        assert_eq!(limit(9, 100, 3, None).after(&older), limit(4, 50, 3, None), "an earlier end holds at once");
        for before in [limit(4, 100, 900, None), limit(4, 100, 900, Some(G))] {
            let recreated = StoredLimit { ledger: 8, ..limit(9, 100, 2, None) };
            let after = before.after(&LimitWrite { limit: recreated, ..LimitWrite::default() });
            assert_eq!(after, recreated, "another ledger");
        }
    }

    /// A refused write has read less of the ledger than the terms in the store.
    #[test]
    fn a_refused_write_leaves_the_window() {
        let before = StoredLimit { window_ms: 10, ..limit(9, 100, 3, None) };
        for (as_of, window_ms, units) in [(2, 10, 4), (3, 20, 4), (4, 20, 4)] {
            let limit = StoredLimit { window_ms: 20, ..limit(4, 100, as_of, None) };
            let after = before.after(&LimitWrite { limit, ..LimitWrite::default() });
            assert_eq!((after.window_ms, after.units), (window_ms, units), "{as_of}");
        }
    }

    #[test]
    fn units_hold_for_their_term_by_a_clock_that_may_step_back() {
        let limit = StoredLimit { from: Timestamp::from_ms(40), ..limit(9, 100, 1, None) };
        let units = [39, 40, 99, 100].map(|now| limit.units_at(Timestamp::from_ms(now)));
        let ages = [39, 40, 99, 100].map(|now| limit.view(ShownBudget::default(), Timestamp::from_ms(now)).age_ms);
        assert_eq!(ages, [None, Some(0), Some(59), None]);
        assert_eq!(units, [0, 9, 9, 0]);
        let older = StoredLimit { from: Timestamp::from_ms(20), as_of: 0, ..limit };
        let newer = StoredLimit { from: Timestamp::from_ms(50), ..older };
        for (write, from) in [(older, 40), (newer, 50)] {
            let after = limit.after(&LimitWrite { limit: write, ..LimitWrite::default() });
            assert_eq!((after.from, after.as_of), (Timestamp::from_ms(from), 1), "the later one of both");
        }
    }
}
