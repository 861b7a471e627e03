//! What every store must do, as a suite that each backend's tests run.

mod histories;
mod own_table;

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, Waker};

use tollgate_core::algorithm::{Algorithm, Limit};
use tollgate_core::clock::{Clock, Timestamp};
use tollgate_core::counter::{CounterId, RequestId, SlotId};
use tollgate_core::window::{Estimate, Window};

use super::{ChargeResults, ChargeStore, StoreError};
use tollgate_core::counter::{Charge, ChargeMode};

/// A clock that stands until it is set.
pub(super) struct HandClock(AtomicU64);

impl HandClock {
    pub(super) fn at(ms: u64) -> Self {
        Self(AtomicU64::new(ms))
    }

    pub(super) fn set(&self, ms: u64) {
        self.0.store(ms, Ordering::Relaxed);
    }
}

impl Clock for HandClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_ms(self.0.load(Ordering::Relaxed))
    }
}

const FOREVER: Timestamp = Timestamp::from_ms(u64::MAX);

fn limit(algorithm: Algorithm, units: u64) -> Limit {
    Limit { algorithm, units, window: Window::new(60_000, 12).expect("a window"), burst: 0 }
}

fn strict(units: u64) -> Limit {
    limit(Algorithm::SlidingWindow(Estimate::Conservative), units)
}

/// A question of 1 unit against so many a minute.
pub(super) fn ask(counter: u128, units: u64) -> Charge {
    Charge {
        counter: CounterId::from_u128(counter),
        slot: SlotId::of(CounterId::from_u128(counter)),
        request: None,
        limit: strict(units),
        generation: 1,
        cost: 1,
        mode: ChargeMode::Enforce { expires_at: FOREVER },
    }
}

/// A store that a test can make lose a counter, as an eviction or a failover would.
pub(super) trait Loses: ChargeStore {
    fn lose(&self, counter: CounterId);
}

#[cfg(feature = "redis")]
pub(super) use histories::{KINDS, slot_of};

/// The requests that histories speak of.
pub(super) const REQUESTS: [RequestId; 2] = [RequestId::from_u128(0), RequestId::from_u128(1)];

/// How a store leaves no question of a refused call charged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Refusal {
    /// None is charged until all have room.
    ChargesNothing,
    /// Each counter charges and gives back, which a meter remembers the time of.
    IsGivenBack,
}

/// Runs the suite; `make` gives a fresh store that goes by the clock.
pub(super) fn run<S: Loses>(refusal: Refusal, make: impl Fn(Arc<HandClock>) -> S) {
    let fresh = |ms: u64| {
        let clock = Arc::new(HandClock::at(ms));
        (make(clock.clone()), clock)
    };
    all_counters_of_a_call_or_none(&fresh(1_000_000).0);
    one_unit_left_is_given_once(fresh(1_000_000).0);
    a_question_read_too_late_charges_nothing(&fresh(1_000_000).0);
    what_is_owed_is_charged_in_any_case(&fresh(1_000_000).0);
    a_raise_opens_at_once_and_an_older_generation_is_judged_by_the_newer(&fresh(1_000_000).0);
    the_previous_window_is_weighed_by_what_is_left_of_it(fresh(60_000_000));
    a_whole_quota_passes_at_once_and_the_next_call_waits(&fresh(1_000_000).0);
    histories::equal_the_pure_algorithm(refusal, fresh);
}

fn now<T>(future: impl Future<Output = T>) -> T {
    let mut future = pin!(future);
    loop {
        if let Poll::Ready(value) = future.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            return value;
        }
        std::thread::yield_now();
    }
}

fn take<S: ChargeStore>(store: &S, takes: &[Charge]) -> ChargeResults {
    now(store.charge(takes)).expect("the store answers")
}

fn all_counters_of_a_call_or_none<S: ChargeStore>(store: &S) {
    let (wide, narrow) = (ask(1, 10), ask(2, 1));
    assert!(take(store, &[wide.clone(), narrow.clone()]).iter().all(|taken| taken.charged));
    let refused = take(store, &[wide.clone(), narrow]);
    assert_eq!(refused.iter().map(|taken| taken.verdict.admitted).collect::<Vec<_>>(), [true, false]);
    assert!(refused.iter().all(|taken| !taken.charged));
    assert_eq!(take(store, &[wide])[0].verdict.remaining, 8, "the refused call charged nothing");
}

/// B4: one unit left, many racing calls: one passes.
fn one_unit_left_is_given_once<S: ChargeStore>(store: S) {
    let store = Arc::new(store);
    let racers: Vec<_> = (0..4)
        .map(|_| {
            let store = store.clone();
            std::thread::spawn(move || (0..250).filter(|_| take(&*store, &[ask(1, 1)])[0].charged).count())
        })
        .collect();
    let passed: usize = racers.into_iter().map(|racer| racer.join().expect("a racer finishes")).sum();
    assert_eq!(passed, 1);
}

fn a_question_read_too_late_charges_nothing<S: ChargeStore>(store: &S) {
    let late = Charge { mode: ChargeMode::Enforce { expires_at: Timestamp::from_ms(999_999) }, ..ask(1, 1) };
    assert_eq!(now(store.charge(&[late])), Err(StoreError::Expired));
    assert!(take(store, &[ask(1, 1)])[0].charged);
}

fn what_is_owed_is_charged_in_any_case<S: ChargeStore>(store: &S) {
    let owed = |cost, ms| Charge { cost, mode: ChargeMode::Backfill { at: Timestamp::from_ms(ms) }, ..ask(1, 10) };
    assert!(take(store, &[owed(8, 960_000)])[0].charged);
    assert_eq!(take(store, &[ask(1, 10)])[0].verdict.remaining, 1);
    assert!(take(store, &[owed(30, 999_000)])[0].charged, "there is no room, and yet it happened");
    assert!(!take(store, &[ask(1, 10)])[0].charged);
}

fn a_raise_opens_at_once_and_an_older_generation_is_judged_by_the_newer<S: ChargeStore>(store: &S) {
    assert!(take(store, &[ask(1, 1)])[0].charged);
    assert!(!take(store, &[ask(1, 1)])[0].charged);
    let raised = Charge { generation: 2, ..ask(1, 3) };
    assert_eq!(take(store, &[raised])[0].verdict.remaining, 1, "what was spent is kept");
    let old = take(store, &[ask(1, 1)])[0];
    assert_eq!((old.charged, old.limit), (true, 3));
}

/// A9, A10: previous 60, current 0 at :43 reads 17; in finer parts it reads what they hold.
fn the_previous_window_is_weighed_by_what_is_left_of_it<S: ChargeStore>((store, clock): (S, Arc<HandClock>)) {
    let interpolated = |counter, parts, cost| {
        let window = Window::new(60_000, parts).expect("a window");
        let limit = Limit { algorithm: Algorithm::SlidingWindow(Estimate::Interpolated), units: 100, window, burst: 0 };
        Charge { limit, cost, ..ask(counter, 100) }
    };
    take(&store, &[interpolated(1, 1, 60), interpolated(2, 4, 60)]);
    clock.set(60_000_000 + 60_000 + 43_000);
    let left = take(&store, &[interpolated(1, 1, 0), interpolated(2, 4, 0)]);
    assert_eq!(left.iter().map(|taken| taken.verdict.remaining).collect::<Vec<_>>(), [100 - 17, 100]);
}

/// A12: up to L within W whatever their timing inside it.
fn a_whole_quota_passes_at_once_and_the_next_call_waits<S: ChargeStore>(store: &S) {
    for (counter, algorithm) in (0..).zip([
        Algorithm::SlidingWindow(Estimate::Interpolated),
        Algorithm::SlidingWindow(Estimate::Conservative),
        Algorithm::SlidingLog,
    ]) {
        let one = Charge { limit: limit(algorithm, 100), ..ask(counter, 100) };
        assert!((0..100).all(|_| take(store, std::slice::from_ref(&one))[0].charged));
        let refused = take(store, &[one])[0];
        assert!(!refused.charged && refused.verdict.retry_at >= Timestamp::from_ms(1_060_000), "{algorithm:?}");
    }
}
