//! Estimates of the callers of a rule past the cap: how many there are, and which of them make many calls.
//!
//! Sources: `HyperLogLog` and the frequent items of Apache `DataSketches`. A caller that surely has made many calls gets sums of
//! its own from then on. Its earlier calls stay in the sums of the others, so no call is in two sums; the bound of the sketch
//! says how many they are at most.

use datasketches::common::NumStdDev;
use datasketches::frequencies::FrequentItemsSketch;
use datasketches::hll::{HllSketch, HllType};
use tollgate_core::counter::CounterId;

/// Binary logarithm of the registers for the number of callers. The error is 2.6% at 95%.
const REGISTERS_LOG2: u8 = 12;
/// Size of the map of frequent callers. The error is at most 0.2% of their calls.
const FREQUENT_LEN_MAX: usize = 2_048;
/// Number of calls from which a caller gets sums of its own.
const CALLS_MIN: u64 = 16;
/// Number of callers with sums of their own, after which four times as many calls are asked of further ones.
const STEP_LEN: u32 = 500;

/// Estimates of the callers of one rule in one minute.
#[derive(Clone, Debug)]
pub(super) struct CallerSketch {
    distinct: HllSketch,
    frequent: FrequentItemsSketch<u128>,
    /// Number of callers that got sums of their own.
    found: u32,
}

impl CallerSketch {
    /// Returns estimates that contain the callers with sums of their own.
    pub(super) fn new(callers: impl Iterator<Item = CounterId>) -> Option<Self> {
        let mut distinct = HllSketch::new(REGISTERS_LOG2, HllType::Hll8).ok()?;
        callers.for_each(|caller| distinct.update(caller.as_u128()));
        Some(Self { distinct, frequent: FrequentItemsSketch::new(FREQUENT_LEN_MAX).ok()?, found: 0 })
    }

    /// Adds calls of a caller without sums of its own. If it has made many calls, it shall get sums of its own: then returns the
    /// maximum number of its earlier calls.
    pub(super) fn add(&mut self, caller: CounterId, calls: u64) -> Option<u64> {
        self.distinct.update(caller.as_u128());
        let earlier_max = self.frequent.upper_bound(&caller.as_u128());
        self.add_calls(caller, calls);
        if self.frequent.lower_bound(&caller.as_u128()) < self.calls_min() {
            return None;
        }
        self.found += 1;
        Some(earlier_max)
    }

    /// Adds calls that are in the sums of the others.
    pub(super) fn add_calls(&mut self, caller: CounterId, calls: u64) {
        if calls > 0 {
            self.frequent.update_with_count(caller.as_u128(), calls);
        }
    }

    /// Returns the estimated number of callers, and its maximum error at 95%.
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "casts of floats saturate")]
    pub(super) fn callers(&self) -> (u64, u64) {
        let estimate = self.distinct.estimate();
        let (lower, upper) = (self.distinct.lower_bound(NumStdDev::Two), self.distinct.upper_bound(NumStdDev::Two));
        (estimate.round() as u64, (upper - estimate).max(estimate - lower).ceil() as u64)
    }

    /// Number of calls that the next caller needs for sums of its own. It grows, so that their number stays small.
    fn calls_min(&self) -> u64 {
        CALLS_MIN.checked_shl(2 * (self.found / STEP_LEN)).unwrap_or(u64::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(rng: &mut fastrand::Rng) -> CounterId {
        CounterId::from_u128(rng.u128(..))
    }

    /// The error holds for 95% of the estimates.
    #[test]
    fn the_number_of_callers_is_estimated_with_its_error() {
        let (mut rng, mut within) = (fastrand::Rng::with_seed(1), 0);
        for _ in 0..100 {
            let callers: u64 = rng.u64(100..50_000);
            let sketch = CallerSketch::new((0..callers).map(|_| id(&mut rng))).expect("a sketch");
            let (estimate, error) = sketch.callers();
            assert!(error * 100 <= 3 * estimate, "{error} of {estimate}");
            within += u64::from(estimate.abs_diff(callers) <= error);
        }
        assert!(within >= 93, "{within} of 100 estimates are within their error");
    }

    /// capped: each step of 500 callers asks for four times as many calls.
    #[test]
    fn a_caller_is_found_by_its_calls_and_few_others_are() {
        let mut rng = fastrand::Rng::with_seed(2);
        let mut sketch = CallerSketch::new(std::iter::empty()).expect("a sketch");
        let (busy, mut busy_calls, mut found_at) = (id(&mut rng), 0, None);
        for number in 0..200_000_u64 {
            assert_eq!(sketch.add(id(&mut rng), 1), None, "a caller of one call");
            if number % 100 == 0 && found_at.is_none() {
                found_at = sketch.add(busy, 5).map(|earlier_max| (busy_calls, earlier_max));
                busy_calls += 5;
            }
        }
        let (earlier, earlier_max) = found_at.expect("the busy caller is found");
        assert!((earlier..=earlier + 400).contains(&earlier_max), "{earlier_max} of {earlier} calls");
        let mut sketch = CallerSketch::new(std::iter::empty()).expect("a sketch");
        // Few enough for the map to hold them all.
        let mut found =
            |callers: u32, calls| (0..callers).filter(|_| sketch.add(id(&mut rng), calls).is_some()).count();
        assert_eq!((found(600, CALLS_MIN), found(600, 4 * CALLS_MIN)), (500, 500));
        assert_eq!((found(100, 4 * CALLS_MIN), found(100, 16 * CALLS_MIN)), (0, 100));
    }
}
