//! Lines of credit: drawn while an answer is awaited, restored, burned and handed back.

use super::*;
use crate::store_request::StoreRequest;

/// Units of all lines of a quota of 1000.
const EXCESS: usize = 50;

/// Requests of a burst: that of the call that waits, and those of the calls that are charged afterwards.
struct Burst {
    awaited: Option<StoreRequest>,
    deferred: Vec<StoreRequest>,
}

impl World {
    /// A rule of 1000 units, and an agent whose calls have brought it a line.
    fn with_line(change: impl FnOnce(Rule) -> Rule) -> Self {
        let rule = Rule::per("per-key", &["api_key"], "1000/min".parse().expect("a quota"));
        let mut world = Self::new([change(rule)]);
        for _ in 0..100 {
            world.now = world.now.plus_ms(5);
            assert!(world.check(&call()).allowed);
        }
        world
    }

    /// Makes calls at one instant until the second one would wait.
    fn burst(&mut self) -> Burst {
        let mut burst = Burst { awaited: None, deferred: Vec::new() };
        loop {
            match self.engine.begin(self.now, Operation::check(&call())) {
                Progress::Done(output) => assert_eq!(sole(output).by, Some(LocalAnswer::Lease)),
                Progress::Deferred(output, request) => {
                    let decision = sole(output);
                    assert!(decision.allowed, "{decision:?}");
                    assert_eq!((decision.source, decision.by), (Source::Local, Some(LocalAnswer::Allowance)));
                    burst.deferred.push(request);
                }
                Progress::NeedsStore(request) if burst.awaited.is_none() => burst.awaited = Some(request),
                Progress::NeedsStore(_) => return burst,
            }
        }
    }

    /// Executes the charges that were deferred, at the store.
    fn charge_afterwards(&mut self, requests: Vec<StoreRequest>) {
        for request in requests {
            let results = step(&mut self.store, request.charges(), store_time(self.now)).expect("in time");
            self.engine.late_answer(self.now, request, Ok(results));
        }
    }

    /// Lets another agent use all units that are left.
    fn fill(&mut self, charge: &Charge) {
        let mut charge = Charge { cost: 0, mode: charge.mode.without_lease(), ..charge.clone() };
        let results = step(&mut self.store, std::slice::from_ref(&charge), store_time(self.now)).expect("in time");
        charge.cost = results[0].verdict.remaining;
        assert!(step(&mut self.store, &[charge], store_time(self.now)).expect("in time")[0].charged);
    }

    fn line_units(&self) -> [u64; 2] {
        let metrics = self.engine.metrics().rules();
        let sum = |of: fn(&crate::RuleCounts) -> u64| metrics.iter().map(|(_, counts)| of(counts)).sum();
        [sum(|counts| counts.line_units_drawn.get()), sum(|counts| counts.line_units_burned.get())]
    }
}

/// C5: calls that would wait behind another one are admitted from the line. Only the store's answer restores it.
#[test]
fn a_line_serves_calls_that_would_wait_and_is_restored_by_answers() {
    let mut world = World::with_line(|rule| rule);
    let first = world.burst();
    assert_eq!((first.awaited.is_some(), first.deferred.len()), (true, EXCESS));
    assert_eq!(world.burst().deferred.len(), 0, "all units are drawn");
    world.now = world.now.plus_ms(1);
    world.charge_afterwards(first.deferred);
    assert_eq!(world.burst().deferred.len(), EXCESS);
    assert_eq!(world.line_units(), [2 * EXCESS as u64, 0]);
}

/// C5: a unit without room is burned. The agent then knows that the counter is full.
#[test]
fn a_charge_without_room_burns_its_units() {
    let mut world = World::with_line(|rule| rule);
    let burst = world.burst();
    world.fill(&burst.deferred[0].charges()[0]);
    world.now = world.now.plus_ms(1);
    world.charge_afterwards(burst.deferred);
    assert_eq!(world.line_units(), [EXCESS as u64; 2]);
    assert_eq!(world.check(&call()).by, Some(LocalAnswer::CachedDenial));
    assert!(!world.engine.has_unsynced(), "the store has answered");
}

/// C5: units of unknown fate stay deducted, and are backfilled.
#[test]
fn a_lost_answer_restores_nothing() {
    let mut world = World::with_line(|rule| rule);
    let Burst { mut deferred, .. } = world.burst();
    world.now = world.now.plus_ms(1);
    let lost = deferred.pop().expect("a request");
    world.engine.late_answer(world.now, lost, Err(StoreError::AnswerLost));
    assert!(world.engine.has_unsynced());
    world.charge_afterwards(deferred);
    let charges = world.engine.begin_backfill().0;
    assert_eq!(charges.iter().map(|charge| charge.cost).sum::<u64>(), 1);
}

/// C5: with the request for its next line, an agent hands back what is left of the one before.
#[test]
fn the_rest_of_a_line_is_handed_back_once() {
    let mut world = World::with_line(|rule| rule);
    let Burst { deferred, .. } = world.burst();
    world.now = world.now.plus_ms(1);
    let kept = deferred.into_iter().take(30).collect();
    world.charge_afterwards(kept);
    world.now = START.plus_ms(5_500);
    let handed_back = |request: &StoreRequest| -> u64 {
        let is_refund = |charge: &&Charge| matches!(charge.mode, ChargeMode::Refund { .. });
        request.charges().iter().filter(is_refund).map(|charge| charge.cost).sum()
    };
    let mut requests = Vec::new();
    for _ in 0..20 {
        world.now = world.now.plus_ms(20);
        if let Progress::NeedsStore(request) = world.engine.begin(world.now, Operation::check(&call())) {
            requests.push(handed_back(&request));
        }
    }
    assert_eq!((requests[0], requests.iter().sum::<u64>()), (30, 30));
}

/// The explanation of a call names the allowance while the answer to another call is awaited, and draws nothing.
#[test]
fn an_explanation_names_the_allowance() {
    let mut world = World::with_line(|rule| rule);
    let mut awaited = loop {
        match world.engine.begin(world.now, Operation::check(&call())) {
            Progress::NeedsStore(request) => break request,
            Progress::Done(output) => assert_eq!(sole(output).by, Some(LocalAnswer::Lease)),
            Progress::Deferred(output, _) => panic!("no answer is awaited: {output:?}"),
        }
    };
    let held = |world: &World| {
        let answers = world.engine.local_answers(world.now, &call());
        answers.into_iter().map(|(_, answer)| answer).collect::<Vec<_>>()
    };
    for _ in 0..3 {
        assert_eq!((held(&world), world.line_units()), (vec![LocalAnswer::Allowance], [0, 0]), "nothing is drawn");
    }
    assert!(matches!(world.engine.begin(world.now, Operation::check(&call())), Progress::Deferred(..)));
    let results = step(&mut world.store, awaited.charges(), store_time(world.now)).expect("in time");
    world.now = world.now.plus_ms(1);
    assert!(sole(world.engine.finish(world.now, &mut awaited, Ok(results))).allowed);
    assert!(!held(&world).contains(&LocalAnswer::Allowance), "no answer is awaited any more");
}

/// A caller at one agent has no excess, and neither has a rule without lines.
#[test]
fn nothing_is_drawn_where_no_line_is_granted_or_the_agent_knows_of_no_room() {
    type Change = fn(&mut LimitPolicy);
    let changes: [Change; 4] = [
        |policy| policy.set_consistency(tollgate_core::rules::Consistency::Strict),
        |policy| policy.leases = false,
        |policy| policy.max_excess_ppm = 0,
        |policy| policy.max_excess_ppm = 999,
    ];
    for (place, change) in changes.into_iter().enumerate() {
        let mut world = World::with_line(|rule| rule.with(change));
        assert_eq!(world.burst().deferred.len(), 0, "case {place}");
    }
    let mut world = World::with_line(|rule| rule);
    let admitted = (0..2_000).filter(|_| world.check(&call()).allowed).count();
    assert!(admitted <= 900, "{admitted} after 100 of 1,000");
    let progress = world.engine.begin(world.now, Operation::check(&call()));
    let Progress::Done(output) = progress else { panic!("a cached denial decides") };
    assert!(!sole(output).allowed);
}
