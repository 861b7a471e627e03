//! Cached denials beside leases.

use std::num::NonZeroU64;

use tollgate_core::algorithm::Algorithm;
use tollgate_core::rules::{CostTable, LimitPolicy};
use tollgate_core::window::Estimate;

use super::*;

/// B9: the call that takes the last units lets the agent deny the next one, without a question to the store.
#[test]
fn the_call_after_the_last_unit_does_not_ask_the_store() {
    let algorithms = [
        Algorithm::SlidingWindow(Estimate::Conservative),
        Algorithm::SlidingWindow(Estimate::Interpolated),
        Algorithm::FixedWindow,
    ];
    for algorithm in algorithms {
        let rule = per_key("5/min").with(|policy| (policy.algorithm, policy.leases) = (algorithm, false));
        let mut world = World::new([rule]);
        let decisions: Vec<_> = (0..8).map(|_| world.check(&call())).collect();
        let seen: Vec<_> = decisions.iter().map(|decision| (decision.allowed, decision.by)).collect();
        let cached = (false, Some(LocalAnswer::CachedDenial));
        let asked = (true, None);
        assert_eq!(seen, [asked, asked, asked, asked, asked, cached, cached, cached], "{algorithm:?}");
        assert_eq!(world.requests, 5, "{algorithm:?}");
        let status = decisions[5].status.as_ref().expect("a rule denies");
        assert!(status.remaining == 0 && status.retry_after_ms > 50_000, "{algorithm:?}: {status:?}");
    }
}

/// The call that takes the last unit is not denied, so the next denial ends when the store has room, and not after the
/// minimum time of a denial.
#[test]
fn the_denial_after_the_last_unit_is_not_held() {
    let rule = per_key("6000/min").with(|policy| {
        policy.algorithm = Algorithm::SlidingWindow(Estimate::Interpolated);
        policy.leases = false;
    });
    let mut world = World::new([rule]);
    assert!(world.check(&call().costing(6_000)).allowed);
    let wait_ms = |denied: &Decision| denied.status.as_ref().expect("a rule denies").retry_after_ms;
    // The units of the first sub-window leave one by one, fewer than the calls take.
    let call = call().costing(10);
    let first = world.check(&call);
    world.now = world.now.plus_ms(wait_ms(&first) + 50);
    let denied = loop {
        let decision = world.check(&call);
        if !decision.allowed {
            break decision;
        }
    };
    let asked = world.requests;
    assert!(denied.by == Some(LocalAnswer::CachedDenial) && (1..=20).contains(&wait_ms(&denied)), "{denied:?}");
    world.now = world.now.plus_ms(wait_ms(&denied));
    assert!(world.check(&call).allowed && world.requests == asked + 1);
}

/// A lease may hold the last units of the store. They are spent before the denial holds, and a smaller cost asks the store.
#[test]
fn leased_units_are_spent_before_the_denial() {
    let mut world = World::new([per_key("100/min")]);
    let decisions: Vec<_> = (0..110).map(|_| world.check(&call())).collect();
    assert_eq!(decisions.iter().filter(|decision| decision.allowed).count(), 100);
    let last = decisions.iter().rposition(|decision| decision.allowed).expect("an admission");
    assert_eq!(last, 99, "no call is denied before the last unit");
    let (cached, denied) = (Some(LocalAnswer::CachedDenial), &decisions[100..]);
    assert!(denied.iter().all(|decision| decision.by == cached), "{denied:?}");

    let mut world = World::new([per_key("10/min").with(|policy| policy.leases = false)]);
    assert!(world.check(&call().costing(8)).allowed);
    assert_eq!(world.check(&call().costing(8)).by, cached);
    assert!(world.check(&call().costing(2)).allowed, "it has room");
}

/// C7: after a denial, another call or a settlement takes units, and the denied call waits for longer. So the agent tells the new time.
#[test]
fn a_denied_call_is_told_of_units_that_others_took_since() {
    let by_smaller_call = |world: &mut World| assert!(world.check(&call()).allowed);
    let by_settlement = |world: &mut World| {
        let settlement = Operation::Settle { call: &call(), units: 1, decided: None };
        let Progress::NeedsStore(mut request) = world.engine.begin(world.now, settlement) else {
            panic!("it is charged")
        };
        let results = world.step(request.charges(), store_time(world.now));
        let _ = world.engine.finish(world.now, &mut request, Ok(results));
    };
    let by_exempt_caller = |world: &mut World| {
        let exempt = call().with("user", "vip").costing(4);
        let Progress::Deferred(_, request) = world.engine.begin(world.now, Operation::check(&exempt)) else {
            panic!("it waits for nothing")
        };
        let results = world.step(request.charges(), store_time(world.now));
        world.engine.late_answer(world.now, request, Ok(results));
    };
    let takers: [fn(&mut World); 3] = [by_smaller_call, by_settlement, by_exempt_caller];
    for (number, take) in takers.into_iter().enumerate() {
        let mut set = RuleSet::new(1, [per_key("10/min").with(|policy| policy.leases = false)]);
        set.lists.allow.push(vec![("user".into(), Pattern::parse("vip"))]);
        let mut world = World::with_set(set);
        for (at_ms, cost) in [(0, 2), (10_000, 6)] {
            world.now = START.plus_ms(at_ms);
            assert!(world.check(&call().costing(cost)).allowed);
        }
        world.now = START.plus_ms(20_000);
        let ask = |world: &mut World| world.check(&call().costing(4));
        let wait_ms = |denied: &Decision| denied.status.as_ref().expect("a rule denies").retry_after_ms;
        let before = ask(&mut world);
        take(&mut world);
        let after = ask(&mut world);
        assert!(!after.allowed && wait_ms(&after) > wait_ms(&before) + 5_000, "{number}: {before:?}\n{after:?}");
        world.now = world.now.plus_ms(wait_ms(&after));
        assert!(ask(&mut world).allowed);
    }
}

/// A late charge of a denied call is refunded where it cannot be a lease: the agent's own refund ends the denial.
#[test]
fn the_refund_of_a_late_charge_ends_the_denial_that_it_brought() {
    let mut world = World::new([per_key("1/min").with(|policy| policy.leases = false)]);
    let Progress::NeedsStore(mut late) = world.engine.begin(world.now, Operation::check(&call())) else {
        panic!("the store is asked")
    };
    let charged = step(&mut world.store, late.charges(), store_time(world.now)).expect("in time");
    assert!(!sole(world.engine.finish(world.now, &mut late, Err(StoreError::TimedOut))).allowed);
    world.engine.late_answer(world.now, late, Ok(charged));
    assert!(!world.check(&call()).allowed, "the unit is charged");
    let Progress::NeedsStore(mut refund) = world.engine.begin(world.now, Operation::Backfill(PrimaryIndex::ONLY))
    else {
        panic!("the unit is given back")
    };
    let refunded = step(&mut world.store, refund.charges(), store_time(world.now)).expect("in time");
    let _ = world.engine.finish(world.now, &mut refund, Ok(refunded));
    assert!(world.check(&call()).allowed);
}

/// DESIGN 6: the charge of a denied call becomes a lease, which ends the denial that a thread remembers of another call.
#[test]
fn a_lease_ends_the_denial_that_a_thread_remembers() {
    let mut world = World::new([per_key("1/min")]);
    let Progress::NeedsStore(mut late) = world.engine.begin(world.now, Operation::check(&call())) else {
        panic!("the store is asked")
    };
    let charged = step(&mut world.store, late.charges(), store_time(world.now)).expect("in time");
    assert!(!sole(world.engine.finish(world.now, &mut late, Err(StoreError::TimedOut))).allowed);
    let denied = (0..4).map(|_| world.check(&call())).map(|decision| (decision.allowed, decision.by));
    let cached = (false, Some(LocalAnswer::CachedDenial));
    assert_eq!(denied.collect::<Vec<_>>(), [(false, None), cached, cached, cached]);
    world.engine.late_answer(world.now, late, Ok(charged));
    let decision = world.check(&call());
    assert_eq!((decision.allowed, decision.by), (true, Some(LocalAnswer::Lease)));
}

/// B9, C7: a denial is checked each 250 ms where units may come back, and else once per sub-window.
#[test]
fn a_denial_is_checked_as_often_as_units_may_come_back() {
    let flat = |change: fn(&mut LimitPolicy)| {
        let mut rule = per_key("12/min").with(change);
        rule.cost = Some(1);
        rule
    };
    let by_endpoint = || {
        let mut rule = per_key("12/min");
        rule.costs = Some(("endpoint".into(), CostTable::default()));
        rule
    };
    let tiered = || {
        let mut rule = flat(|_| {});
        rule.by_tier = vec![("pro".into(), None)];
        rule
    };
    // Requests in the rest of a sub-window of 5 s, after the quota is used up in its first instant.
    let cases = [
        ("settlements", per_key("12/min"), StoreShape::Server, 20),
        ("costs of its own", flat(|_| {}), StoreShape::Server, 0),
        ("a table of costs", by_endpoint(), StoreShape::Server, 0),
        ("a fixed window", flat(|policy| policy.algorithm = Algorithm::FixedWindow), StoreShape::Server, 0),
        ("late refunds", flat(|policy| policy.leases = false), StoreShape::Server, 20),
        ("a log", flat(|policy| *policy = policy.counted_by(Algorithm::SlidingLog)), StoreShape::Server, 20),
        ("callers of several tiers", tiered(), StoreShape::Server, 20),
        ("tentative charges", flat(|_| {}), StoreShape::Slots, 20),
        ("units of regions", flat(|policy| policy.global_quota = NonZeroU64::new(12)), StoreShape::Server, 20),
    ];
    for (name, rule, charges, requests) in cases {
        let mut world = World::with_store_shape(RuleSet::new(1, [rule]), charges);
        while world.check(&call()).allowed {}
        let (asked, end) = (world.requests, START.plus_ms(4_990));
        while world.now < end {
            assert!(!world.check(&call()).allowed, "{name}");
            world.now = world.now.plus_ms(5);
        }
        let asked = world.requests - asked;
        assert!((requests..=requests + requests / 20).contains(&asked), "{name}: {asked}");
    }
}
