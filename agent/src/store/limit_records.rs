//! The limits of a region in the memory of this process: floors by rule, and granted units by counter.
//!
//! [`StoredLimit::after`] decides what a write changes. A record stays after its units have ended: a writer that was suspended may come
//! with an older limit, or append a give-back while another process renews the grant.

use std::collections::HashMap;
use std::sync::Arc;

use foldhash::fast::RandomState;
use tollgate_core::algorithm::{Algorithm, Limit};
use tollgate_core::clock::Timestamp;
use tollgate_core::counter::{Charge, CounterId, StoreError};
use tollgate_core::regions::stored_limit::{LimitView, LimitWrite, ShownBudget, StoredLimit};

/// Maximum number of counters with a limit, and of rules with a floor. Past the cap, records that have ended are dropped; a further
/// one is refused, so that its counter has the floor only.
const RECORDS_MAX: usize = 100_000;

#[derive(Clone, Debug, Default)]
pub(super) struct LimitRecords {
    floors: HashMap<Arc<str>, StoredLimit, RandomState>,
    limits: HashMap<CounterId, (StoredLimit, ShownBudget), RandomState>,
}

impl LimitRecords {
    /// Returns the charges with the quotas in force at `now`, and the instants at which granted units end. `known` returns the limit of
    /// a counter and its generation.
    ///
    /// A charge by another window than that of the floor has no units. It follows the counter, because a counter that it converted to its
    /// window would forget units that still count.
    pub(super) fn budgeted(
        &self,
        charges: &[Charge],
        now: Timestamp,
        known: impl Fn(CounterId) -> Option<(Limit, u64)>,
    ) -> Vec<(Charge, Option<Timestamp>)> {
        let budgeted = |charge: &Charge| {
            let Some(rule) = &charge.budget else { return (charge.clone(), None) };
            let known = known(charge.counter);
            let newer = known.filter(|(_, generation)| *generation > charge.generation);
            let width_ms = newer.map_or(charge.limit.window, |(limit, _)| limit.window).width_ms();
            let floor = self.floors.get(rule);
            // The floor has the window of the terms. A limit that has ended may have that of earlier ones.
            let is_of_terms = floor.is_none_or(|floor| floor.window_ms == width_ms);
            let floor = floor.map_or(charge.limit.units, |floor| if is_of_terms { floor.units } else { 0 });
            let granted =
                self.limits.get(&charge.counter).map(|(limit, _)| limit).filter(|limit| limit.is_in_force(now));
            let granted = granted.filter(|limit| is_of_terms && limit.window_ms == width_ms);
            let units = floor.saturating_add(granted.map_or(0, |limit| limit.units));
            let is_other = |limit: Limit| {
                let is_window = matches!(limit.algorithm, Algorithm::SlidingWindow(_) | Algorithm::FixedWindow);
                is_window && limit.window.width_ms() != width_ms
            };
            let followed = known.filter(|(limit, _)| !is_of_terms && is_other(*limit));
            let (limit, generation) = followed.unwrap_or((charge.limit, charge.generation));
            let charge = Charge { limit: Limit { units, ..limit }, generation, ..charge.clone() };
            (charge, granted.map(|limit| limit.until))
        };
        charges.iter().map(budgeted).collect()
    }

    /// Writes the limit of a counter. Returns the limit in force, and the floor of its rule, which is 0 if none was written.
    pub(super) fn write_limit(
        &mut self,
        rule: &str,
        counter: CounterId,
        write: &LimitWrite,
        now: Timestamp,
    ) -> Result<(StoredLimit, u64), StoreError> {
        if self.limits.len() >= RECORDS_MAX && !self.limits.contains_key(&counter) {
            self.limits.retain(|_, (limit, _)| limit.fence.is_some() || now < limit.until);
            if self.limits.len() >= RECORDS_MAX {
                return Err(StoreError::Full);
            }
        }
        let (limit, shown) = self.limits.entry(counter).or_default();
        (*limit, *shown) = (limit.after(write), write.shown);
        Ok((*limit, self.floors.get(rule).map_or(0, |floor| floor.units)))
    }

    pub(super) fn view(&self, counter: CounterId, now: Timestamp) -> Option<LimitView> {
        self.limits.get(&counter).map(|(limit, shown)| limit.view(*shown, now))
    }

    /// Writes the floor of a rule. Returns the floor in force.
    pub(super) fn write_floor(&mut self, rule: &str, write: &LimitWrite) -> Result<StoredLimit, StoreError> {
        if self.floors.len() >= RECORDS_MAX && !self.floors.contains_key(rule) {
            return Err(StoreError::Full);
        }
        let floor = self.floors.entry(rule.into()).or_default();
        *floor = floor.after(write);
        Ok(*floor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(until_ms: u64) -> LimitWrite {
        let until = Timestamp::from_ms(until_ms);
        LimitWrite {
            limit: StoredLimit { units: 5, until, as_of: 1, ..StoredLimit::default() },
            ..LimitWrite::default()
        }
    }

    /// capped: past the cap, limits that have ended make room; when none has, a further one is refused.
    #[test]
    fn it_never_holds_more_than_its_cap() {
        let mut records = LimitRecords::default();
        let mut put = |counter: usize, now_ms: u64| {
            let (counter, now) = (CounterId::from_u128(counter as u128), Timestamp::from_ms(now_ms));
            let answer = records.write_limit("rule", counter, &write(10_000), now).map(|(limit, _)| limit.units);
            (answer, records.limits.len())
        };
        assert!((0..RECORDS_MAX).all(|counter| put(counter, 1).0 == Ok(5)));
        assert_eq!(put(RECORDS_MAX, 9_999), (Err(StoreError::Full), RECORDS_MAX));
        assert_eq!(put(7, 9_999), (Ok(5), RECORDS_MAX), "a known counter has its place");
        assert_eq!(put(RECORDS_MAX, 10_000), (Ok(5), 1));
    }
}
