//! Units that were charged by settlements without the id of a decision.
//!
//! Nothing tells how many calls such settlements belong to, and a bucket refills by one quota in a window. So they charge a
//! counter with at most one quota in a window; otherwise, whoever may settle could lock a caller for any time. A counter is
//! forgotten past the cap, the oldest first.

use std::collections::{HashMap, VecDeque};

use tollgate_core::clock::Timestamp;
use tollgate_core::counter::CounterId;

const COUNTERS_LEN_MAX: usize = 65_536;

/// Units of settlements without an id, by counter.
#[derive(Debug, Default)]
pub(crate) struct UnnamedSettlements {
    charged: HashMap<CounterId, UnnamedUnits>,
    /// Counters with units, the oldest first.
    order: VecDeque<CounterId>,
}

/// Units of one counter since the first of them.
#[derive(Clone, Copy, Debug)]
struct UnnamedUnits {
    since: Timestamp,
    units: u64,
}

impl UnnamedSettlements {
    /// Returns the part of `units` that may still be charged in the window that began with the first of them, and counts it.
    pub(crate) fn take(
        &mut self,
        counter: CounterId,
        (quota, width_ms): (u64, u64),
        units: u64,
        now: Timestamp,
    ) -> u64 {
        let is_new = !self.charged.contains_key(&counter);
        let known = self.charged.entry(counter).or_insert(UnnamedUnits { since: now, units: 0 });
        if now.ms_since(known.since) >= width_ms {
            *known = UnnamedUnits { since: now, units: 0 };
        }
        let taken = units.min(quota.saturating_sub(known.units));
        known.units += taken;
        if is_new {
            self.order.push_back(counter);
            if self.order.len() > COUNTERS_LEN_MAX
                && let Some(oldest) = self.order.pop_front()
            {
                self.charged.remove(&oldest);
            }
        }
        taken
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn at(ms: u64) -> Timestamp {
        Timestamp::from_ms(ms)
    }

    #[test]
    fn one_quota_in_a_window_is_charged() {
        let (mut settlements, counter) = (UnnamedSettlements::default(), CounterId::from_u128(1));
        let mut take = |units, ms| settlements.take(counter, (10, 1_000), units, at(ms));
        assert_eq!((take(4, 5_000), take(4, 5_100), take(4, 5_999), take(1, 5_999)), (4, 4, 2, 0));
        assert_eq!((take(40, 6_000), take(1, 6_999), take(1, 7_000)), (10, 0, 1), "the next windows");
    }

    #[test]
    fn the_oldest_counter_is_forgotten_past_the_cap() {
        let mut settlements = UnnamedSettlements::default();
        let mut take = |counter| settlements.take(CounterId::from_u128(counter), (1, 1_000), 1, at(1));
        (0..=COUNTERS_LEN_MAX as u128).for_each(|counter| assert_eq!(take(counter), 1));
        assert_eq!((take(1), take(0)), (0, 1));
    }
}
