//! Leases against a store that steps as the reference does, in virtual time.

mod budgets;
mod denials;
mod generations;
mod late;
mod sizes;

use std::collections::HashMap;
use std::num::NonZeroU32;

use tollgate_core::algorithm::{Algorithm, Limit};
use tollgate_core::call::Call;
use tollgate_core::counter::{ChargeResults, CounterId, StoreError, StoredCounter, step};
use tollgate_core::decision::{Decision, LocalAnswer, Source};
use tollgate_core::rules::{Charging, Pattern, Rule, RuleSet};

use super::*;
use crate::engine_settings::{EngineSettings, StoreShape};
use crate::store::WitnessedLoss;
use crate::{Operation, Output, Progress};

/// Start of a sub-window of a minute and of a second.
const START: Timestamp = Timestamp::from_ms(1_800_000);
/// The store's clock is an hour ahead of the agent's.
const AHEAD_MS: u64 = 3_600_000;
/// Time of a request on its way, in each direction, in ms.
const WAY_MS: u64 = 1;

struct World {
    engine: Engine,
    store: HashMap<CounterId, StoredCounter>,
    now: Timestamp,
    /// Number of requests to the store, and units that it charged.
    requests: u64,
    charged: u64,
    /// Units that the region has been granted, and the end of their term in store time.
    granted: (u64, Timestamp),
}

impl World {
    fn new(rules: impl IntoIterator<Item = Rule>) -> Self {
        Self::with_set(RuleSet::new(1, rules))
    }

    fn with_set(rules: RuleSet) -> Self {
        Self::with_store_shape(rules, StoreShape::Server)
    }

    fn with_store_shape(rules: RuleSet, store: StoreShape) -> Self {
        let agents_expected = NonZeroU32::new(1);
        let settings = EngineSettings { agents_expected, store, ..EngineSettings::new("a", START) };
        let engine = Engine::new(EngineSettings { region: "eu".into(), ..settings }, rules);
        engine.note_store_time(START, START, store_time(START));
        let granted = (0, Timestamp::default());
        Self { engine, store: HashMap::new(), now: START, requests: 0, charged: 0, granted }
    }

    /// Runs a step of a store that knows the units that the region has been granted.
    fn step(&mut self, charges: &[Charge], at: Timestamp) -> ChargeResults {
        let (granted, until) = self.granted;
        let is_live = |charge: &Charge| charge.budget.is_some() && at < until;
        let mut budgeted = charges.to_vec();
        for charge in budgeted.iter_mut().filter(|charge| is_live(charge)) {
            charge.limit.units += granted;
        }
        let mut results = step(&mut self.store, &budgeted, at).expect("in time");
        for (_, result) in charges.iter().zip(&mut results).filter(|(charge, _)| is_live(charge)) {
            result.limit_until = Some(until);
        }
        results
    }

    /// Makes a call, by the fast way if it decides.
    fn check(&mut self, call: &Call<'_>) -> Decision {
        if let Some(decision) = self.engine.decide(self.now, call, Some, |_| None) {
            return decision;
        }
        let mut request = match self.engine.begin(self.now, Operation::check(call)) {
            Progress::Done(output) | Progress::Deferred(output, _) => return sole(output),
            Progress::NeedsStore(request) => request,
        };
        let results = self.step(request.charges(), store_time(self.now.plus_ms(WAY_MS)));
        self.requests += 1;
        for (charge, result) in request.charges().iter().zip(&results).filter(|(_, result)| result.charged) {
            self.charged += charge.cost + result.leased;
        }
        self.now = self.now.plus_ms(2 * WAY_MS);
        sole(self.engine.finish(self.now, &mut request, Ok(results)))
    }

    /// Makes calls at an interval until the demand is known and one is decided by a new lease.
    fn until_leased(&mut self, call: &Call<'_>) {
        let mut is_new = false;
        for number in 0..500 {
            self.now = self.now.plus_ms(5);
            let is_leased = self.check(call).by == Some(LocalAnswer::Lease);
            if number >= 100 && is_leased && is_new {
                return;
            }
            is_new = !is_leased;
        }
        panic!("nothing was leased");
    }
}

fn store_time(own: Timestamp) -> Timestamp {
    own.plus_ms(AHEAD_MS)
}

fn sole(output: Output) -> Decision {
    output.into_decisions().pop().expect("one decision")
}

fn per_key(quota: &str) -> Rule {
    Rule::per("per-key", &["api_key"], quota.parse().expect("a quota")).strict()
}

fn call() -> Call<'static> {
    Call::new().with("api_key", "k")
}

/// C4, C5: under steady demand most calls are admitted by leases, each in the sub-window in which the store charged it.
/// The store has charged all of them.
#[test]
fn most_calls_of_a_busy_caller_are_admitted_by_leases() {
    let mut world = World::new([per_key("6000/min")]);
    let (mut admitted, mut leased) = (0, 0);
    for at_ms in (0..120_000).step_by(20) {
        world.now = world.now.max(START.plus_ms(at_ms));
        let earliest = world.engine.store_time(world.now).earliest;
        let decision = world.check(&call());
        assert!(decision.allowed, "at {at_ms}: {decision:?}");
        admitted += 1;
        let is_leased = decision.by == Some(LocalAnswer::Lease);
        leased += u64::from(is_leased);
        assert_eq!(decision.source, if is_leased { Source::Local } else { Source::Store });
        assert!(decision.at >= earliest && world.charged >= admitted, "{decision:?}");
        assert_eq!(decision.at.as_ms() / 5_000, store_time(world.now).as_ms() / 5_000, "its sub-window");
    }
    let stranded: u64 =
        world.engine.metrics().rules().iter().map(|(_, counts)| counts.lease_units_stranded.get()).sum();
    println!("{admitted} calls, {leased} by leases, {} requests, {stranded} units stranded", world.requests);
    assert!(leased * 100 > admitted * 95, "{leased} of {admitted}");
    assert!(world.charged - admitted - stranded < 400, "the rest is the lease that lives");
}

/// Units that nobody spends count as stranded within 7 s of the end of their sub-window, also if their caller is gone.
#[test]
fn unspent_units_are_counted_soon_after_their_sub_window() {
    let mut world = World::new([per_key("6000/min")]);
    world.until_leased(&call());
    let stranded = |world: &World| {
        world.engine.metrics().rules().iter().map(|(_, counts)| counts.lease_units_stranded.get()).sum::<u64>()
    };
    let (end, before) = (START.plus_ms(5_000 * (world.now.ms_since(START) / 5_000 + 1)), stranded(&world));
    let mut tick_until = |end: Timestamp| {
        while world.now < end {
            world.now = world.now.plus_ms(100);
            world.engine.keep_house(world.now);
        }
        stranded(&world)
    };
    assert_eq!(tick_until(end.minus_ms(100)), before, "the lease lives");
    assert!(tick_until(end.plus_ms(7_000)) > before);
}

/// Name, event, and true if the lease lives after it.
type EndCase = (&'static str, Box<dyn Fn(&mut World)>, bool);

/// C5: however a lease ends, the next call asks the store.
#[test]
fn a_lease_ends_with_each_of_its_conditions() {
    let newer = |quota| RuleSet::new(2, [per_key(quota)]);
    let cases: Vec<EndCase> = vec![
        ("nothing", Box::new(|_| {}), true),
        ("just before its end", Box::new(|world| world.now = START.plus_ms(4_990)), true),
        ("the sub-window may have ended", Box::new(|world| world.now = START.plus_ms(4_997)), false),
        ("the process was suspended", Box::new(|world| world.now = world.now.plus_ms(60_000)), false),
        (
            "another generation",
            Box::new(move |world| world.engine.set_rules(world.now, newer("6000/min")).expect("newer")),
            false,
        ),
        (
            "a sample contradicts the time bounds",
            Box::new(|world| world.engine.note_store_time(world.now, world.now, store_time(world.now).plus_ms(40))),
            false,
        ),
        (
            "the store's clock steps back",
            Box::new(|world| {
                world.engine.note_store_time(world.now, world.now, store_time(world.now).minus_ms(30_000));
            }),
            false,
        ),
        (
            "the store lost its data",
            Box::new(|world| {
                let now = store_time(world.now);
                world
                    .engine
                    .store
                    .note_loss(PrimaryIndex::ONLY, WitnessedLoss { proven: now.minus_ms(1_000), noticed: now });
            }),
            false,
        ),
        (
            "the connection was lost",
            Box::new(|world| {
                let Progress::NeedsStore(mut request) =
                    world.engine.begin(world.now, Operation::check(&call().identified("id".to_owned())))
                else {
                    panic!("an id asks the store")
                };
                let _ = world.engine.finish(world.now, &mut request, Err(StoreError::AnswerLost));
            }),
            false,
        ),
    ];
    for (name, happens, still_leased) in cases {
        let mut world = World::new([per_key("6000/min")]);
        world.until_leased(&call());
        happens(&mut world);
        let is_leased = world.engine.decide(world.now, &call(), Some, |_| None).map(|decision| decision.by);
        let expected = still_leased.then_some(Some(LocalAnswer::Lease));
        assert_eq!(is_leased, expected, "{name}");
    }
}

/// DESIGN 5: a call takes its units out of the leases of its counters, and the store is asked about the others only.
#[test]
fn a_call_asks_the_store_only_about_counters_without_a_lease() {
    let per_user = Rule::per("per-user", &["user"], "6000/min".parse().expect("a quota")).strict();
    let mut world = World::new([per_key("6000/min"), per_user]);
    let both = call().with("user", "u");
    // Calls on which one rule counts bring the leases.
    world.until_leased(&Call::new().with("user", "u"));
    world.until_leased(&call());
    let decision = world.check(&both);
    assert_eq!((decision.allowed, decision.by), (true, Some(LocalAnswer::Lease)));
    let (requests, charged) = (world.requests, world.charged);
    let other = world.check(&call().with("user", "new"));
    assert!(other.allowed);
    assert_eq!((world.requests, world.charged), (requests + 1, charged + 1), "the user alone is charged");
    // A request id asks the store about both, and so does a request of several calls.
    let named = world.check(&both.clone().identified("id".to_owned()));
    assert_eq!((named.source, world.requests, world.charged), (Source::Store, requests + 2, charged + 3));
    let calls = [both.clone(), both.clone()];
    let several = Operation::Check { calls: &calls, scope: tollgate_core::rules::MatchScope::default() };
    let Progress::NeedsStore(several) = world.engine.begin(world.now, several) else { panic!("it asks the store") };
    assert_eq!(several.charges().len(), 2);
}

/// DESIGN 5: a lease pays a part of a cost, and the store is asked for the rest.
#[test]
fn a_lease_pays_a_part_of_a_cost() {
    let mut world = World::new([per_key("6000/min")]);
    world.until_leased(&call());
    let facts = |world: &World, units: u64| {
        let call = call().costing(units);
        match world.engine.begin(world.now, Operation::check(&call)) {
            Progress::Done(_) | Progress::Deferred(..) => None,
            Progress::NeedsStore(mut request) => {
                let asked = request.charges()[0].cost;
                // The caller leaves, and the store has not charged it: the units return.
                request.leave();
                world.engine.late_answer(world.now, request, Err(StoreError::Busy));
                Some(asked)
            }
        }
    };
    let asked = facts(&world, 1_000).expect("no lease is so large");
    assert!(asked < 1_000, "{asked}");
    assert_eq!(facts(&world, 1_000), Some(asked), "the units came back");
    assert_eq!(facts(&world, 1_001), Some(asked + 1));
}

/// Units of a denied call return to the lease that they come from, and to no other one.
#[test]
fn units_of_a_denied_call_return_to_their_lease() {
    let few = Rule::per("few", &["user"], "1/min".parse().expect("a quota")).strict();
    let mut world = World::new([per_key("6000/min"), few]);
    world.until_leased(&call());
    let both = call().with("user", "u");
    let _ = world.check(&both);
    let stranded = |world: &World| -> u64 {
        world.engine.metrics().rules().iter().map(|(_, counts)| counts.lease_units_stranded.get()).sum()
    };
    let begin = |world: &World| match world.engine.begin(world.now, Operation::check(&both)) {
        Progress::NeedsStore(request) => request,
        progress => panic!("{progress:?}"),
    };
    let finish = |world: &mut World, mut request: crate::StoreRequest| {
        let results = world.step(request.charges(), store_time(world.now));
        sole(world.engine.finish(world.now, &mut request, Ok(results)))
    };
    world.now = world.now.plus_ms(300);
    let (request, before) = (begin(&world), stranded(&world));
    assert_eq!(request.charges().len(), 1, "the lease pays for the key");
    assert!(!finish(&mut world, request).allowed);
    assert_eq!(stranded(&world), before, "the unit is in its lease again");
    world.now = world.now.plus_ms(300);
    let request = begin(&world);
    // Meanwhile the lease ends.
    world.engine.store.end_leases(PrimaryIndex::ONLY);
    assert!(!finish(&mut world, request).allowed);
    assert_eq!(stranded(&world), before + 1);
}

/// A lease is looked at before a denial of the store, which may be older: calls that were sent at the same time bring leases.
#[test]
fn a_lease_that_came_meanwhile_pays_for_a_denied_call() {
    let other = Rule::per("other", &["api_key"], "100000/d".parse().expect("a quota")).strict();
    for rules in [vec![per_key("6000/min")], vec![per_key("6000/min"), other]] {
        let mut world = World::new(rules);
        world.until_leased(&call());
        // A new sub-window.
        world.now = START.plus_ms(5_100);
        let requests: Vec<_> = (0..3)
            .map(|_| match world.engine.begin(world.now, Operation::check(&call())) {
                Progress::NeedsStore(request) => request,
                progress => panic!("{progress:?}"),
            })
            .collect();
        let at = store_time(world.now);
        let mut answers = vec![world.step(requests[0].charges(), at)];
        assert!(answers[0].iter().all(|result| result.leased > 1), "{answers:?}");
        // Others take the rest of the quota.
        let first = requests[1].charges()[0].clone();
        let rest = answers[0][0].verdict.remaining - answers[0][0].leased;
        assert!(world.step(&[Charge { cost: rest, ..first }], at)[0].charged);
        answers.extend(requests[1..].iter().map(|request| world.step(request.charges(), at)));
        assert!(answers[1..].iter().all(|results| !results[0].verdict.admitted));
        let taken: Vec<_> = requests
            .into_iter()
            .zip(answers)
            .map(|(mut request, results)| sole(world.engine.finish(world.now, &mut request, Ok(results))))
            .map(|decision| (decision.allowed, decision.by))
            .collect();
        let leased = (true, Some(LocalAnswer::Lease));
        assert_eq!(taken, [(true, None), leased, leased]);
    }
}

/// DESIGN 5: a call asks for the same number of calls on each of its counters, and for none beside a rule without leases.
#[test]
fn a_call_asks_for_leases_of_all_its_counters() {
    let other = |quota: &str| Rule::per("other", &["user"], quota.parse().expect("a quota")).strict();
    let both = call().with("user", "u");
    // The other rule, and true if both are leased.
    let cases = [
        (other("3000/min"), true),
        (other("100000/d"), true),
        (other("3000/min").with(|policy| policy.leases = false), false),
        (other("3000/min").with(|policy| policy.algorithm = tollgate_core::algorithm::Algorithm::SlidingLog), false),
    ];
    for (place, (other, leases)) in cases.into_iter().enumerate() {
        let mut world = World::new([per_key("6000/min"), other]);
        let mut leased = 0;
        for _ in 0..600 {
            world.now = world.now.plus_ms(20);
            leased += u64::from(world.check(&both).by == Some(LocalAnswer::Lease));
        }
        assert_eq!(leased > 500, leases, "case {place}: {leased} of 600 by leases");
        let unspent = world.charged - 2 * 600;
        assert!(leases || unspent == 0, "case {place}: {unspent}");
        assert!(unspent < 600, "case {place}: {unspent}");
    }
}

/// An exempt caller is never denied, and waits for nothing: each charge follows its decision.
#[test]
fn an_exempt_caller_never_waits_and_is_counted() {
    let mut set = RuleSet::new(1, [per_key("2/min"), Rule::per("user", &["user"], "5/h".parse().expect("a quota"))]);
    set.lists.allow.push(vec![("user".into(), Pattern::parse("vip"))]);
    let mut world = World::with_set(set);
    for number in 1..=9_u64 {
        let Progress::Deferred(output, request) =
            world.engine.begin(world.now, Operation::check(&call().with("user", "vip")))
        else {
            panic!("call {number} waits");
        };
        assert!(sole(output).allowed, "call {number}");
        let results = world.step(request.charges(), store_time(world.now));
        assert_eq!(results.iter().filter(|result| result.charged).count(), 2, "call {number}");
        world.engine.late_answer(world.now, request, Ok(results));
    }
    assert!(!world.check(&call()).allowed, "its calls count for others");
}

/// A rule in shadow neither denies a call nor makes it wait: its charge follows.
#[test]
fn a_rule_in_shadow_is_charged_after_the_decision() {
    let mut shadow = Rule::per("shade", &["user"], "2/min".parse().expect("a quota")).strict();
    shadow.shadow = true;
    let mut world = World::new([per_key("6000/min"), shadow]);
    world.until_leased(&call());
    let both = call().with("user", "u");
    for number in 1..=5_u64 {
        let Progress::Deferred(output, request) = world.engine.begin(world.now, Operation::check(&both)) else {
            panic!("the lease decides")
        };
        assert_eq!(sole(output).by, Some(LocalAnswer::Lease));
        let results = world.step(request.charges(), store_time(world.now));
        world.engine.late_answer(world.now, request, Ok(results));
        let counts = world.engine.metrics().rules();
        let denials: u64 = counts.iter().map(|(_, counts)| counts.shadow_denials.get()).sum();
        assert_eq!(denials, number.saturating_sub(2));
    }
}

/// A rule that is charged by denied calls, too, denies past its quota, alone and beside a lease.
#[test]
fn a_rule_that_counts_each_call_denies() {
    let mut each = Rule::per("each", &["user"], "3/min".parse().expect("a quota")).strict();
    each.charge = Charging::Each;
    each = each.with(|policy| policy.algorithm = Algorithm::FixedWindow);
    for beside in [None, Some(per_key("6000/min"))] {
        let is_alone = beside.is_none();
        let mut world = World::new(beside.into_iter().chain([each.clone()]));
        if !is_alone {
            world.until_leased(&call());
        }
        let both = call().with("user", "u");
        let allowed = (0..10).filter(|_| world.check(&both).allowed).count();
        assert_eq!(allowed, 3, "alone: {is_alone}");
    }
}

/// `leases: off` asks the store once for each call.
#[test]
fn without_leases_each_admission_asks_the_store() {
    let mut world = World::new([per_key("6000/min").with(|policy| policy.leases = false)]);
    for _ in 0..300 {
        world.now = world.now.plus_ms(20);
        assert_eq!(world.check(&call()).source, Source::Store);
    }
    assert_eq!(world.requests, 300);
}

/// Near the limit an agent leases little, so that all of the quota is admitted.
#[test]
fn the_whole_quota_is_admitted() {
    let mut world = World::new([per_key("500/min")]);
    let mut admitted = 0;
    for at_ms in (0..59_000).step_by(10) {
        world.now = world.now.max(START.plus_ms(at_ms));
        admitted += u64::from(world.check(&call()).allowed);
    }
    let limit: Limit = *world.store.values().map(StoredCounter::limit).collect::<Vec<_>>().first().expect("a counter");
    assert_eq!((limit.units, world.charged), (500, 500));
    assert!((495..=500).contains(&admitted), "{admitted}");
}

/// The explanation of a call names the answer that the agent holds for each rule, and spends nothing.
#[test]
fn an_explanation_names_the_lease_or_the_cached_denial() {
    let rare = Rule::per("rare", &["user"], "2/min".parse().expect("a quota")).strict();
    let mut world = World::new([per_key("6000/min"), rare]);
    world.until_leased(&call());
    let both = call().with("user", "u");
    let held = |world: &World| {
        let answers = world.engine.local_answers(world.now, &both);
        answers.iter().map(|(rule, answer)| (rule.to_string(), answer.as_str())).collect::<Vec<_>>()
    };
    let named = |rule: &str, answer| (rule.to_owned(), answer);
    for _ in 0..3 {
        assert_eq!(held(&world), [named("per-key", "lease")], "nothing is spent");
    }
    assert!((0..3).map(|_| world.check(&both)).any(|decision| !decision.allowed));
    assert_eq!(held(&world), [named("per-key", "lease"), named("rare", "cached_denial")]);
    let identified = both.clone().identified("once".to_owned());
    assert_eq!(world.engine.local_answers(world.now, &identified), [], "its charge must be looked up");
    assert_eq!(world.engine.local_answers(world.now, &Call::new().with("user", "new")), []);
}
