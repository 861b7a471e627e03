//! Calls of which leases pay a part, while the answer about the other part is late or lost.

use tollgate_core::rules::OnFailure;

use super::*;
use crate::StepAnswers;

/// Returns a world with a lease for the key, beside a rule that admits late calls and one that denies them. These two have no leases,
/// so what the store charges late is refunded.
fn world() -> World {
    let rule = |name: &str, descriptor| {
        let rule = Rule::per(name, &[descriptor], "5/min".parse().expect("a quota"));
        rule.with(|policy| policy.leases = false)
    };
    let open = rule("open", "user").with(|policy| policy.on_failure = OnFailure::Open);
    let mut world = World::new([per_key("6000/min"), open, rule("strict", "tenant").strict()]);
    world.until_leased(&call());
    world
}

fn begin(world: &World, call: &Call<'_>) -> crate::StoreRequest {
    match world.engine.begin(world.now, Operation::check(call)) {
        Progress::NeedsStore(request) => request,
        progress => panic!("{progress:?}"),
    }
}

fn stranded(world: &World) -> u64 {
    world.engine.metrics().rules().iter().map(|(_, counts)| counts.lease_units_stranded.get()).sum()
}

/// Modes of the charges that the maintenance sends.
fn owed(world: &World) -> Vec<ChargeMode> {
    match world.engine.begin(world.now, Operation::Backfill(PrimaryIndex::ONLY)) {
        Progress::NeedsStore(request) => request.charges().iter().map(|charge| charge.mode).collect(),
        Progress::Done(_) | Progress::Deferred(..) => Vec::new(),
    }
}

/// C7: a late call is decided rule by rule: the lease pays for its counter, the open rule admits, and the strict one denies. After
/// a denial, the leased unit is in its lease again, and the charges that come late are refunded.
#[test]
fn a_late_call_is_decided_rule_by_rule() {
    let open = call().with("user", "u");
    for (call, is_allowed) in [(open.clone(), true), (open.with("tenant", "t"), false)] {
        let mut world = world();
        let mut request = begin(&world, &call);
        let asked = if is_allowed { 1 } else { 2 };
        assert_eq!(request.charges().len(), asked, "the lease pays for the key");
        let (sent, before) = (world.now, stranded(&world));
        world.now = sent.plus_ms(15);
        let decision = sole(world.engine.finish(world.now, &mut request, Err(StoreError::TimedOut)));
        assert_eq!((decision.allowed, decision.source), (is_allowed, Source::Fallback), "{decision:?}");
        if !is_allowed {
            let status = decision.status.as_ref().expect("a rule denies");
            assert_eq!((&*status.rule, decision.by), ("strict", Some(LocalAnswer::Late)));
        }
        assert_eq!(stranded(&world), before, "the unit is spent, or in its lease again");
        let results = world.step(request.charges(), store_time(sent.plus_ms(WAY_MS)));
        assert!(results.iter().all(|result| result.charged));
        world.engine.late_answer(world.now, request, Ok(results));
        let owed = owed(&world);
        let refunds = owed.iter().filter(|mode| matches!(mode, ChargeMode::Refund { .. })).count();
        assert_eq!((refunds, owed.len()), if is_allowed { (0, 0) } else { (2, 2) });
    }
}

/// DESIGN 5: a step that is sent again asks about all counters, because the leases that paid may end before.
#[test]
fn a_step_that_is_sent_again_asks_about_all_counters() {
    for lost in [StoreError::AnswerLost, StoreError::Expired(store_time(START.plus_ms(700_000)))] {
        let mut world = world();
        let mut request = begin(&world, &call().with("user", "u"));
        let counter = request.charges()[0].counter;
        assert_eq!(request.charges().len(), 1, "the lease pays for the key");
        assert!(
            world
                .engine
                .renew(world.now.plus_ms(2), &mut request, &StepAnswers::from_iter([Some(Err(lost))]))
                .is_some(),
            "{lost}"
        );
        assert_eq!(request.charges().len(), 2, "{lost}");
        assert!(request.charges().iter().filter(|charge| charge.counter != counter).all(|charge| charge.cost == 1));
        let sent = store_time(world.now).max(match lost {
            StoreError::Expired(at) => at,
            _ => Timestamp::default(),
        });
        let results = world.step(request.charges(), sent);
        world.now = world.now.plus_ms(4);
        assert!(sole(world.engine.finish(world.now, &mut request, Ok(results))).allowed, "{lost}");
    }
}
