//! The fast way gives the decisions of the general one, whatever a thread remembers.

use std::thread;

use proptest::prelude::*;
use tollgate_core::algorithm::{Algorithm, Verdict};
use tollgate_core::counter::{ChargeResult, ChargeResults, DigestKey};
use tollgate_core::decided_call::DecidedCall;
use tollgate_core::rules::{Lists, Pattern, Quota, Rule, RuleSet};

use super::*;
use crate::engine_settings::EngineSettings;
use crate::request::{Operation, Progress};

const START: Timestamp = Timestamp::from_ms(1_000_000);

#[derive(Clone, Copy, Debug)]
enum Step {
    /// A call of a caller, with this cost.
    Call(u8, u64),
    /// The settlement of a caller's last call.
    Settle(u8, i64),
    /// The end of a caller's last call.
    Release(u8),
    Wait(u64),
    /// New rules, with another quota.
    Rules(u64),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        12 => (0..4_u8, 1..4_u64).prop_map(|(caller, cost)| Step::Call(caller, cost)),
        2 => (0..4_u8, -3..3_i64).prop_map(|(caller, units)| Step::Settle(caller, units)),
        2 => (0..4_u8).prop_map(Step::Release),
        3 => prop::sample::select(vec![0, 1, 100, 900, 2_500, 40_000]).prop_map(Step::Wait),
        1 => (1..6_u64).prop_map(Step::Rules),
    ];
    prop::collection::vec(step, 1..80)
}

fn quota(units: u64) -> Quota {
    format!("{units}/10s").parse().expect("a quota")
}

fn rule(algorithm: Algorithm, units: u64) -> Rule {
    let per_key = Rule::per("per-key", &["api_key"], quota(units));
    per_key.with(|policy| *policy = policy.counted_by(algorithm))
}

/// Rules of a history: one rule with tiers, and one that applies to a caller beside it.
fn rules(algorithm: Algorithm, units: u64, generation: u64) -> RuleSet {
    let mut per_key = rule(algorithm, units);
    per_key.by_tier = vec![("free".into(), rule(algorithm, 1).policy)];
    let mut second = rule(algorithm, units + 1).matching("api_key", "k3");
    second.name = "second".into();
    let deny = vec![vec![("api_key".into(), Pattern::Exact("k2".into()))]];
    let lists = Lists { deny: if units == 5 { deny } else { Vec::new() }, ..Lists::default() };
    let mut rules = RuleSet::new(generation, [per_key, second]);
    rules.lists = lists;
    rules
}

fn engine(rules: RuleSet) -> Engine {
    let settings = EngineSettings { owns_table: true, ..EngineSettings::new("a", START) };
    Engine::new(settings, rules)
}

fn call(caller: u8, cost: u64) -> Call<'static> {
    let call = Call::new().with("api_key", format!("k{caller}")).costing(cost);
    if caller == 1 { call.with("tier", "free") } else { call }
}

fn check_generally(engine: &Engine, now: Timestamp, call: &Call<'_>) -> Decision {
    let Progress::Done(output) = engine.begin(now, Operation::check(call)) else { unreachable!("no store") };
    output.into_decisions().pop().expect("a decision")
}

fn check(engine: &Engine, now: Timestamp, call: &Call<'_>) -> Decision {
    engine.decide(now, call, |decision| decision, |_| check_generally(engine, now, call))
}

proptest! {
    /// A12 to A14: two agents see the same history; one decides by the fast way where it can.
    #[test]
    fn the_fast_way_decides_as_the_general_one(
        algorithm in prop::sample::select(vec![
            Algorithm::SlidingWindow(tollgate_core::window::Estimate::Conservative),
            Algorithm::SlidingWindow(tollgate_core::window::Estimate::Interpolated),
            Algorithm::SlidingLog,
            Algorithm::TokenBucket,
            Algorithm::Concurrency,
        ]),
        steps in steps(),
    ) {
        let agents = [(); 2].map(|()| engine(rules(algorithm, 3, 1)));
        let (mut now, mut generation, mut decided) = (START, 1, [const { None }; 4]);
        for step in steps {
            let begin = |operation: Operation<'_, '_>| agents.each_ref().map(|agent| drop(agent.begin(now, operation)));
            match step {
                Step::Call(caller, cost) => {
                    let call = call(caller, cost);
                    let mut fast = check(&agents[0], now, &call);
                    let general = check_generally(&agents[1], now, &call);
                    fast.id.clone_from(&general.id);
                    decided[usize::from(caller)] = DecidedCall::new(&DigestKey::default(), &call, &fast);
                    prop_assert_eq!(&fast, &general, "{:?} at {:?}", call, now);
                }
                Step::Settle(caller, units) => {
                    let decided = decided[usize::from(caller)].as_ref();
                    begin(Operation::Settle { call: &call(caller, 1), units, decided });
                }
                Step::Release(caller) => {
                    if let Some(decided) = &decided[usize::from(caller)] {
                        begin(Operation::Release { call: &call(caller, 1), decided });
                    }
                }
                Step::Wait(ms) => now = now.plus_ms(ms),
                Step::Rules(units) => {
                    generation += 1;
                    for agent in &agents {
                        agent.set_rules(now, rules(algorithm, units, generation)).expect("newer rules");
                    }
                }
            }
        }
    }
}

/// A refund on one thread ends the denial that another thread remembers.
#[test]
fn a_denial_that_a_thread_remembers_ends_with_a_refund_on_another() {
    let engine = engine(rules(Algorithm::TokenBucket, 10, 1));
    let call = call(0, 1);
    let first = check(&engine, START, &call);
    assert!(first.allowed);
    for source in [Source::Store, Source::Local, Source::Local] {
        let denial = check(&engine, START, &call);
        assert_eq!((denial.allowed, denial.source), (false, source));
    }
    let decided = DecidedCall::new(&DigestKey::default(), &call, &first);
    thread::scope(|scope| {
        scope.spawn(|| engine.begin(START, Operation::Settle { call: &call, units: -1, decided: decided.as_ref() }));
    });
    assert!(check(&engine, START, &call).allowed);
}

/// A step of the store's clock ends all denials that threads remember.
#[test]
fn a_denial_that_a_thread_remembers_ends_when_the_clock_has_stepped_back() {
    let engine = Engine::new(EngineSettings::new("a", START), rules(Algorithm::TokenBucket, 10, 1));
    engine.note_store_time(START, START, START);
    let (call, retry_at) = (call(0, 1), START.plus_ms(60_000));
    let Progress::NeedsStore(mut request) = engine.begin(START, Operation::check(&call)) else { panic!("it is asked") };
    let verdict = Verdict { admitted: false, remaining: 0, retry_at, reset_at: retry_at, delay_ms: 0 };
    let result = ChargeResult {
        verdict,
        charged: false,
        repeated: false,
        leased: 0,
        at: START,
        limit: 10,
        limit_until: None,
        born: START,
        previous: START,
    };
    let _ = engine.finish(START, &mut request, Ok(ChargeResults::from_iter([result])));
    let now = START.plus_ms(100);
    for _ in 0..3 {
        assert_eq!(engine.decide(now, &call, Some, |_| None).expect("a denial").source, Source::Local);
    }
    engine.note_store_time(now, now, START.minus_ms(30_000));
    assert!(engine.decide(now, &call, Some, |_| None).is_none(), "the store is asked");
}
