//! The cap on counters, and the life of a place.

use tollgate_core::algorithm::{Algorithm, Limit};
use tollgate_core::window::{Estimate, Window};

use super::shard::{PLACE_KEPT_MS, PLACE_KEPT_STEP_MS};
use super::*;

fn place(table: &AgentTable, number: u128, is_alone: bool, now: Timestamp) -> bool {
    let counter = CounterId::from_u128(number);
    table.lock([counter].into_iter()).place(counter, "rule", is_alone, now)
}

fn charge(counter: u128) -> Charge {
    let algorithm = Algorithm::SlidingWindow(Estimate::Conservative);
    let limit = Limit { algorithm, units: 9, window: Window::new(60_000, 12).unwrap(), burst: 0 };
    Charge::enforce(CounterId::from_u128(counter), limit, 1, 1, Timestamp::from_ms(u64::MAX))
}

/// Sweeps all shards.
fn sweep(table: &AgentTable, now: Timestamp) {
    for _ in 0..SHARDS {
        table.sweep(now, TimeBounds::exactly(now));
    }
}

/// capped: a counter with live counts keeps its place however many others come, and leaves once it is idle.
#[test]
fn a_counter_with_live_counts_is_never_evicted() {
    let table = AgentTable::new(640);
    let at = Timestamp::from_ms(1_000_000);
    let place = |number: u128, now| place(&table, number, false, now);
    let charge_at = |number, now| table.charge(&[charge(number)], now).unwrap()[0].verdict.remaining;
    let placed: Vec<u128> = (0..2_000).filter(|number| place(*number, at) && charge_at(*number, at) == 8).collect();
    assert_eq!(placed.len(), 640 / 5 * 4);
    let soon = at.plus_ms(1_000);
    assert!(!(2_000..4_000).any(|number| place(number, soon)), "no counter is idle");
    assert!(placed.iter().all(|number| charge_at(*number, soon) == 7));
    let later = at.plus_ms(200_000);
    sweep(&table, later);
    assert!(table.len() == 0 && place(5_000, later));
}

/// capped: a sweep between the match of a call and its charge leaves the counter to its rule.
#[test]
fn a_placed_counter_stays_until_its_call_has_been_charged() {
    let (table, at) = (AgentTable::new(640), Timestamp::from_ms(1_000_000));
    assert!(place(&table, 1, false, at));
    let held = || table.places.lock().rules();
    sweep(&table, at.plus_ms(PLACE_KEPT_MS - 1));
    assert_eq!(held(), 1);
    sweep(&table, at.plus_ms(PLACE_KEPT_MS + PLACE_KEPT_STEP_MS));
    assert_eq!(held(), 0);
}

/// capped: `counters_max` of one rule is what it says.
#[test]
fn a_rule_alone_fills_the_table_to_its_cap() {
    let (table, at) = (AgentTable::new(1_000), Timestamp::from_ms(1_000_000));
    assert_eq!((0..5_000).filter(|number| place(&table, *number, true, at)).count(), 1_000);
    assert_eq!(table.len(), 1_000);
}

/// capped: a flooded rule leaves places to the others.
#[test]
fn a_flooded_rule_leaves_a_fifth_of_the_table_to_the_others() {
    let (table, at) = (AgentTable::new(1_000), Timestamp::from_ms(1_000_000));
    assert_eq!((0..5_000).filter(|number| place(&table, *number, false, at)).count(), 800);
    let other = CounterId::from_u128(9_000);
    assert!(table.lock([other].into_iter()).place(other, "other", false, at));
}

/// capped: the memory of counters that were swept is free.
#[test]
fn a_swept_table_gives_its_memory_back() {
    let (table, at) = (AgentTable::new(100_000), Timestamp::from_ms(1_000_000));
    (0..100_000).for_each(|number| assert!(place(&table, number, true, at)));
    let kept: Vec<u128> = (0..100_000).step_by(1_000).collect();
    let later = at.plus_ms(PLACE_KEPT_MS * 2);
    assert!(kept.iter().all(|number| place(&table, *number, true, later)));
    sweep(&table, later);
    assert_eq!(table.len(), kept.len());
    assert!(kept.iter().all(|number| table.holds(CounterId::from_u128(*number))), "the others are still found");
    let capacity: usize = table.shards.iter().map(|shard| shard.0.lock().capacity()).sum();
    assert!(capacity < 64 * 256, "{capacity}");
}
