//! Choice of the decisions that leave a line in the decision log, under a cap on lines per second.
//!
//! **End of a remembered caller.** The callers of a minute are forgotten when the clock shows another minute, earlier or
//! later. Past [`CALLERS_LEN_MAX`] callers, further ones are counted as skipped, so memory is bounded.

use std::hash::BuildHasher;

use foldhash::fast::RandomState;
use hashbrown::HashSet;
use parking_lot::Mutex;
use tollgate_core::clock::Timestamp;

use crate::report::metrics::Total;

/// Maximum number of callers of a minute that are remembered, over all rules.
const CALLERS_LEN_MAX: usize = 100_000;
/// Parts of an admission rate of 1.
pub const ADMISSIONS_ALL: u32 = 10_000;

/// Rates of the decision log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DecisionSampling {
    /// Denials that leave a line.
    pub denials: SampledDenials,
    /// Admitted calls that leave a line, in parts of [`ADMISSIONS_ALL`].
    pub admissions: u32,
    /// Maximum number of lines per second, over all rules.
    pub lines_per_second_max: u32,
}

/// Denials that leave a line. A call that only a rule in shadow would have denied is one of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SampledDenials {
    /// Each one.
    All,
    /// The first of each caller and rule in a minute.
    OncePerMinute,
}

/// Chooser of decisions.
#[derive(Debug)]
pub struct DecisionSampler {
    sampling: DecisionSampling,
    state: Mutex<SamplerState>,
    hasher: RandomState,
    skipped: Total,
}

#[derive(Debug, Default)]
struct SamplerState {
    second: u64,
    lines: u32,
    minute: u64,
    callers: HashSet<u64, RandomState>,
}

impl DecisionSampler {
    /// Creates a chooser with these rates.
    #[must_use]
    pub fn new(sampling: DecisionSampling) -> Self {
        Self { sampling, state: Mutex::default(), hasher: RandomState::default(), skipped: Total::default() }
    }

    /// Returns the number of decisions that each line of an admitted call stands for.
    #[must_use]
    pub fn one_of(&self) -> f64 {
        f64::from(ADMISSIONS_ALL) / f64::from(self.sampling.admissions.max(1))
    }

    /// Returns true if the admitted call of this number is one of the sample and finds room in its second.
    pub fn takes_admission(&self, now: Timestamp, call: u64) -> bool {
        // Multiplied by 2^64 / golden ratio, numbers in a row are spread evenly.
        let place = call.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
        (place * u64::from(ADMISSIONS_ALL)) >> 32 < self.sampling.admissions.into() && self.takes(now, None)
    }

    /// Returns true if a denial of this caller by this rule is to be kept and finds room in its second. The caller is only asked for
    /// if it matters.
    pub fn takes_denial(&self, now: Timestamp, rule: &str, caller: impl FnOnce() -> String) -> bool {
        match self.sampling.denials {
            SampledDenials::All => self.takes(now, None),
            SampledDenials::OncePerMinute => self.takes(now, Some(self.hasher.hash_one((rule, caller())))),
        }
    }

    /// Counts decisions that were taken and found no room further on.
    pub fn skip(&self) {
        self.skipped.add(1);
    }

    /// Returns the number of decisions that were to be kept and found no room.
    #[must_use]
    pub fn skipped(&self) -> u64 {
        self.skipped.get()
    }

    fn takes(&self, now: Timestamp, caller: Option<u64>) -> bool {
        let mut state = self.state.lock();
        if let Some(caller) = caller {
            let minute = now.as_ms() / 60_000;
            if state.minute != minute {
                (state.minute, state.callers) = (minute, HashSet::default());
            }
            if state.callers.contains(&caller) {
                return false;
            }
        }
        let second = now.as_ms() / 1_000;
        if state.second != second {
            (state.second, state.lines) = (second, 0);
        }
        let has_room = caller.is_none() || state.callers.len() < CALLERS_LEN_MAX;
        if state.lines >= self.sampling.lines_per_second_max || !has_room {
            self.skipped.add(1);
            return false;
        }
        state.lines += 1;
        state.callers.extend(caller);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Timestamp = Timestamp::from_ms(1_800_000_000_000);

    fn sampler(denials: SampledDenials, admissions: u32, lines_per_second_max: u32) -> DecisionSampler {
        DecisionSampler::new(DecisionSampling { denials, admissions, lines_per_second_max })
    }

    #[test]
    fn admissions_are_taken_at_their_rate() {
        for (admissions, one_of, taken) in
            [(0, 10_000.0, 0), (100, 100.0, 1_000), (3_000, 3.333, 30_000), (ADMISSIONS_ALL, 1.0, 100_000)]
        {
            let sampler = sampler(SampledDenials::All, admissions, u32::MAX);
            let found = (0..100_000).filter(|call| sampler.takes_admission(NOW, *call)).count();
            assert!(found.abs_diff(taken) <= taken / 50, "{found} at {admissions}");
            assert!((sampler.one_of() - one_of).abs() < 0.001, "{}", sampler.one_of());
        }
    }

    /// A flood fills the cap of its second. The next second has room again, whichever way the clock is set.
    #[test]
    fn lines_are_capped_by_second_and_the_rest_is_counted() {
        let sampler = sampler(SampledDenials::All, ADMISSIONS_ALL, 3);
        let take = |now: Timestamp| (0..10).filter(|_| sampler.takes_denial(now, "r", || "c".into())).count();
        assert_eq!((take(NOW), take(NOW.plus_ms(1_000)), take(NOW.minus_ms(1_000))), (3, 3, 3));
        assert!(!sampler.takes_admission(NOW.minus_ms(1_000), 1));
        assert_eq!(sampler.skipped(), 22);
    }

    #[test]
    fn one_denial_a_minute_of_each_caller_and_rule_is_taken() {
        let sampler = sampler(SampledDenials::OncePerMinute, 0, 4);
        let take = |now, rule, caller: &'static str| sampler.takes_denial(now, rule, || caller.into());
        let minute = |now: Timestamp| {
            let calls = [("r", "c"), ("r", "c"), ("s", "c"), ("r", "d"), ("r", "d")];
            calls.map(|(rule, caller)| take(now, rule, caller))
        };
        let expected = [true, false, true, true, false];
        assert_eq!((minute(NOW), minute(NOW.plus_ms(60_000)), minute(NOW)), (expected, expected, expected));
        // A caller without room is not remembered.
        assert!(take(NOW, "r", "e") && !take(NOW, "r", "f") && take(NOW.plus_ms(1_000), "r", "f"));
        assert_eq!(sampler.skipped(), 1);
    }

    #[test]
    fn callers_of_a_minute_are_capped() {
        let sampler = sampler(SampledDenials::OncePerMinute, 0, u32::MAX);
        let taken = (0..CALLERS_LEN_MAX + 7).filter(|n| sampler.takes_denial(NOW, "r", || n.to_string())).count();
        assert_eq!((taken, sampler.skipped()), (CALLERS_LEN_MAX, 7));
    }
}
