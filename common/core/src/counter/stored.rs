//! One stored counter: its state, the limit that it is evaluated against, and the requests that were charged on it.
//!
//! Every container of counters holds these records, and [`step`](super::step) is the only code that changes one; the Redis
//! store evaluates copies for its results. The arithmetic of the state is in [`algorithm`](crate::algorithm).

use std::collections::HashMap;

use foldhash::fast::RandomState;

use super::{Charge, ChargeMode, ChargeResult, RequestId};
use crate::algorithm::{Algorithm, CounterState, Limit, Verdict};
use crate::clock::Timestamp;
use crate::window::Estimate;

/// Maximum number of request ids of one counter. Past the cap the oldest quarter is dropped; a retry of one of those is
/// charged again.
const COUNTER_REQUESTS_MAX: usize = 10_000;
/// Number of request ids below which expired ones are not searched for.
const REQUESTS_SWEEP_LEN_MIN: usize = 256;

/// A counter as a container holds it.
#[derive(Clone, Debug)]
pub struct StoredCounter {
    state: CounterState,
    generation: u64,
    limit: Limit,
    /// Instant of the first step; time 0 until then, and once the state was re-based.
    born: Timestamp,
    requests: Option<Box<ChargedRequests>>,
}

/// Ids of the requests whose charges may still count, and the instants of their charges.
#[derive(Clone, Debug)]
struct ChargedRequests {
    charged_at: HashMap<RequestId, Timestamp, RandomState>,
    /// Number of ids at which expired ones are dropped.
    sweep_at_len: usize,
}

impl StoredCounter {
    /// Creates the unused counter that a charge refers to.
    #[must_use]
    pub fn new(charge: &Charge) -> Self {
        Self::of(CounterState::new(&charge.limit), charge.limit, charge.generation, Timestamp::default())
    }

    /// Returns the counter with this state, as a store holds it; the requests are in that store.
    #[must_use]
    pub fn of(state: CounterState, limit: Limit, generation: u64, born: Timestamp) -> Self {
        Self { state, generation, limit, born, requests: None }
    }

    /// Returns the state.
    #[must_use]
    pub fn state(&self) -> &CounterState {
        &self.state
    }

    /// Returns the limit of the newest generation.
    #[must_use]
    pub fn limit(&self) -> Limit {
        self.limit
    }

    /// Returns the instant of the first step; time 0 if the state was re-based.
    #[must_use]
    pub fn born(&self) -> Timestamp {
        self.born
    }

    /// Returns the newest generation.
    #[must_use]
    pub fn generation(&self) -> u64 {
        self.generation
    }

    /// Returns true if the counter holds nothing that a later step could see.
    #[must_use]
    pub fn is_idle_at(&self, now: Timestamp) -> bool {
        let expired = |requests: &ChargedRequests| {
            let lasts_ms = self.limit.lasts_ms();
            requests.charged_at.values().all(|at| has_expired(*at, lasts_ms, now))
        };
        self.state.is_idle_at(now) && self.requests.as_deref().is_none_or(expired)
    }

    /// Returns true if a store may drop the counter. One whose units were all refunded is kept for a window after its
    /// last step: agents take it for lost if it is gone while a charge that was acknowledged would still be in the
    /// window.
    #[must_use]
    pub fn may_be_dropped_at(&self, now: Timestamp) -> bool {
        has_expired(self.state.last(), self.limit.window.width_ms(), now) && self.is_idle_at(now)
    }

    /// Returns the units of the window that ends at `now`, at least: the largest number that the state allows for.
    #[doc(hidden)]
    #[must_use]
    pub fn used_at(&self, now: Timestamp) -> u64 {
        let algorithm = Algorithm::SlidingWindow(Estimate::Conservative);
        let limit = Limit { algorithm, units: u64::MAX, burst: 0, ..self.limit };
        let mut state = self.state.clone();
        state.fit(&limit);
        let now = state.advance(&limit, now);
        u64::MAX - state.evaluate(&limit, now, 0).remaining
    }

    /// Evaluates a charge before anything of its request is charged. A refund is applied at once, so its result and those
    /// of later charges show the counter after it.
    #[inline]
    pub fn evaluate(&mut self, charge: &Charge, now: Timestamp) -> ChargeResult {
        if charge.generation >= self.generation {
            if charge.limit != self.limit {
                self.state.fit(&charge.limit);
                self.limit = charge.limit;
            }
            self.generation = charge.generation;
        } else if charge.budget.is_some() && charge.limit.units != self.limit.units {
            // The store has put the quota in force into the charge, whatever the generation of its rules.
            self.limit.units = charge.limit.units;
            self.state.fit(&self.limit);
        }
        let last = self.state.last();
        let is_new = last == Timestamp::default();
        let now = self.state.advance(&self.limit, now);
        if is_new {
            self.born = now;
        } else if now < last {
            self.born = Timestamp::default();
        }
        let repeated = charge.request.is_some_and(|id| self.has_charged(id, now));
        if let (ChargeMode::Refund { at }, false) = (charge.mode, repeated) {
            self.state.refund(at, charge.cost);
        }
        let is_free = repeated || matches!(charge.mode, ChargeMode::Refund { .. } | ChargeMode::Reopen { .. });
        let verdict = self.state.evaluate(&self.limit, now, if is_free { 0 } else { charge.cost });
        let mut verdict = Verdict { admitted: verdict.admitted || repeated, ..verdict };
        let leased = match charge.mode {
            ChargeMode::Lease { units_max, agents, .. } if verdict.admitted && !repeated && self.limit.leases() => {
                let units = (verdict.remaining / u64::from(agents.max(1))).min(units_max.into());
                // What is left after the last call of this cost would be spent by none.
                let leased = units - units.checked_rem(charge.cost).unwrap_or(0);
                if agents <= 1 && leased < units_max.into() {
                    let mut after = self.state.clone();
                    after.charge(now, charge.cost.saturating_add(leased));
                    verdict.retry_at = after.evaluate(&self.limit, now, charge.cost).retry_at;
                }
                leased
            }
            _ => 0,
        };
        let (limit, previous) = (self.limit.units, if is_new { now } else { last });
        let born = if charge.limit.window == self.limit.window { self.born } else { Timestamp::default() };
        ChargeResult { verdict, charged: false, repeated, leased, at: now, limit, limit_until: None, born, previous }
    }

    /// Charges what was evaluated at `now`.
    #[inline]
    pub(super) fn commit(&mut self, charge: &Charge, result: &mut ChargeResult, now: Timestamp) {
        result.charged = true;
        if result.repeated {
            return;
        }
        match charge.mode {
            ChargeMode::Enforce { .. } | ChargeMode::CountOnly { .. } => self.state.charge(result.at, charge.cost),
            ChargeMode::Lease { .. } => self.state.charge(result.at, charge.cost.saturating_add(result.leased)),
            ChargeMode::Backfill { at } => self.state.charge(backfilled_at(at, now, result.at), charge.cost),
            ChargeMode::Reopen { at } => {
                let at = at.min(result.at);
                self.state.charge(at, charge.cost.saturating_sub(self.state.held_around(at)));
            }
            ChargeMode::Refund { .. } => {}
            ChargeMode::Evaluate { .. } => return,
        }
        if let Some(id) = charge.request {
            let requests = self.requests.get_or_insert_with(Box::default);
            requests.insert(id, result.at, self.limit.lasts_ms());
        }
    }

    fn has_charged(&self, id: RequestId, now: Timestamp) -> bool {
        let charged_at = self.requests.as_ref().and_then(|requests| requests.charged_at.get(&id));
        charged_at.is_some_and(|at| !has_expired(*at, self.limit.lasts_ms(), now))
    }
}

impl Default for ChargedRequests {
    fn default() -> Self {
        Self { charged_at: HashMap::default(), sweep_at_len: REQUESTS_SWEEP_LEN_MIN }
    }
}

impl ChargedRequests {
    fn insert(&mut self, id: RequestId, now: Timestamp, lasts_ms: u64) {
        if self.charged_at.len() >= self.sweep_at_len {
            let is_full = self.charged_at.len() >= COUNTER_REQUESTS_MAX;
            self.charged_at.retain(|_, at| !has_expired(*at, lasts_ms, now));
            if is_full {
                self.drop_oldest(COUNTER_REQUESTS_MAX / 4 * 3);
            }
            self.sweep_at_len = (2 * self.charged_at.len()).clamp(REQUESTS_SWEEP_LEN_MIN, COUNTER_REQUESTS_MAX);
        }
        self.charged_at.insert(id, now);
    }

    /// Drops the oldest ids until at most `len` are left. Many are dropped at a time, because the search visits all ids.
    fn drop_oldest(&mut self, len: usize) {
        let Some(excess @ 1..) = self.charged_at.len().checked_sub(len) else { return };
        let mut all: Vec<(Timestamp, RequestId)> = self.charged_at.iter().map(|(id, at)| (*at, *id)).collect();
        all.select_nth_unstable_by_key(excess - 1, |(at, _)| *at);
        for (_, id) in &all[..excess] {
            self.charged_at.remove(id);
        }
    }
}

/// Returns the time at which backfilled units count. A counter that ignores a small step back of the clock stands still, at
/// `last`: units that were admitted after the step are as old there as they are by the clock.
fn backfilled_at(at: Timestamp, now: Timestamp, last: Timestamp) -> Timestamp {
    if at <= now { at.plus_ms(last.ms_since(now)) } else { at.min(last) }
}

fn has_expired(charged_at: Timestamp, lasts_ms: u64, now: Timestamp) -> bool {
    charged_at.plus_ms(lasts_ms) <= now
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::counter::CounterId;
    use crate::window::Window;

    #[test]
    fn backfilled_units_are_as_old_on_a_counter_that_stands_still_as_by_the_clock() {
        // The time of the units, that of the clock and that of the counter; the time at which they count.
        let cases = [
            (900, 1_000, 1_000, 900),
            (1_100, 1_000, 1_000, 1_000),
            (900, 1_000, 1_700, 1_600),
            // From before the step.
            (1_500, 1_000, 1_700, 1_500),
            (1_800, 1_000, 1_700, 1_700),
        ];
        for (at, now, last, expected) in cases {
            let [at, now, last, expected] = [at, now, last, expected].map(Timestamp::from_ms);
            assert_eq!(backfilled_at(at, now, last), expected, "{at:?} {now:?} {last:?}");
        }
    }

    /// J2: a charge with a budget brings the quota in force, and an older generation of its rules changes nothing else.
    #[test]
    fn the_quota_of_a_budget_holds_whatever_the_generation() {
        let window = Window::new(60_000, 12).unwrap();
        let limit = Limit { algorithm: Algorithm::SlidingWindow(Estimate::Conservative), units: 9, window, burst: 0 };
        let newer = Charge::enforce(CounterId::from_u128(1), limit, 2, 1, Timestamp::from_ms(u64::MAX));
        let older_limit = Limit { units: 5, window: Window::new(30_000, 6).unwrap(), ..limit };
        let older = Charge { limit: older_limit, generation: 1, ..newer.clone() };
        let mut counter = StoredCounter::new(&newer);
        let mut limit_of = |charge: &Charge| {
            let units = counter.evaluate(charge, Timestamp::from_ms(1_000_000)).limit;
            assert_eq!((counter.limit().window, counter.generation()), (window, 2));
            units
        };
        assert_eq!((limit_of(&newer), limit_of(&older)), (9, 9));
        assert_eq!(limit_of(&Charge { budget: Some("rule".into()), ..older }), 5);
    }

    #[test]
    fn a_window_that_has_passed_in_part_is_counted_whole() {
        let window = Window::new(60_000, 12).unwrap();
        for algorithm in [
            Algorithm::SlidingWindow(Estimate::Conservative),
            Algorithm::SlidingWindow(Estimate::Interpolated),
            Algorithm::SlidingLog,
        ] {
            let limit = Limit { algorithm, units: 9, window, burst: 0 };
            let charge = Charge::enforce(CounterId::from_u128(1), limit, 1, 7, Timestamp::from_ms(u64::MAX));
            let mut counter = StoredCounter::new(&charge);
            let now = Timestamp::from_ms(6_000_000);
            let mut result = counter.evaluate(&charge, now);
            counter.commit(&charge, &mut result, now);
            let used = [0, 59_999, 70_000].map(|ms| counter.used_at(now.plus_ms(ms)));
            assert_eq!(used, [7, 7, 0], "{algorithm:?}");
        }
    }

    /// B8: a settlement that is repeated for longer than its call may count in the bucket gives its units back once.
    #[test]
    fn a_refund_of_a_bucket_is_made_once() {
        for algorithm in [Algorithm::TokenBucket, Algorithm::LeakyBucket] {
            let (window, at) = (Window::new(1_000, 1).unwrap(), |ms| Timestamp::from_ms(1_000_000 + ms));
            let limit = Limit { algorithm, units: 10, window, burst: 1_000 };
            let call = Charge::enforce(CounterId::from_u128(1), limit, 1, 500, Timestamp::from_ms(u64::MAX));
            let id = Some(RequestId::from_u128(7));
            let refund = Charge { mode: ChargeMode::Refund { at: at(0) }, request: id, ..call.clone() };
            let mut counter = StoredCounter::new(&call);
            let mut step = |charge: &Charge, ms| {
                let mut result = counter.evaluate(charge, at(ms));
                counter.commit(charge, &mut result, at(ms));
                (result.repeated, result.verdict.remaining)
            };
            assert_eq!(step(&call, 0), (false, 500));
            assert_eq!(step(&call, 0), (false, 0));
            assert_eq!(step(&refund, 1_100), (false, 511));
            for seconds in 2..91 {
                let (repeated, remaining) = step(&refund, 1_100 * seconds);
                assert!(repeated && remaining == (500 + 11 * seconds).min(1_000), "{algorithm:?}: {remaining}");
            }
            // The id is forgotten, and nothing of the call is left.
            assert_eq!(step(&call, 200_000).1, 500);
            assert_eq!(step(&refund, 200_000), (false, 500), "{algorithm:?}");
        }
    }

    #[test]
    fn a_counter_remembers_so_many_requests_and_drops_the_oldest() {
        let mut requests = ChargedRequests::default();
        for id in 0..30_000_u32 {
            requests.insert(RequestId::from_u128(id.into()), Timestamp::from_ms(u64::from(id) / 1_000), 60_000);
            assert!(requests.charged_at.len() <= COUNTER_REQUESTS_MAX);
        }
        let knows = |id: u128| requests.charged_at.contains_key(&RequestId::from_u128(id));
        assert!((22_500..30_000).all(knows), "the newest are known");
        assert!(!knows(0), "the oldest is dropped");
    }
}
