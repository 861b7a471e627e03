//! Random histories of requests, compared with the reference semantics.
//!
//! They contain all events of a counter: costs of any size, several counters in a call and one several times, backfills
//! and refunds, of a part and of the whole charge of a request, units that were lost and are entered again, repeated requests, rules that change quota, algorithm and
//! window, agents with older rules, a clock that steps back a little or far, and loss.

use std::collections::HashMap;
use std::sync::Arc;

use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use tollgate_core::algorithm::{Algorithm, LEVEL_MAX, Limit, Rate};
use tollgate_core::clock::Timestamp;
use tollgate_core::counter::{
    CallCorrection, Charge, ChargeMode, ChargeResult, ChargeResults, CounterId, HashSlotId, RequestId, StoredCounter,
    step, step_at_once,
};
use tollgate_core::window::{Estimate, Window};

use super::{Container, HandClock, Loses, REQUESTS};
use crate::store::StoreError;

/// Every algorithm, with its burst in hundredths of the quota; 0 for none.
pub(in crate::store) const KINDS: [(Algorithm, u64); 10] = [
    (Algorithm::SlidingWindow(Estimate::Interpolated), 0),
    (Algorithm::SlidingLog, 0),
    (Algorithm::TokenBucket, 100),
    (Algorithm::SlidingWindow(Estimate::Conservative), 0),
    (Algorithm::FixedWindow, 0),
    (Algorithm::LeakyBucket, 20),
    (Algorithm::SlidingWindow(Estimate::Interpolated), 120),
    (Algorithm::Concurrency, 0),
    (Algorithm::SlidingWindow(Estimate::Conservative), 150),
    // It drains more slowly than a window passes.
    (Algorithm::LeakyBucket, 300),
];
const START: Timestamp = Timestamp::from_ms(1_000_000_000_000);
const COUNTERS: u128 = 3;
/// Windows that are wide enough that nothing leaves in the real time of a test.
const WINDOWS: [(u64, u32); 6] =
    [(60_000, 12), (60_000, 6), (30_000, 5), (10_000, 1), (300_000, 60), (20 * 24 * 3_600_000, 120)];
/// Quotas from small numbers to the largest exact ones.
const QUOTAS: [u64; 6] = [1, 9, 250, 10_000, 70_000_000_000, 1 << 52];

#[derive(Clone, Debug)]
enum HistoryEvent {
    /// The clock moves on, or back.
    Pass(i64),
    Lose(u128),
    Call(Vec<PlannedCharge>),
}

/// A charge whose mode is made when the call is made, for an instant in ms after the clock's.
type PlannedCharge = (Charge, Mode, i64);
type Mode = fn(Timestamp) -> ChargeMode;

/// The expected store: [`step`] over a plain map.
#[derive(Clone, Default)]
struct Model {
    counters: HashMap<CounterId, StoredCounter>,
    /// Ids in place of those whose charges were refunded, which a store has forgotten.
    request_ids: HashMap<(CounterId, RequestId), RequestId>,
    request_ids_len: u128,
}

impl Model {
    fn charge(
        &mut self,
        container: Container,
        now: Timestamp,
        charges: &[Charge],
    ) -> Result<ChargeResults, StoreError> {
        let before = self.clone();
        let id_of = |charge: &Charge, id| *self.request_ids.get(&(charge.counter, id)).unwrap_or(&id);
        let with_id =
            |charge: &Charge| Charge { request: charge.request.map(|id| id_of(charge, id)), ..charge.clone() };
        let mut known: Vec<Charge> = charges.iter().map(with_id).collect();
        let is_in_slots = charges.iter().any(|charge| charge.slot != charges[0].slot);
        if container == Container::RemoteSlots && is_in_slots {
            for charge in &mut known {
                charge.mode = charge.mode.without_lease();
            }
        }
        let apply = if container == Container::InProcess { step_at_once } else { step };
        let results = apply(&mut self.counters, &known, now)?;
        if container == Container::RemoteSlots {
            *self = before;
            for place in self.charge_and_refund(now, &known, &results) {
                if let Some(id) = charges[place].request {
                    self.rename((charges[place].counter, id));
                }
            }
        }
        for (charge, _) in charges.iter().zip(&results).filter(|(_, result)| !result.repeated) {
            let forgotten = charge.refunds_whole().map(|id| (charge.counter, id));
            if let Some(renamed) = forgotten.filter(|forgotten| self.request_ids.contains_key(forgotten)) {
                self.rename(renamed);
            }
        }
        Ok(results)
    }

    /// Lets a request have an id that no counter knows.
    fn rename(&mut self, request: (CounterId, RequestId)) {
        self.request_ids_len += 1;
        self.request_ids.insert(request, RequestId::from_u128(1_000 + self.request_ids_len));
    }

    /// Applies what several slots do: each slot in which all charges have room charges them, and refunds them when it learns
    /// that another slot refused. Returns the places of the refunded charges.
    fn charge_and_refund(&mut self, now: Timestamp, charges: &[Charge], results: &ChargeResults) -> Vec<usize> {
        let refuses = |slot: HashSlotId| {
            let refused = |(charge, result): (&Charge, &ChargeResult)| {
                charge.slot == slot && charge.mode.is_enforced() && !result.verdict.admitted
            };
            charges.iter().zip(results).any(refused)
        };
        let expires_at = Timestamp::from_ms(u64::MAX);
        let (mut applied, mut refunds, mut places) = (charges.to_vec(), Vec::new(), Vec::new());
        for (place, (charge, result)) in applied.iter_mut().zip(results).enumerate() {
            if charge.mode.is_enforced() && !result.charged && !result.repeated && !refuses(charge.slot) {
                *charge = Charge { request: None, mode: ChargeMode::CountOnly { expires_at }, ..charge.clone() };
                places.push(place);
                refunds.push(Charge { mode: ChargeMode::Refund { at: result.at, whole: None }, ..charge.clone() });
            }
        }
        step(&mut self.counters, &applied, now).expect("nothing expires");
        for refund in &mut refunds {
            // A refund evaluates nothing, so it changes no limit.
            let limit = self.counters[&refund.counter].limit();
            *refund = Charge { limit, generation: 0, ..refund.clone() };
        }
        step(&mut self.counters, &refunds, now).expect("nothing expires");
        places
    }
}

/// Returns the number of histories; `TOLLGATE_HISTORIES` sets it.
pub(super) fn cases() -> u32 {
    std::env::var("TOLLGATE_HISTORIES").ok().and_then(|cases| cases.parse().ok()).unwrap_or(256)
}

pub(super) fn limit(kind: usize, units: u64, (width_ms, parts): (u64, u32)) -> Limit {
    let (algorithm, percent) = KINDS[kind];
    let parts = if algorithm == Algorithm::FixedWindow { 1 } else { parts };
    let window = Window::new(width_ms, parts).expect("a window");
    let burst = if percent == 0 { 0 } else { (units / 100 * percent + units % 100 * percent / 100).max(1) };
    Limit { algorithm, units, window, burst: burst.min(LEVEL_MAX / Rate::of(units, width_ms).ms) }
}

/// Returns the slot of a counter; the last two counters share one.
pub(in crate::store) fn slot_of(counter: CounterId) -> HashSlotId {
    HashSlotId::of(CounterId::from_u128(counter.as_u128().min(COUNTERS - 2)))
}

/// Generates a charge of a history in which the algorithms of the counters begin with this one.
fn charges(first: usize) -> impl Strategy<Value = PlannedCharge> {
    let limits = (0..KINDS.len(), 0..WINDOWS.len(), 0..QUOTAS.len())
        .prop_map(|(kind, window, quota)| limit(kind, QUOTAS[quota], WINDOWS[window]));
    // Mostly the first of each, so that a counter lives for a while before its rule changes.
    let changed = prop_oneof![4 => Just(None), 1 => limits.prop_map(Some)];
    let id = prop_oneof![6 => Just(None), 1 => (0..REQUESTS.len()).prop_map(|id| Some(REQUESTS[id]))];
    (0..COUNTERS, changed, 0..4_u64, 0..1_200_u64, 0..120_000_i64, 0..18_u8, id).prop_map(
        move |(counter, changed, generation, part, ago_ms, kind, id)| {
            let which = usize::try_from(counter).expect("a few");
            let limit = changed.unwrap_or(limit((first + which) % KINDS.len(), QUOTAS[which + 1], WINDOWS[0]));
            // In thousandths of the quota, so now and then more than all of it.
            let cost = u64::try_from(u128::from(limit.units) * u128::from(part * part / 1_000) / 1_000).expect("small");
            let is_log = matches!(limit.algorithm, Algorithm::SlidingLog | Algorithm::Concurrency);
            let cost = if is_log { cost.min(4_000) } else { cost };
            // An instant is an offset from the clock until the call is made; before 0, a charge has expired.
            let enforce: Mode = |expires_at| ChargeMode::Enforce { expires_at };
            let lease: Mode = |expires_at| ChargeMode::Lease { expires_at, units_max: 40, agents: 3 };
            let (mode, at): (Mode, i64) = match kind {
                0..4 => (enforce, 4),
                4..7 => (lease, 4),
                7 => (enforce, ago_ms % 3 - 1),
                8 => (|expires_at| ChargeMode::Evaluate { expires_at }, 4),
                9 => (|expires_at| ChargeMode::CountOnly { expires_at }, 4),
                10..12 => (|at| ChargeMode::Backfill { at }, 2_000 - ago_ms),
                // Sometimes units that were charged just now.
                12 => (|at| ChargeMode::Refund { at, whole: None }, 0),
                13 => (|at| ChargeMode::Refund { at, whole: None }, 2_000 - ago_ms),
                14 => (|at| ChargeMode::Refund { at, whole: Some(CallCorrection::Settlement) }, 0),
                15 => (|at| ChargeMode::Refund { at, whole: Some(CallCorrection::Release) }, 0),
                16 => (|_| ChargeMode::Reset, 0),
                _ => (|at| ChargeMode::Reopen { at }, 2_000 - ago_ms),
            };
            let id = match mode(START) {
                ChargeMode::Refund { whole: Some(kind), .. } => id.map(|id: RequestId| id.correction(kind)),
                ChargeMode::Reset => None,
                _ => id,
            };
            let generation = if changed.is_some() { generation } else { generation.min(1) };
            let counter = CounterId::from_u128(counter);
            let charge = Charge {
                counter,
                slot: slot_of(counter),
                request: id,
                limit,
                generation,
                cost,
                mode: mode(START),
                budget: None,
            };
            (charge, mode, at)
        },
    )
}

fn events(first: usize) -> impl Strategy<Value = HistoryEvent> {
    prop_oneof![
        // By whole sub-windows, so that things happen exactly W apart.
        5 => (0..13_i64).prop_map(|parts| HistoryEvent::Pass(5_000 * parts)),
        3 => (0..20_000_i64).prop_map(HistoryEvent::Pass),
        1 => (0..400_000_i64).prop_map(HistoryEvent::Pass),
        1 => Just(HistoryEvent::Pass(-1_000)),
        1 => (-1_500..0_i64).prop_map(HistoryEvent::Pass),
        1 => (-90_000..-1_000_i64).prop_map(HistoryEvent::Pass),
        1 => (0..COUNTERS).prop_map(HistoryEvent::Lose),
        12 => prop::collection::vec(charges(first), 1..4).prop_map(|charges| HistoryEvent::Call(charged_once(charges))),
    ]
}

/// Removes request ids where a request charges a counter twice, and gives all charges of a counter limits that differ
/// in quota and burst only.
fn charged_once(mut charges: Vec<PlannedCharge>) -> Vec<PlannedCharge> {
    for place in 1..charges.len() {
        let (earlier, later) = charges.split_at_mut(place);
        let charge = &mut later[0].0;
        if let Some((first, ..)) = earlier.iter().find(|(earlier, ..)| earlier.counter == charge.counter) {
            let units = charge.limit.units;
            let burst = first.limit.burst.min(LEVEL_MAX / Rate::of(units, first.limit.window.width_ms()).ms);
            (charge.limit, charge.generation) = (Limit { units, burst, ..first.limit }, first.generation);
            for (charge, ..) in &mut charges {
                charge.request = None;
            }
        }
    }
    charges
}

pub(super) fn equal_the_reference<S: Loses>(container: Container, fresh: impl Fn(u64) -> (S, Arc<HandClock>)) {
    let mut runner = TestRunner::new(Config { cases: cases(), failure_persistence: None, ..Config::default() });
    let histories = (0..KINDS.len()).prop_flat_map(|first| prop::collection::vec(events(first), 1..60));
    let outcome = runner.run(&histories, |history| {
        let (store, clock) = fresh(START.as_ms());
        let (mut model, mut ms) = (Model::default(), START.as_ms());
        for event in history {
            match event {
                HistoryEvent::Pass(by_ms) => ms = ms.saturating_add_signed(by_ms),
                HistoryEvent::Lose(counter) => {
                    store.lose(CounterId::from_u128(counter));
                    model.counters.remove(&CounterId::from_u128(counter));
                }
                HistoryEvent::Call(charges) => {
                    clock.set(ms);
                    let at = |offset| Timestamp::from_ms(ms.saturating_add_signed(offset));
                    let made =
                        charges.into_iter().map(|(charge, mode, offset)| Charge { mode: mode(at(offset)), ..charge });
                    let charges: Vec<Charge> = made.collect();
                    let mut results = super::now(store.charge(&charges));
                    let expected = model.charge(container, Timestamp::from_ms(ms), &charges);
                    for (result, expected) in results.iter_mut().flatten().zip(expected.iter().flatten()) {
                        // A store may convert a value in a step of its own.
                        if result.previous == result.at {
                            result.previous = expected.previous;
                        }
                    }
                    prop_assert_eq!(results, expected, "{:?}", charges);
                }
            }
        }
        Ok(())
    });
    outcome.unwrap();
}
