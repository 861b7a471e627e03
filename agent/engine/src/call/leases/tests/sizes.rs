//! Sizes of leases.

use tollgate_core::window::Estimate;

use super::*;

/// Makes calls at an interval for a minute. Returns the size of each lease.
fn sizes(rule: Rule, interval_ms: usize) -> Vec<u64> {
    let (mut world, mut sizes) = (World::new([rule]), Vec::new());
    for at_ms in (0..60_000).step_by(interval_ms) {
        world.now = world.now.max(START.plus_ms(at_ms));
        let charged = world.charged;
        let _ = world.check(&call());
        sizes.extend((world.charged - charged).checked_sub(1).filter(|units| *units > 0));
    }
    sizes
}

/// However the demand changes, 3% of the quota are left unspent in a sub-window at most.
#[test]
fn leases_are_a_small_part_of_the_quota() {
    for (quota, interval_ms, most) in
        [("6000/min", 5, 180), ("600/min", 70, 18), ("100/min", 1_000, 3), ("10000/d", 5, 300)]
    {
        let sizes = sizes(per_key(quota), interval_ms);
        let largest = sizes.iter().copied().max().unwrap_or_default();
        assert!(largest <= most && largest >= most * 2 / 3, "{quota}: {sizes:?}");
    }
}

/// A sub-window of a day is two hours long. Its lease is the demand of seconds, so a caller that changes its agent, or an agent that
/// restarts, leaves no more unspent.
#[test]
fn a_lease_of_a_long_window_is_the_demand_of_seconds() {
    for interval_ms in [10, 50] {
        let sizes = sizes(per_key("1000000/d"), interval_ms);
        let (largest, of_5_s) = (sizes.iter().copied().max().unwrap_or_default(), 5_000 / interval_ms as u64);
        assert!(largest <= of_5_s && largest >= of_5_s / 2, "each {interval_ms} ms: {sizes:?}");
    }
}

/// The store's count falls within a sub-window. An agent alone knows that it does, so it leases until the end of the sub-window.
#[test]
fn an_agent_alone_leases_near_the_quota() {
    let interpolated = |policy: &mut tollgate_core::rules::LimitPolicy| {
        policy.algorithm = Algorithm::SlidingWindow(Estimate::Interpolated);
    };
    let mut world = World::new([per_key("5600/min").with(interpolated)]);
    let mut late = 0;
    for at_ms in (0..120_000_u64).step_by(11) {
        world.now = world.now.max(START.plus_ms(at_ms));
        let requests = world.requests;
        assert!(world.check(&call()).allowed, "at {at_ms}");
        // The last second of a sub-window, but not its last 100 ms.
        if at_ms > 60_000 && (4_000..4_900).contains(&(at_ms % 5_000)) {
            late += world.requests - requests;
        }
    }
    assert!(late < 60, "{late} requests in the ends of 12 sub-windows");
}
