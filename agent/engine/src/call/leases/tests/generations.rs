//! Leases of an agent that has older rules than the store's counter.

use tollgate_core::window::Window;

use super::*;

/// DESIGN 3, never-over: the store counts by the finer sub-windows of newer rules, which this agent has not received yet. It
/// spends each unit in the sub-window in which the store has charged it.
#[test]
fn leases_of_older_rules_end_with_the_sub_window_of_the_newer_ones() {
    let mut world = World::new([per_key("60000/min")]);
    let _ = world.check(&call());
    let (counter, limit) = world.store.iter().map(|(counter, stored)| (*counter, stored.limit())).next().expect("one");
    let newer = Limit { window: Window::new(60_000, 60).expect("a window"), ..limit };
    let charge = Charge::enforce(counter, newer, 2, 1, Timestamp::from_ms(u64::MAX));
    step(&mut world.store, &[charge], store_time(world.now)).expect("in time");
    let (mut second, mut free, mut leased) = (0, 0, 0);
    for _ in 0..4_000 {
        world.now = world.now.plus_ms(5);
        let before = world.charged;
        let decision = world.check(&call());
        assert!(decision.allowed, "{decision:?}");
        if decision.at.as_ms() / 1_000 != second {
            (second, free) = (decision.at.as_ms() / 1_000, 0);
        }
        free += world.charged - before;
        leased += u64::from(decision.by == Some(LocalAnswer::Lease));
        assert!(free > 0, "a unit of an earlier sub-window: {decision:?}");
        free -= 1;
    }
    assert!(leased > 3_000, "{leased}");
    assert_eq!(world.store[&counter].limit(), newer);
}
