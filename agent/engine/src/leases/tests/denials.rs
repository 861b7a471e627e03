//! Cached denials beside leases.

use tollgate_core::algorithm::Algorithm;
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
