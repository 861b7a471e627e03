//! Requests of several calls that share a counter: the limit that decides them, the rules that they replace, and the
//! retries that the store recognises. Both places of the counts decide alike.

use std::sync::Arc;

use tollgate::store::{ChargeStore, MemoryStore};
use tollgate::{Call, Decision, Rule, RuleSet};
use tollgate_core::clock::{Clock, Timestamp};
use tollgate_core::rules::MatchScope;
use tollgate_engine::{Engine, EngineSettings, Operation, Progress};

const START: Timestamp = Timestamp::from_ms(1_000_000_000_003);

struct StoppedClock;

/// An engine with its store, if it needs one.
struct Subject {
    engine: Engine,
    store: Option<MemoryStore>,
}

impl Clock for StoppedClock {
    fn now(&self) -> Timestamp {
        START
    }
}

impl Subject {
    fn check(&self, calls: &[Call<'_>]) -> Vec<Decision> {
        let output = match self.engine.begin(START, Operation::Check { calls, scope: MatchScope::default() }) {
            Progress::Done(output) | Progress::Deferred(output, _) => output,
            Progress::NeedsStore(mut request) => {
                let store = self.store.as_ref().expect("an agent with an own table needs no store");
                let answer = store.try_charge(request.charges()).expect("a memory store answers at once");
                self.engine.finish(START, &mut request, answer)
            }
        };
        output.into_decisions().into_vec()
    }

    fn remaining(&self) -> u64 {
        self.check(&[call().costing(0)])[0].status.as_ref().expect("a rule applies").remaining
    }
}

fn call() -> Call<'static> {
    Call::new().with("api_key", "k")
}

/// Agents with a rule of 20 calls a minute per key, 3 of them in the tier `free`. A wider rule for `plan: wide` replaces it.
fn subjects() -> [Subject; 2] {
    [true, false].map(|owns_table| {
        let mut rule = Rule::per("key", &["api_key"], "20/min".parse().expect("a quota")).strict();
        let free = rule.policy.map(|policy| policy.with_quota("3/min".parse().expect("a quota")));
        rule.by_tier = vec![("free".into(), free)];
        let settings = EngineSettings { owns_table, ..EngineSettings::new("agent", START) };
        let mut wide = Rule::per("wide", &["api_key"], "100/min".parse().expect("a quota")).matching("plan", "wide");
        wide.replaces = vec!["key".into()];
        let engine = Engine::new(settings, RuleSet::new(1, [rule, wide]));
        let store = (!owns_table).then(|| MemoryStore::new(Arc::new(StoppedClock)));
        Subject { engine, store }
    })
}

#[test]
fn the_smaller_limit_decides_calls_that_share_a_counter_and_denies_no_other_caller() {
    for subject in subjects() {
        let allowed = |calls: &[Call<'_>]| subject.check(calls).iter().map(|one| one.allowed).collect::<Vec<_>>();
        let free = call().with("tier", "free");
        assert_eq!(allowed(&[call(), call()]), [true, true]);
        for calls in [[call(), free.clone()], [free.clone(), call()]] {
            assert_eq!(allowed(&calls), [true, false], "one unit is left of three");
        }
        assert_eq!(allowed(&[call().costing(2)]), [true], "of twenty there are enough");
        assert_eq!(subject.remaining(), 16);
    }
}

#[test]
fn a_retry_of_a_request_is_charged_once_whatever_ids_its_calls_have() {
    type Ids = &'static [Option<&'static str>];
    let cases: [(Ids, Ids, u64); 7] = [
        (&[Some("a"), Some("b")], &[Some("a"), Some("b")], 18),
        (&[Some("a"), Some("a")], &[Some("a"), Some("a")], 18),
        (&[Some("a"), None], &[Some("a"), None], 18),
        (&[Some("a"), Some("b")], &[Some("a"), Some("c")], 16),
        (&[Some("a"), Some("a")], &[Some("a"), Some("b")], 16),
        (&[Some("a")], &[Some("a"), None], 17),
        (&[None, None], &[None, None], 16),
    ];
    for (first, second, remaining) in cases {
        for subject in subjects() {
            for ids in [first, second] {
                let named = |id: Option<&'static str>| id.map_or_else(call, |id| call().identified(id));
                let calls: Vec<Call<'_>> = ids.iter().copied().map(named).collect();
                assert!(subject.check(&calls).iter().all(|decision| decision.allowed));
            }
            assert_eq!(subject.remaining(), remaining, "{first:?} {second:?}");
        }
    }
}

#[test]
fn a_call_replaces_a_rule_for_the_others_by_verified_values_only() {
    for subject in subjects() {
        let mut unverified = call();
        unverified.set_unverified("plan".into(), "wide".into());
        for (first, rules) in [(unverified, ["key", "key"]), (call().with("plan", "wide"), ["wide", ""])] {
            let shown = subject
                .check(&[first, call()])
                .into_iter()
                .map(|one| one.status.map_or_else(String::new, |status| status.rule.to_string()));
            assert_eq!(shown.collect::<Vec<_>>(), rules);
        }
    }
}
