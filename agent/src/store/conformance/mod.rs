//! Conformance suite of the containers of counters: the stores and the engine's own table run it.
//!
//! [`histories`] compares random histories with the reference semantics, and [`budget_histories`] those of the limits of a
//! region.

mod histories;
mod budgets;
mod budget_windows;
mod budget_histories;
mod own_table;

use std::future::Future;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock};

use tokio::runtime::{Builder, Runtime};
use tollgate_core::algorithm::{Algorithm, Limit};
use tollgate_core::clock::{Clock, Timestamp};
use tollgate_core::counter::{CallCorrection, CounterId, RequestId};
use tollgate_core::window::{Estimate, Window};

use super::{ChargeResults, ChargeStore, StoreError};
use tollgate_core::counter::{Charge, ChargeMode};

/// Clock that stands until it is set.
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

/// Enforced charge of 1 unit against so many per minute.
pub(super) fn ask(counter: u128, units: u64) -> Charge {
    let limit = limit(Algorithm::SlidingWindow(Estimate::Conservative), units);
    Charge::enforce(CounterId::from_u128(counter), limit, 1, 1, FOREVER)
}

/// Store that can lose a counter, as in an eviction or a failover.
pub(super) trait Loses: ChargeStore {
    fn lose(&self, counter: CounterId);
}

pub(super) use budget_histories::run_budget_histories;
pub(super) use budgets::{RegionUnderTest, run_budgets};
#[cfg(feature = "redis")]
pub(super) use histories::{KINDS, slot_of};

pub(super) const REQUESTS: [RequestId; 2] = [RequestId::from_u128(0), RequestId::from_u128(1)];

/// Returns the requests of the tests, and their corrections.
#[cfg(feature = "redis")]
pub(super) fn known_requests() -> impl Iterator<Item = RequestId> {
    let corrections = [CallCorrection::Settlement, CallCorrection::Release];
    REQUESTS.into_iter().flat_map(move |id| corrections.map(|kind| id.correction(kind)).into_iter().chain([id]))
}

/// Kind of a container: where it is, and how it charges no enforced charge of a refused request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Container {
    /// In the process of its callers: no request expires, and no counter is charged until all have room.
    InProcess,
    /// A server that requests may reach late. No counter is charged until all have room.
    #[cfg(feature = "redis")]
    Remote,
    /// A server of several slots. Each slot charges and refunds, of which a meter keeps the time.
    RemoteSlots,
}

/// Runs the suite; `make` returns an empty store that goes by the clock.
pub(super) fn run<S: Loses>(container: Container, make: impl Fn(Arc<HandClock>) -> S) {
    let fresh = |ms: u64| {
        let clock = Arc::new(HandClock::at(ms));
        (make(clock.clone()), clock)
    };
    all_counters_of_a_call_or_none(&fresh(1_000_000).0);
    one_unit_left_is_given_once(fresh(1_000_000).0);
    a_late_request_charges_nothing_unless_it_never_left_the_process(container, &fresh(1_000_000).0);
    backfill_is_charged_in_any_case(&fresh(1_000_000).0);
    a_raised_limit_holds_at_once_and_also_for_an_older_generation(&fresh(1_000_000).0);
    the_previous_window_is_weighted(fresh(60_000_000));
    a_whole_quota_passes_at_once_and_the_next_call_waits(&fresh(1_000_000).0);
    a_retry_of_a_request_that_was_refunded_whole_is_charged_again(&fresh);
    a_reset_removes_all_units_but_slots(&fresh);
    no_unit_leaves_early_after_the_clock_stepped_back(&fresh);
    histories::equal_the_reference(container, fresh);
}

fn now<T>(future: impl Future<Output = T>) -> T {
    static RUNTIME: LazyLock<Runtime> =
        LazyLock::new(|| Builder::new_current_thread().enable_all().build().expect("a runtime"));
    RUNTIME.block_on(future)
}

fn charge<S: ChargeStore>(store: &S, charges: &[Charge]) -> ChargeResults {
    now(store.charge(charges)).expect("the store answers")
}

fn all_counters_of_a_call_or_none<S: ChargeStore>(store: &S) {
    let (wide, narrow) = (ask(1, 10), ask(2, 1));
    assert!(charge(store, &[wide.clone(), narrow.clone()]).iter().all(|result| result.charged));
    let refused = charge(store, &[wide.clone(), narrow]);
    assert_eq!(refused.iter().map(|result| result.verdict.admitted).collect::<Vec<_>>(), [true, false]);
    assert!(refused.iter().all(|result| !result.charged));
    assert_eq!(charge(store, &[wide])[0].verdict.remaining, 8, "the refused call charged nothing");
}

/// Calls on a counter of their own and a shared one of 4 units, in a container with room for 3 counters.
pub(super) fn no_call_is_free_at_the_cap<S: ChargeStore>(store: &S) {
    let call = |own: u128| now(store.charge(&[ask(own, 9), ask(1, 4)]));
    let admitted = [2, 3, 4, 2, 3, 4, 2, 3, 4].map(|own| call(own).is_ok_and(|r| r.iter().all(|r| r.charged)));
    assert_eq!(admitted, [true, true, false, true, true, false, false, false, false]);
    assert_eq!(charge(store, &[ask(2, 9)])[0].verdict.remaining, 6, "each admitted call is charged");
}

/// B4: one unit left, many racing calls: one passes.
fn one_unit_left_is_given_once<S: ChargeStore>(store: S) {
    let store = Arc::new(store);
    let racers: Vec<_> = (0..4)
        .map(|_| {
            let store = store.clone();
            std::thread::spawn(move || (0..250).filter(|_| charge(&*store, &[ask(1, 1)])[0].charged).count())
        })
        .collect();
    let passed: usize = racers.into_iter().map(|racer| racer.join().expect("a racer finishes")).sum();
    assert_eq!(passed, 1);
}

/// A thread of the process that was pre-empted between its plan and its charge is not late.
fn a_late_request_charges_nothing_unless_it_never_left_the_process<S: ChargeStore>(container: Container, store: &S) {
    let late = Charge { mode: ChargeMode::Enforce { expires_at: Timestamp::from_ms(999_999) }, ..ask(1, 1) };
    let answer = now(store.charge(&[late])).map(|results| results[0].charged);
    let in_process = container == Container::InProcess;
    assert_eq!(answer, if in_process { Ok(true) } else { Err(StoreError::Expired(Timestamp::from_ms(1_000_000))) });
    assert_eq!(charge(store, &[ask(1, 1)])[0].charged, !in_process);
}

fn backfill_is_charged_in_any_case<S: ChargeStore>(store: &S) {
    let backfill = |cost, ms| Charge { cost, mode: ChargeMode::Backfill { at: Timestamp::from_ms(ms) }, ..ask(1, 10) };
    assert!(charge(store, &[backfill(8, 960_000)])[0].charged);
    assert_eq!(charge(store, &[ask(1, 10)])[0].verdict.remaining, 1);
    assert!(charge(store, &[backfill(30, 999_000)])[0].charged, "there is no room, but the units were admitted");
    assert!(!charge(store, &[ask(1, 10)])[0].charged);
}

fn a_raised_limit_holds_at_once_and_also_for_an_older_generation<S: ChargeStore>(store: &S) {
    assert!(charge(store, &[ask(1, 1)])[0].charged);
    assert!(!charge(store, &[ask(1, 1)])[0].charged);
    let raised = Charge { generation: 2, ..ask(1, 3) };
    assert_eq!(charge(store, &[raised])[0].verdict.remaining, 1, "the count is kept");
    let old = charge(store, &[ask(1, 1)])[0];
    assert_eq!((old.charged, old.limit), (true, 3));
}

/// A9, A10: previous 60, current 0 at :43 reads 17; in finer parts it reads what they hold.
fn the_previous_window_is_weighted<S: ChargeStore>((store, clock): (S, Arc<HandClock>)) {
    let interpolated = |counter, parts, cost| {
        let window = Window::new(60_000, parts).expect("a window");
        let limit = Limit { algorithm: Algorithm::SlidingWindow(Estimate::Interpolated), units: 100, window, burst: 0 };
        Charge { limit, cost, ..ask(counter, 100) }
    };
    charge(&store, &[interpolated(1, 1, 60), interpolated(2, 4, 60)]);
    clock.set(60_000_000 + 60_000 + 43_000);
    let left = charge(&store, &[interpolated(1, 1, 0), interpolated(2, 4, 0)]);
    assert_eq!(left.iter().map(|result| result.verdict.remaining).collect::<Vec<_>>(), [100 - 17, 100]);
}

/// A12: up to L within W whatever their timing inside it.
fn a_whole_quota_passes_at_once_and_the_next_call_waits<S: ChargeStore>(store: &S) {
    for (counter, algorithm) in (0..).zip([
        Algorithm::SlidingWindow(Estimate::Interpolated),
        Algorithm::SlidingWindow(Estimate::Conservative),
        Algorithm::SlidingLog,
    ]) {
        let one = Charge { limit: limit(algorithm, 100), ..ask(counter, 100) };
        assert!((0..100).all(|_| charge(store, std::slice::from_ref(&one))[0].charged));
        let refused = charge(store, &[one])[0];
        assert!(!refused.charged && refused.verdict.retry_at >= Timestamp::from_ms(1_060_000), "{algorithm:?}");
    }
}

/// A retry of a request is free while a part of its charge stays, and is charged once nothing of it does. The refund is made
/// once: after the retry, a repetition of it gives nothing back, and makes no further retry chargeable.
fn a_retry_of_a_request_that_was_refunded_whole_is_charged_again<S: Loses>(
    fresh: &impl Fn(u64) -> (S, Arc<HandClock>),
) {
    const NOW: u64 = 1_000_000;
    let (store, clock) = fresh(NOW);
    for (number, kind) in (0..).zip(0..histories::KINDS.len()) {
        clock.set(NOW);
        let limit = histories::limit(kind, 100, (60_000, 12));
        let correction = if number % 2 == 0 { CallCorrection::Settlement } else { CallCorrection::Release };
        let step = |charge: &Charge| {
            let result = self::charge(&store, std::slice::from_ref(charge))[0];
            (result.repeated, limit.capacity() - result.verdict.remaining)
        };
        let of = |counter| {
            let call = Charge { limit, cost: 3, request: Some(REQUESTS[1]), ..ask(counter, 100) };
            let refund = |cost, whole| Charge {
                cost,
                request: Some(REQUESTS[1].correction(correction)),
                mode: ChargeMode::Refund { at: Timestamp::from_ms(NOW), whole },
                ..call.clone()
            };
            (call.clone(), refund(1, None), refund(3, Some(correction)))
        };
        let (call, part, _) = of(2 * number + 1);
        assert_eq!([step(&call), step(&call)], [(false, 3), (true, 3)], "{limit:?}");
        assert_eq!([step(&part), step(&call)], [(false, 2), (true, 2)], "{limit:?}: a part stays");
        let (call, _, whole) = of(2 * number + 2);
        assert_eq!(step(&call), (false, 3), "{limit:?}");
        clock.set(NOW + 1);
        assert_eq!([step(&whole), step(&whole)], [(false, 0), (true, 0)], "{limit:?}");
        assert_eq!([step(&call), step(&call)], [(false, 3), (true, 3)], "{limit:?}: a retry");
        assert_eq!([step(&whole), step(&call)], [(true, 3), (true, 3)], "{limit:?}: the refund is repeated late");
        if limit.algorithm == Algorithm::Concurrency {
            // By the answer to a repetition.
            let mode = ChargeMode::Refund { at: Timestamp::from_ms(NOW + 2), whole: Some(correction) };
            let whole = Charge { mode, ..whole };
            assert_eq!([step(&whole), step(&whole)], [(false, 0), (true, 0)], "the retry has a release of its own");
        }
    }
}

/// The counter stays that of before, so that agents do not take it for lost. A counter that is absent stays absent.
fn a_reset_removes_all_units_but_slots<S: Loses>(fresh: &impl Fn(u64) -> (S, Arc<HandClock>)) {
    const NOW: u64 = 1_000_000;
    let (store, clock) = fresh(NOW);
    for (counter, kind) in (1..).zip(0..histories::KINDS.len()) {
        let limit = histories::limit(kind, 100, (60_000, 12));
        let step = |ms, mode, cost| {
            clock.set(NOW + ms);
            let charge = Charge { limit, cost, mode, ..ask(counter, 100) };
            let result = self::charge(&store, &[charge])[0];
            (limit.capacity() - result.verdict.remaining, result.born.as_ms())
        };
        let (enforce, quarter) = (ask(counter, 100).mode, limit.capacity() / 4);
        assert_eq!(step(0, ChargeMode::Reset, 0), (0, NOW), "{limit:?}: absent");
        assert_eq!(step(1, enforce, quarter), (quarter, NOW + 1), "{limit:?}");
        let held = step(6_000, enforce, quarter).0;
        let left = if limit.algorithm == Algorithm::Concurrency { held } else { 0 };
        assert_eq!(step(6_001, ChargeMode::Reset, 0), (left, NOW + 1), "{limit:?}");
        assert_eq!(step(6_001, enforce, quarter), (left + quarter, NOW + 1), "{limit:?}");
        assert_eq!(step(6_002, ChargeMode::Reset, 0).0.min(left), left, "{limit:?}: a second time");
    }
}

/// never-over: all units of a quota, charged at the end of a sub-window; the next one begins, and the clock steps back
/// by 30.15 s, to the end of another one. There is room again once a window has passed since the charge, and at most a
/// sub-window later. An interpolated window begins to give room a sub-window earlier, a fixed window at its edge, and a
/// bucket at its rate.
fn no_unit_leaves_early_after_the_clock_stepped_back<S: ChargeStore>(fresh: &impl Fn(u64) -> (S, Arc<HandClock>)) {
    const EDGE_MS: u64 = 60_000_000;
    let (store, clock) = fresh(EDGE_MS);
    for (counter, kind) in (1..).zip(0..histories::KINDS.len()) {
        let limit = histories::limit(kind, 100, (60_000, 12));
        let all = Charge { limit, cost: limit.capacity(), ..ask(counter, 100) };
        clock.set(EDGE_MS - 1);
        assert!(charge(&store, std::slice::from_ref(&all))[0].charged, "{limit:?}");
        clock.set(EDGE_MS);
        assert_eq!(charge(&store, &[all])[0].charged, limit.algorithm == Algorithm::FixedWindow, "{limit:?}");
        clock.set(EDGE_MS - 30_150);
        let refused = charge(&store, &[Charge { limit, ..ask(counter, 100) }])[0];
        let room_ms = refused.verdict.retry_at.ms_since(refused.at);
        let expected = match limit.algorithm {
            Algorithm::SlidingWindow(Estimate::Interpolated) => 55_000..=65_000,
            Algorithm::FixedWindow => 30_150..=30_150,
            Algorithm::TokenBucket | Algorithm::LeakyBucket => 599..=599,
            _ => 59_999..=65_000,
        };
        assert!(!refused.charged && expected.contains(&room_ms), "{limit:?}: room after {room_ms} ms");
    }
}
