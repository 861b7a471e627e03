//! The count of one counter in the last answer of the store: while the store is away, no agent divides units that the store
//! had already admitted.

use tollgate_core::clock::Timestamp;

/// The count in the last answer of the store. It ends with the next answer, and when all its units have left the window.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct StoreCount {
    /// Units that the agent did not know as its own.
    others: u64,
    /// Units that the agent has admitted since the answer.
    pub(super) since: u64,
    /// Instant from which all units of the answer have left the window.
    until: Timestamp,
}

/// The units of a [`StoreCount`] that are still in the window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct KnownUnits {
    /// Units in the answer.
    pub(crate) units: u64,
    /// Units that the agent has admitted since the answer.
    pub(crate) since: u64,
    /// Instant from which none of the answer is left.
    pub(crate) until: Timestamp,
}

impl StoreCount {
    /// Creates the count of an answer: `used` units, of which the agent itself has admitted `own`.
    pub(super) fn new(used: u64, own: u64, until: Timestamp) -> Self {
        Self { others: used.saturating_sub(own), since: 0, until }
    }

    /// Follows a clock that stepped back by `by_ms`.
    pub(super) fn rebase(&mut self, by_ms: u64) {
        self.until = self.until.minus_ms(by_ms);
    }

    /// Returns the units that are still in the window, of which `own` are the agent's; nothing once all have left. Its own
    /// units are known by sub-window. Those of others count until the last of them has left.
    pub(super) fn known(&self, own: u64, now: Timestamp) -> Option<KnownUnits> {
        let Self { others, since, until } = *self;
        (now < until).then(|| KnownUnits { units: others.saturating_add(own.saturating_sub(since)), since, until })
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
        let mut count = StoreCount::new(70, 20, at(1_000));
        count.since = 5;
        // Own units in the window, and the instant; units of the answer.
        let cases = [(25, 0, Some(70)), (15, 500, Some(60)), (3, 999, Some(50)), (3, 1_000, None)];
        for (own, ms, units) in cases {
            let known = count.known(own, at(ms));
            assert_eq!(known.map(|known| known.units), units, "{own} at {ms}");
            assert!(known.is_none_or(|known| (known.since, known.until) == (5, at(1_000))));
        }
    }
}
