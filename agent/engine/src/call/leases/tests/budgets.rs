//! Global rules: leases, cached denials and shown quotas follow the units that the region has been granted.

use tollgate_core::regions::RegionFloorRatio;
use tollgate_core::rules::Scope;

use super::*;
use crate::counters::ChargedCounter;

/// A fifth of the quota is the floor of the region.
fn global(generation: u64, quota: &str) -> RuleSet {
    let mut rule = per_key(quota);
    rule.scope = Scope::Global;
    let mut set = RuleSet::new(generation, [rule]);
    set.regions = vec![RegionFloorRatio { region: "eu".into(), floor_ppm: 200_000 }];
    set
}

fn limit(decision: &Decision) -> u64 {
    decision.status.as_ref().expect("a rule applies").limit
}

/// J2: a lease ends with the term of the granted units, and the agent shows the quota of the last answer.
#[test]
fn a_lease_ends_with_the_term_of_granted_units() {
    for (name, end_ms, at_ms, is_leased) in [
        ("before the end", 3_000, 2_990, true),
        ("the term may have ended", 3_000, 2_997, false),
        ("a term beyond the sub-window", 30_000, 4_990, true),
        ("the sub-window may have ended", 30_000, 4_997, false),
    ] {
        let mut world = World::with_set(global(1, "6000/min"));
        world.granted = (4_800, store_time(START.plus_ms(end_ms)));
        world.until_leased(&call());
        world.now = START.plus_ms(at_ms);
        let decision = world.engine.decide(world.now, &call(), Some, |_| None);
        let seen = decision.map(|decision| (decision.by, limit(&decision)));
        assert_eq!(seen, is_leased.then_some((Some(LocalAnswer::Lease), 6_000)), "{name}");
        world.now = START.plus_ms(end_ms);
        assert_eq!(limit(&world.check(&call())), 1_200, "{name}");
    }
}

/// J2: leases are as large as under a quota that is the whole budget. The demand is as large as the floor.
#[test]
fn the_size_of_a_lease_follows_the_budget() {
    let requests = |mut world: World| {
        world.granted = (48_000, store_time(START.plus_ms(600_000)));
        for at_ms in (0..60_000).step_by(5) {
            world.now = world.now.max(START.plus_ms(at_ms));
            assert!(world.check(&call()).allowed);
        }
        world.requests
    };
    assert_eq!(
        requests(World::with_set(global(1, "60000/min"))),
        requests(World::with_set(RuleSet::new(1, [per_key("60000/min")])))
    );
}

/// true-denial: units may come at any time, also for a cost above the floor.
#[test]
fn a_denial_of_a_global_rule_is_checked_within_250_ms() {
    for cost in [1, 50] {
        let mut world = World::with_set(global(1, "100/min"));
        assert!(world.check(&call().costing(20)).allowed);
        let denied = world.check(&call().costing(cost));
        // The first call has taken the last units, but only the denial of an equal cost is known already.
        assert_eq!((denied.allowed, denied.source, limit(&denied)), (false, Source::Store, 20));
        world.granted = (80, store_time(world.now.plus_ms(60_000)));
        let denied_at = world.now;
        world.now = denied_at.plus_ms(200);
        let cached = world.check(&call().costing(cost));
        assert_eq!((cached.allowed, cached.by, limit(&cached)), (false, Some(LocalAnswer::CachedDenial), 20));
        world.now = denied_at.plus_ms(250);
        let admitted = world.check(&call().costing(cost));
        assert_eq!((admitted.allowed, limit(&admitted)), (true, 100), "{cost}");
    }
    let mut world = World::with_set(global(1, "100/min"));
    world.granted = (80, store_time(START.plus_ms(60_000)));
    assert!(world.check(&call().costing(100)).allowed);
    let denied = [world.check(&call()), world.check(&call()), world.check(&call())];
    assert_eq!(denied.map(|denied| (denied.allowed, limit(&denied))), [(false, 100); 3], "also a repeated denial");
}

/// J2: a caller that waits as long as it is told is back when units have followed its calls.
#[test]
fn a_caller_is_told_to_wait_for_units_and_not_for_its_window() {
    for (granted, expected_ms) in [(0, 1_000..=1_000), (79, 1_000..=1_000), (80, 55_000..=65_000)] {
        let mut world = World::with_set(global(1, "100/min"));
        world.granted = (granted, store_time(START.plus_ms(60_000)));
        assert!(world.check(&call().costing(20 + granted)).allowed);
        for denied in [world.check(&call()), world.check(&call())] {
            let wait_ms = denied.status.expect("a rule applies").retry_after_ms;
            assert!(!denied.allowed && expected_ms.contains(&wait_ms), "{granted}: {wait_ms} ms");
        }
    }
}

/// J2: without the store, the floor is all that the agent admits.
#[test]
fn the_floor_is_the_quota_while_the_store_is_away() {
    let mut world = World::with_set(global(1, "100/min"));
    world.granted = (80, store_time(START.plus_ms(60_000)));
    assert_eq!(limit(&world.check(&call().costing(5))), 100);
    world.engine.lose_store();
    let admitted = (0..50).filter(|_| match world.engine.begin(world.now, Operation::check(&call())) {
        Progress::Done(output) => {
            let decision = sole(output);
            assert_eq!((decision.source, limit(&decision)), (Source::Fallback, 20));
            decision.allowed
        }
        progress => panic!("{progress:?}"),
    });
    assert_eq!(admitted.count(), 15, "the store has charged 5 units of the window");
}

/// J2: whoever gives the agent rules, its region's floors are in force, and its rows carry the whole quota.
#[test]
fn rules_are_enforced_as_the_region_does() {
    let world = World::with_set(global(1, "100/min"));
    let quotas = || {
        world.engine.with_rules(|rules| {
            let policy = rules.rules[0].policy.expect("a policy");
            let counter = ChargedCounter::new(CounterId::from_u128(1), 0, &policy);
            (rules.generation, policy.quota.units(), counter.quota)
        })
    };
    assert_eq!(quotas(), (1, 20, 100));
    assert_eq!(world.engine.set_rules(START, global(1, "100/min")), Ok(()), "the same rules");
    assert_eq!(world.engine.set_rules(START, global(1, "200/min")), Err(1));
    assert_eq!(world.engine.set_rules(START, global(2, "200/min")), Ok(()));
    assert_eq!(quotas(), (2, 40, 200));
}
