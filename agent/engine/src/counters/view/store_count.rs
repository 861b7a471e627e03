//! The count of one counter in the last answer of the store: while the store is away, no agent divides units that the store
//! had already admitted.

use tollgate_core::clock::Timestamp;

/// The count in the last answer of the store. It ends with the next answer, and when all its units have left the window or
/// the bucket.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct StoreCount {
    /// Units that the agent did not know as its own; all units of a bucket. They include the unspent leases of other agents.
    others: u64,
    /// Units that the agent has admitted since the answer.
    pub(super) since: u64,
    /// Instant from which all units of the answer have left.
    until: Timestamp,
    /// Quota by which the store answered, in units.
    pub(super) limit: u64,
    /// Time before that instant in which the units drain from a bucket, in ms; 0 for units of a window.
    drain_ms: u64,
}

/// The units of a [`StoreCount`] that have not left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CountedUnits {
    /// Units in the answer.
    pub(crate) units: u64,
    pub(crate) since: u64,
    /// Count to which these units belong.
    count: StoreCount,
}

impl StoreCount {
    /// Creates the count of an answer: `used` units in a window, of which the agent itself has admitted `own`.
    pub(super) fn of_window(used: u64, own: u64, until: Timestamp) -> Self {
        Self { others: used.saturating_sub(own), until, ..Self::default() }
    }

    /// Creates the count of an answer at `at`: `used` units in a bucket, which is empty at `until`.
    pub(super) fn of_bucket(used: u64, at: Timestamp, until: Timestamp) -> Self {
        Self { others: used, until, drain_ms: until.ms_since(at), ..Self::default() }
    }

    pub(super) fn rebase(&mut self, by_ms: u64) {
        self.until = self.until.minus_ms(by_ms);
    }

    /// Returns the units that have not left; nothing once all have. In a window, the agent's `own` units are known by
    /// sub-window, and those of others count until the last of them has left.
    pub(super) fn known(&self, own: u64, now: Timestamp) -> Option<CountedUnits> {
        let Self { others, since, until, drain_ms, .. } = *self;
        let left = || {
            if drain_ms == 0 {
                return others.saturating_add(own.saturating_sub(since));
            }
            let left = u128::from(others) * u128::from(until.ms_since(now).min(drain_ms));
            u64::try_from(left.div_ceil(u128::from(drain_ms))).unwrap_or(others)
        };
        (now < until).then(|| CountedUnits { units: left(), since, count: *self })
    }
}

impl CountedUnits {
    pub(crate) fn until(&self) -> Timestamp {
        self.count.until
    }

    /// Returns the instant from which so many units of the answer are left at most. Those of a window leave together.
    pub(crate) fn falls_to(&self, units: u64) -> Timestamp {
        let StoreCount { others, until, drain_ms, .. } = self.count;
        let before_ms = u128::from(drain_ms) * u128::from(units.min(others)) / u128::from(others.max(1));
        until.minus_ms(u64::try_from(before_ms).unwrap_or(drain_ms))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn at(ms: u64) -> Timestamp {
        Timestamp::from_ms(ms)
    }

    #[test]
    fn units_of_others_count_until_all_have_left_and_own_units_by_sub_window() {
        let mut count = StoreCount::of_window(70, 20, at(1_000));
        count.since = 5;
        // Own units in the window, and the instant; units of the answer.
        let cases = [(25, 0, Some(70)), (15, 500, Some(60)), (3, 999, Some(50)), (3, 1_000, None)];
        for (own, ms, units) in cases {
            let known = count.known(own, at(ms));
            assert_eq!(known.map(|known| known.units), units, "{own} at {ms}");
            assert!(known.is_none_or(|known| (known.since, known.falls_to(60)) == (5, at(1_000))));
        }
    }

    /// A5: the level of a bucket falls by the rate, whoever has admitted its units.
    #[test]
    fn units_of_a_bucket_drain_until_it_is_empty() {
        let count = StoreCount::of_bucket(70, at(1_000), at(8_000));
        for (ms, units) in [(900, Some(70)), (1_000, Some(70)), (1_050, Some(70)), (4_500, Some(35)), (8_000, None)] {
            assert_eq!(count.known(20, at(ms)).map(|known| known.units), units, "at {ms}");
        }
        let known = count.known(0, at(1_000)).expect("units are left");
        for units in [1, 35, 69] {
            let then = known.falls_to(units);
            let left = |at| count.known(0, at).map(|known| known.units);
            assert_eq!((left(then), left(then.minus_ms(1)) > Some(units)), (Some(units), true), "{units} at {then:?}");
        }
    }
}
