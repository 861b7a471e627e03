//! Random histories of charges with a budget and of writes of limits, compared with [`StoredLimit::after`] and the reference
//! step.

use std::collections::HashMap;
use std::sync::Arc;

use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use tollgate_core::algorithm::Limit;
use tollgate_core::clock::Timestamp;
use tollgate_core::counter::{Charge, ChargeMode, ChargeResult, CounterId, StoredCounter, step_at_once};
use tollgate_core::regions::EntryId;
use tollgate_core::regions::limit_store::LimitStore;
use tollgate_core::regions::stored_limit::{Fence, LimitAnswer, LimitWrite, StoredLimit};

use super::budgets::{COUNTER, RegionUnderTest, START_MS, WINDOW_MS, ask_global};
use super::{FOREVER, HandClock, histories};
use crate::store::ChargeStore;

#[derive(Clone, Debug)]
enum BudgetEvent {
    Pass(u64),
    Write(LimitWrite, u64),
    WriteFloor(LimitWrite),
    Charge { cost: u64, units_max: u32, generation: u64 },
}

#[derive(Default)]
struct BudgetModel {
    counters: HashMap<CounterId, StoredCounter>,
    limit: StoredLimit,
    floor: Option<StoredLimit>,
}

impl BudgetModel {
    fn write(&mut self, write: &LimitWrite, now_ms: u64) -> LimitAnswer {
        self.limit = self.limit.after(write);
        let counter = self.counters.get(&CounterId::from_u128(COUNTER));
        let used = counter.map_or(0, |counter| counter.used_at(Timestamp::from_ms(now_ms)));
        LimitAnswer { limit: self.limit, floor: self.floor.map_or(0, |floor| floor.units), used }
    }

    fn charge(&mut self, charge: &Charge, now_ms: u64) -> ChargeResult {
        let now = Timestamp::from_ms(now_ms);
        let is_of_terms = self.floor.is_none_or(|floor| floor.window_ms == WINDOW_MS);
        let floor = self.floor.map_or(charge.limit.units, |floor| if is_of_terms { floor.units } else { 0 });
        let granted =
            if is_of_terms && self.limit.window_ms == WINDOW_MS { self.limit } else { StoredLimit::default() };
        let units = floor.saturating_add(granted.units_at(now));
        let charge = Charge { limit: Limit { units, ..charge.limit }, ..charge.clone() };
        let results = step_at_once(&mut self.counters, &[charge], now).expect("a map has room");
        let limit_until = granted.is_in_force(now).then_some(granted.until);
        ChargeResult { limit_until: results[0].limit_until.into_iter().chain(limit_until).min(), ..results[0] }
    }
}

fn writes() -> impl Strategy<Value = LimitWrite> {
    let units = prop_oneof![0..30_u64, Just(1 << 50)];
    let entry = || (prop_oneof![Just(1), Just(u64::MAX), Just(u64::MAX - 1)], 1..3_u64);
    let entry = || entry().prop_map(|(writer, sequence)| EntryId { writer, sequence });
    let fence = (entry(), entry(), prop_oneof![Just(4), Just(u64::MAX)]);
    let fence = prop::option::of(fence.prop_map(|(id, grant, keeps)| Fence { id, grant, keeps }));
    let until = prop_oneof![0..200_000_u64, Just(1 << 40)];
    // The clock does not step back here: a later beginning has the same effect.
    let from = prop_oneof![2 => Just(0), 1 => 0..200_000_u64];
    let times =
        (from, until).prop_map(|(from_ms, until_ms)| [from_ms, until_ms].map(|ms| Timestamp::from_ms(START_MS + ms)));
    let ledger = prop_oneof![8 => Just(7_u64), 1 => Just(u64::MAX)];
    let entries = (0..4_u64, fence, prop::option::of(entry()));
    let window_ms = prop_oneof![8 => Just(WINDOW_MS), 1 => Just(WINDOW_MS / 2)];
    (units, times, window_ms, ledger, entries).prop_map(
        |(units, [from, until], window_ms, ledger, (as_of, fence, seen))| LimitWrite {
            limit: StoredLimit { units, from, until, window_ms, ledger, as_of, fence },
            seen,
            ..LimitWrite::default()
        },
    )
}

fn events() -> impl Strategy<Value = BudgetEvent> {
    prop_oneof![
        2 => (0..13_u64).prop_map(|parts| BudgetEvent::Pass(5_000 * parts)),
        1 => (0..20_000_u64).prop_map(BudgetEvent::Pass),
        4 => (writes(), 0..2_u64).prop_map(|(write, raised)| BudgetEvent::Write(write, raised)),
        1 => writes().prop_map(BudgetEvent::WriteFloor),
        4 => (0..6_u64, prop_oneof![Just(0), 0..20_u32], 1..3_u64)
            .prop_map(|(cost, units_max, generation)| BudgetEvent::Charge { cost, units_max, generation }),
    ]
}

/// J2: the store decides on each write as [`StoredLimit::after`], and on each charge as the reference with the quota in force.
pub(in crate::store) fn run_budget_histories<S: ChargeStore, L: LimitStore>(
    make: impl Fn(Arc<HandClock>) -> RegionUnderTest<S, L>,
) {
    let config = Config { cases: histories::cases(), failure_persistence: None, ..Config::default() };
    let outcome = TestRunner::new(config).run(&prop::collection::vec(events(), 1..60), |history| {
        let clock = Arc::new(HandClock::at(START_MS));
        let (region, mut model, mut now_ms) = (make(clock.clone()), BudgetModel::default(), START_MS);
        for event in history {
            match event {
                BudgetEvent::Pass(by_ms) => now_ms += by_ms,
                BudgetEvent::Write(write, newer_by) => {
                    clock.set(now_ms);
                    // Most writers have read as much as the one before, or a little more.
                    let as_of = (model.limit.as_of + newer_by).max(write.limit.as_of);
                    let limit =
                        StoredLimit { as_of: if newer_by > 0 { as_of } else { write.limit.as_of }, ..write.limit };
                    let write = LimitWrite { limit, ..write };
                    prop_assert_eq!(region.write(&write), model.write(&write, now_ms), "{:?}", write);
                }
                BudgetEvent::WriteFloor(write) => {
                    let floor = model.floor.unwrap_or_default().after(&write);
                    model.floor = Some(floor);
                    prop_assert_eq!(region.write_floor(&write), floor);
                }
                BudgetEvent::Charge { cost, units_max, generation } => {
                    clock.set(now_ms);
                    let mode = match units_max {
                        0 => ChargeMode::Enforce { expires_at: FOREVER },
                        units_max => ChargeMode::Lease { expires_at: FOREVER, units_max, agents: 1 },
                    };
                    let charge = Charge { cost, mode, generation, ..ask_global(COUNTER) };
                    prop_assert_eq!(region.charge(&charge), model.charge(&charge, now_ms), "{:?}", charge);
                }
            }
        }
        Ok(())
    });
    outcome.unwrap();
}
