//! Judgement of a contender's decisions on the calls of one caller, by an exact list of its own admissions.

use tollgate_core::algorithm::{CounterState, Limit};
use tollgate_core::clock::Timestamp;
use tollgate_core::rules::Quota;
use tollgate_sim::figures::ratio;
use tollgate_sim::oracle::Oracle;

/// Decisions of a contender.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Tally {
    calls: u64,
    admitted: u64,
    /// Calls that were denied although the last minute had room.
    falsely_denied: u64,
    /// Calls that were admitted with the quota used up in the last minute.
    excess: u64,
    /// Most units in a minute that ends with an admission, and the quota.
    most: u64,
    quota: u64,
}

impl Tally {
    /// Decides calls and judges those from `measured_from` on. A call that a leaky bucket delays is judged at its turn.
    pub(super) fn of(calls: &[Timestamp], limit: &Limit, quota: Quota, measured_from: Timestamp) -> Self {
        let (mut state, mut oracle) = (CounterState::new(limit), Oracle::new(quota));
        let (mut tally, mut turn) = (Self { quota: quota.units(), ..Self::default() }, Timestamp::default());
        for at in calls {
            let verdict = state.step(limit, *at, 1);
            turn = turn.max(at.plus_ms(verdict.delay_ms));
            let is_wrong = if verdict.admitted { oracle.admit(turn, 1) } else { oracle.has_room(turn, 1) };
            if *at < measured_from {
                continue;
            }
            tally.calls += 1;
            if verdict.admitted {
                tally.admitted += 1;
                tally.excess += u64::from(is_wrong);
                tally.most = tally.most.max(oracle.units());
            } else {
                tally.falsely_denied += u64::from(is_wrong);
            }
        }
        tally
    }

    /// Adds the decisions on another caller with the same quota.
    pub(super) fn add(&mut self, other: Self) {
        self.calls += other.calls;
        self.admitted += other.admitted;
        self.falsely_denied += other.falsely_denied;
        self.excess += other.excess;
        self.most = self.most.max(other.most);
        self.quota = other.quota;
    }

    /// Returns the false denials in percent of the calls.
    pub(super) fn denied_percent(&self) -> f64 {
        100.0 * ratio(self.falsely_denied, self.calls)
    }

    /// Returns the admissions beyond the quota in percent of all.
    pub(super) fn excess_percent(&self) -> f64 {
        100.0 * ratio(self.excess, self.admitted)
    }

    /// Returns the units of the fullest minute in percent of the quota.
    pub(super) fn worst_percent(&self) -> f64 {
        100.0 * ratio(self.most, self.quota)
    }
}

#[cfg(test)]
mod tests {
    use tollgate_core::algorithm::Algorithm;
    use tollgate_core::rules::LimitPolicy;

    use super::*;

    #[test]
    fn decisions_are_judged_by_the_last_minute() {
        // Algorithm; seconds of the calls, of which two a minute are in the quota; false denials, excess and most units.
        type Case = (Algorithm, &'static [u64], [u64; 3]);
        let cases: [Case; 4] = [
            (Algorithm::SlidingLog, &[0, 1, 2, 61, 62], [0, 0, 2]),
            // Two before the edge at 60 s and two behind it.
            (Algorithm::FixedWindow, &[58, 59, 61, 62], [0, 2, 4]),
            // A burst of one, which 30 s refill.
            (Algorithm::TokenBucket, &[0, 1, 31], [1, 0, 2]),
            (Algorithm::LeakyBucket, &[0, 60], [0, 0, 1]),
        ];
        let quota: Quota = "2/min".parse().unwrap();
        for (algorithm, seconds, [falsely_denied, excess, most]) in cases {
            let limit = LimitPolicy::of(quota).counted_by(algorithm).limit();
            let calls: Vec<Timestamp> =
                seconds.iter().map(|second| Timestamp::from_ms(6_000_000 + second * 1_000)).collect();
            let tally = Tally::of(&calls, &limit, quota, Timestamp::default());
            let seen = [tally.falsely_denied, tally.excess, tally.most];
            assert_eq!(seen, [falsely_denied, excess, most], "{algorithm:?}");
            let later = Tally::of(&calls, &limit, quota, Timestamp::from_ms(u64::MAX));
            assert_eq!((later.calls, later.admitted), (0, 0), "before the measurement");
        }
    }

    /// A delayed call counts at its turn: two at once of a whole burst have turns half a minute apart.
    #[test]
    fn a_delayed_call_is_judged_at_its_turn() {
        let quota: Quota = "2/min".parse().unwrap();
        let mut limit = LimitPolicy::of(quota).counted_by(Algorithm::LeakyBucket).limit();
        limit.burst = 4;
        let calls = [Timestamp::from_ms(6_000_000); 4];
        let tally = Tally::of(&calls, &limit, quota, Timestamp::default());
        assert_eq!((tally.admitted, tally.excess, tally.most), (4, 0, 2));
    }
}
