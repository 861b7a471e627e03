//! Random histories of calls, held equal to the pure state machines.
//!
//! They go through all that can happen to a counter: costs of any size, several counters in a call and one several times,
//! what is owed, rules that change quota, algorithm and window, agents with older rules, a clock that steps back a little
//! or far, and loss.

use std::collections::HashMap;
use std::sync::Arc;

use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use tollgate_common::algorithm::{Algorithm, Limit, State};
use tollgate_common::clock::Timestamp;
use tollgate_common::counter::CounterId;
use tollgate_common::rule::Generation;
use tollgate_common::window::{Estimate, Window};

use super::{HandClock, Loses};
use crate::enforce::{Take, TakeKind, Taken};
use crate::store::{Answers, StoreError};

pub(super) const ALGORITHMS: [Algorithm; 3] = [
    Algorithm::SlidingWindow(Estimate::Interpolated),
    Algorithm::SlidingWindow(Estimate::Conservative),
    Algorithm::SlidingLog,
];
const START_MS: u64 = 1_000_000_000_000;
const COUNTERS: u128 = 3;
/// Wide enough that nothing leaves in the real time a test takes.
const WINDOWS: [(u64, u32); 6] =
    [(60_000, 12), (60_000, 6), (30_000, 5), (10_000, 1), (300_000, 60), (20 * 24 * 3_600_000, 120)];
/// From small numbers to those at the end of what is exact.
const QUOTAS: [u64; 6] = [1, 9, 250, 10_000, 70_000_000_000, 1 << 52];

#[derive(Clone, Debug)]
enum Event {
    /// The clock moves on.
    Wait(u64),
    /// The clock steps back.
    StepBack(u64),
    /// A counter is lost.
    Lose(u128),
    /// A call.
    Call(Vec<Take>),
}

/// What a store is to do, in the plainest form.
#[derive(Default)]
struct Model {
    counters: HashMap<CounterId, (State, Generation, Limit)>,
}

impl Model {
    fn take(&mut self, now: Timestamp, takes: &[Take]) -> Result<Answers, StoreError> {
        let late = |take: &Take| matches!(take.kind, TakeKind::Ask { expires_at } if expires_at < now);
        if takes.iter().any(late) {
            return Err(StoreError::Expired);
        }
        let judge = |take: &Take| {
            let fresh = || (State::new(&take.limit), take.generation, take.limit);
            let (state, generation, limit) = self.counters.entry(take.counter).or_insert_with(fresh);
            if take.generation >= *generation {
                (*generation, *limit) = (take.generation, take.limit);
                state.fit(limit);
            }
            let advanced = state.advance(now);
            let verdict = state.judge(limit, advanced.now, take.cost);
            Taken { verdict, charged: false, at: advanced.now, limit: limit.units, rebased: advanced.rebased }
        };
        let mut answers: Answers = takes.iter().map(judge).collect();
        let passes =
            |(take, taken): (&Take, &Taken)| taken.verdict.admitted || matches!(take.kind, TakeKind::Owed { .. });
        if takes.iter().zip(&answers).all(passes) {
            for (take, taken) in takes.iter().zip(&mut answers) {
                let at = match take.kind {
                    TakeKind::Ask { .. } => taken.at,
                    TakeKind::Owed { at } => at.min(taken.at),
                };
                self.counters.get_mut(&take.counter).expect("it was judged").0.charge(at, take.cost);
                taken.charged = true;
            }
        }
        Ok(answers)
    }
}

fn takes() -> impl Strategy<Value = Take> {
    let limit = (0..ALGORITHMS.len(), 0..WINDOWS.len(), 0..QUOTAS.len()).prop_map(|(algorithm, window, quota)| {
        let (width_ms, parts) = WINDOWS[window];
        let window = Window::new(width_ms, parts).expect("a window");
        Limit { algorithm: ALGORITHMS[algorithm], units: QUOTAS[quota], window }
    });
    // Mostly the first of each, so that a counter lives for a while before its rule changes.
    let limit = prop_oneof![4 => Just(None), 1 => limit.prop_map(Some)];
    (0..COUNTERS, limit, 0..4_u64, 0..1_200_u64, 0..120_000_u64, 0..10_u8).prop_map(
        |(counter, changed, generation, part, ago_ms, kind)| {
            let window = Window::new(60_000, 12).expect("a window");
            let which = usize::try_from(counter).expect("a few");
            let limit = changed.unwrap_or(Limit { algorithm: ALGORITHMS[which], units: QUOTAS[which + 1], window });
            // In thousandths of the quota, so now and then more than all of it.
            let cost = u64::try_from(u128::from(limit.units) * u128::from(part * part / 1_000) / 1_000).expect("small");
            let cost = if limit.algorithm == Algorithm::SlidingLog { cost.min(4_000) } else { cost };
            // Instants are relative to the clock until the call is made.
            let kind = match kind {
                0..7 => TakeKind::Ask { expires_at: Timestamp::from_ms(5) },
                7 => TakeKind::Ask { expires_at: Timestamp::from_ms(ago_ms % 3) },
                _ => TakeKind::Owed { at: Timestamp::from_ms(ago_ms) },
            };
            let generation = if changed.is_some() { generation } else { generation.min(1) };
            Take { counter: CounterId::from_u128(counter), limit, generation, cost, kind }
        },
    )
}

fn events() -> impl Strategy<Value = Event> {
    prop_oneof![
        // By whole sub-windows, so that things happen exactly W apart.
        5 => (0..13_u64).prop_map(|parts| Event::Wait(5_000 * parts)),
        3 => (0..20_000_u64).prop_map(Event::Wait),
        1 => (0..400_000_u64).prop_map(Event::Wait),
        1 => Just(Event::StepBack(1_000)),
        1 => (1..1_500_u64).prop_map(Event::StepBack),
        1 => (1_000..90_000_u64).prop_map(Event::StepBack),
        1 => (0..COUNTERS).prop_map(Event::Lose),
        12 => prop::collection::vec(takes(), 1..4).prop_map(Event::Call),
    ]
}

/// Makes the instants of a take absolute; a question with 1 ms less than none left is late.
fn at_time(take: &Take, now_ms: u64) -> Take {
    let kind = match take.kind {
        TakeKind::Ask { expires_at } => {
            TakeKind::Ask { expires_at: Timestamp::from_ms(now_ms - 1 + expires_at.as_ms()) }
        }
        TakeKind::Owed { at } => TakeKind::Owed { at: Timestamp::from_ms(now_ms + 2_000 - at.as_ms()) },
    };
    Take { kind, ..take.clone() }
}

pub(super) fn equal_the_pure_algorithm<S: Loses>(fresh: impl Fn(u64) -> (S, Arc<HandClock>)) {
    let mut runner = TestRunner::new(Config { cases: 256, failure_persistence: None, ..Config::default() });
    let run = runner.run(&prop::collection::vec(events(), 1..60), |history| {
        let (store, clock) = fresh(START_MS);
        let (mut model, mut ms) = (Model::default(), START_MS);
        for event in history {
            match event {
                Event::Wait(by_ms) => ms += by_ms,
                Event::StepBack(by_ms) => ms -= by_ms,
                Event::Lose(counter) => {
                    store.lose(CounterId::from_u128(counter));
                    model.counters.remove(&CounterId::from_u128(counter));
                }
                Event::Call(takes) => {
                    clock.set(ms);
                    let takes: Vec<Take> = takes.iter().map(|take| at_time(take, ms)).collect();
                    let answers = super::now(store.take(&takes));
                    prop_assert_eq!(answers, model.take(Timestamp::from_ms(ms), &takes), "{:?}", takes);
                }
            }
        }
        Ok(())
    });
    run.unwrap();
}
