//! Differential test: one random history of operations, applied by an engine whose counts are in its own table and by
//! an engine with a memory store, gives equal decisions, rows and metrics. A third engine, with its own table, decides
//! no call by `Engine::decide`, and gives the same decisions exactly.
//!
//! The two differ in one respect. With a store, an agent knows the time of its counts to a few milliseconds only, so it asks
//! again a little earlier than a cached denial ends. Where the sources of a denial differ, its details may differ, too.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use tollgate::store::{ChargeStore, MemoryStore};
use tollgate::{Call, DecidedCall, Decision, LimitStatus, RuleSet, Source};
use tollgate_core::clock::{Clock, Timestamp};
use tollgate_core::counter::DigestKey;
use tollgate_core::messages::calls::Batch;
use tollgate_core::rules::MatchScope;
use tollgate_engine::{
    Engine, EngineSettings, Exchange, ExchangeEffect, ExchangeInput, Operation, Output, PrimaryIndex, Progress,
};

const RULES: &str = "
version: 5
defaults: { consistency: strict, leases: off }
rules:
  - { name: key, per: [api_key], quota: 20/2s }
  - { name: log, match: { endpoint: /login }, per: [ip], quota: 6/3s, algorithm: sliding_log }
  - { name: fine, match: { endpoint: /search }, per: [api_key], quota: 9/1s, sub_windows: 4 }
  - { name: about, match: { endpoint: /about }, per: [], quota: 40/1200ms, estimate: interpolated, consistency: bounded }
  - { name: bucket, match: { endpoint: /search }, per: [ip], quota: 12/2s, algorithm: token_bucket, burst: 7 }
  - { name: fixed, match: { endpoint: /other }, per: [ip], quota: 9/1s, algorithm: fixed_window }
  - { name: queue, match: { endpoint: /other }, per: [api_key], quota: 30/1s, algorithm: leaky_bucket, burst: 12 }
  - { name: burst, match: { endpoint: /about }, per: [api_key], quota: 12/2s, burst: 18, consistency: bounded }
  - { name: slots, match: { endpoint: /login }, per: [api_key], quota: 4/2s, algorithm: concurrency }
  - { name: each, match: { endpoint: /other }, per: [api_key], quota: 11/1s, algorithm: fixed_window, charge: each }
  - { name: shade, match: { endpoint: /login }, per: [ip], quota: 3/1s, shadow: true }
  - { name: closed, match: { endpoint: /closed }, deny: true }
lists: { allow: [{ ip: 10.0.0.3 }], deny: [{ ip: 10.0.0.4 }] }
";
const ENDPOINTS: [&str; 5] = ["/login", "/search", "/about", "/other", "/closed"];
/// Every operation happens 3 ms after a multiple of 10 ms, so none is near the edge of a sub-window.
const START: Timestamp = Timestamp::from_ms(1_000_000_000_003);
/// Maximum difference between the two agents' waits, in ms: the width of the store's time.
const WAIT_ERROR_MS: u64 = 5;

struct HandClock(AtomicU64);

impl Clock for HandClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_ms(self.0.load(Ordering::Relaxed))
    }
}

/// An operation of a history. A correction concerns an earlier call.
#[derive(Clone, Debug)]
enum Event {
    Wait(u64),
    Check(SomeCall),
    CheckAll(Vec<SomeCall>),
    Settle(usize, i64),
    Release(usize),
}

#[derive(Clone, Debug)]
struct SomeCall {
    endpoint: usize,
    caller: u8,
    has_key: bool,
    cost: u64,
    id: Option<u8>,
}

/// An engine with its store, if it needs one.
struct Subject {
    engine: Arc<Engine>,
    exchange: Exchange,
    store: Option<MemoryStore>,
    /// True if calls are decided by `Engine::decide` if it can.
    is_fast: bool,
    batches: Vec<Batch>,
}

impl SomeCall {
    fn call(&self) -> Call<'static> {
        let call = Call::new().with("endpoint", ENDPOINTS[self.endpoint]).with("ip", format!("10.0.0.{}", self.caller));
        let call = if self.has_key { call.with("api_key", format!("key-{}", self.caller)) } else { call };
        let call = call.costing(self.cost);
        match self.id {
            Some(id) => call.identified(format!("request-{id}")),
            None => call,
        }
    }
}

impl Subject {
    fn new(store: Option<MemoryStore>, is_fast: bool) -> Self {
        let mut settings = EngineSettings::new("agent", START);
        settings.owns_table = store.is_none();
        let rules: RuleSet = tollgate_rules::from_yaml("rules.yaml", RULES, 1).expect("valid rules");
        let engine = Arc::new(Engine::new(settings, rules));
        Self { exchange: Exchange::new(engine.clone()), engine, store, is_fast, batches: Vec::new() }
    }

    /// Runs an operation, and the maintenance that follows it. The maintenance gives slots of denied calls back to a
    /// store; in the own table they are given back at once.
    fn run(&mut self, now: Timestamp, operation: Operation<'_, '_>) -> Output {
        let output = self.run_alone(now, operation);
        while let (Some(store), Progress::NeedsStore(mut request)) =
            (&self.store, self.engine.begin(now, Operation::Backfill(PrimaryIndex::ONLY)))
        {
            let answer = store.try_charge(request.charges()).expect("a memory store answers at once");
            let _ = self.engine.finish(now, &mut request, answer);
        }
        output
    }

    fn run_alone(&mut self, now: Timestamp, operation: Operation<'_, '_>) -> Output {
        if let (true, Operation::Check { calls: [call], .. }) = (self.is_fast, operation)
            && let Some(decision) = self.engine.decide(now, call, Some, |_| None)
        {
            return Output::Decisions([decision].into_iter().collect());
        }
        match (self.engine.begin(now, operation), &self.store) {
            (Progress::Done(output), _) => output,
            (Progress::Deferred(output, request), Some(store)) => {
                let answer = store.try_charge(request.charges()).expect("a memory store answers at once");
                self.engine.late_answer(now, request, answer);
                output
            }
            (Progress::NeedsStore(mut request), Some(store)) => {
                let answer = store.try_charge(request.charges()).expect("a memory store answers at once");
                self.engine.finish(now, &mut request, answer)
            }
            (Progress::Deferred(..) | Progress::NeedsStore(_), None) => {
                panic!("an agent with an own table needs no store")
            }
        }
    }

    fn collect_batches(&mut self, now: Timestamp) {
        let mut inputs = vec![ExchangeInput::Tick];
        while let Some(input) = inputs.pop() {
            let mut effects = Vec::new();
            self.exchange.poll(now, input, &mut effects);
            for effect in effects {
                if let ExchangeEffect::Append(batch) = effect {
                    let (partition, sequence) = (batch.name.partition, batch.name.sequence);
                    inputs.push(ExchangeInput::Delivered { partition, sequence, offset: Some(sequence) });
                    inputs.push(ExchangeInput::Accepted { partition });
                    self.batches.push(batch);
                }
            }
        }
    }

    /// Returns the admitted units of each call, counter and sub-window, after corrections.
    fn admitted(&self) -> BTreeMap<(u64, Option<String>, u64), i64> {
        let mut units = BTreeMap::new();
        for batch in &self.batches {
            for row in batch.rows.iter().filter(|row| row.outcome.is_admitted()) {
                let counter = row.counter.map(|counter| batch.counters[counter as usize].id.to_string());
                *units.entry((row.call, counter, row.sub_window)).or_default() += row.cost;
            }
        }
        units
    }

    /// Returns the number of denials and admissions of each rule, by all sources.
    fn decisions(&self) -> Vec<(String, u64, u64)> {
        let rules = self.engine.metrics().rules();
        let total = |counts: &tollgate_engine::RuleCounts, allowed: usize| {
            counts.decisions().iter().map(|of_source| of_source[allowed]).sum()
        };
        rules.iter().map(|(name, counts)| (name.to_string(), total(counts, 0), total(counts, 1))).collect()
    }
}

fn calls() -> impl Strategy<Value = SomeCall> {
    (0..ENDPOINTS.len(), 0_u8..5, prop::bool::weighted(0.6), 0_u64..4, prop::option::weighted(0.1, 0_u8..4)).prop_map(
        |(endpoint, caller, has_key, cost, id)| SomeCall {
            // Few calls are denied by a rule that denies everything.
            endpoint: if endpoint == 4 && cost > 0 { 3 } else { endpoint },
            caller,
            has_key,
            cost,
            id,
        },
    )
}

fn events() -> impl Strategy<Value = Event> {
    prop_oneof![
        2 => (0_u64..40).prop_map(|steps| Event::Wait(steps * 10)),
        1 => (0_u64..300).prop_map(|steps| Event::Wait(steps * 10)),
        12 => calls().prop_map(Event::Check),
        3 => prop::collection::vec(calls(), 1..4).prop_map(Event::CheckAll),
        2 => (0_usize..50, -3_i64..4).prop_map(|(call, units)| Event::Settle(call, units)),
        2 => (0_usize..50).prop_map(Event::Release),
    ]
}

fn wait_differs(a: u64, b: u64) -> bool {
    a.abs_diff(b) > WAIT_ERROR_MS
}

fn same_status(a: Option<&LimitStatus>, b: Option<&LimitStatus>) -> Result<(), TestCaseError> {
    let details = |status: &LimitStatus| {
        let LimitStatus { rule, limit, window_ms, at_once, cost, remaining, .. } = status;
        (rule.clone(), *limit, *window_ms, *at_once, *cost, *remaining)
    };
    prop_assert_eq!(a.map(details), b.map(details));
    let Some((a, b)) = a.zip(b) else { return Ok(()) };
    prop_assert!(!wait_differs(a.retry_after_ms, b.retry_after_ms), "{:?} {:?}", a, b);
    prop_assert!(!wait_differs(a.reset_ms, b.reset_ms), "{:?} {:?}", a, b);
    Ok(())
}

/// Compares two decisions. Returns false if one agent repeats a denial and the other asks again. A settlement that
/// refunds nothing ends a denial in the own table alone. A denial that is being checked holds for other calls in a
/// fleet alone. So does the denial that follows the last unit: the agents may name different rules that deny a call, or
/// what was left before and after it.
fn same_decision(own: &Decision, stored: &Decision) -> Result<bool, TestCaseError> {
    prop_assert_eq!((own.allowed, own.delay_ms, &own.id), (stored.allowed, stored.delay_ms, &stored.id));
    // A rule that cannot deny is charged in a store after the decision.
    if own.allowed && (own.source, stored.source) == (Source::Store, Source::Local) {
        return Ok(true);
    }
    if own.source != stored.source {
        let sources = [own.source, stored.source];
        prop_assert!(!own.allowed && sources.contains(&Source::Local) && sources.contains(&Source::Store));
        return Ok(false);
    }
    let shown = |decision: &Decision| decision.status.as_ref().map(|status| (status.rule.clone(), status.remaining));
    if !own.allowed && own.source == Source::Local && shown(own) != shown(stored) {
        return Ok(false);
    }
    same_status(own.status.as_ref(), stored.status.as_ref())?;
    Ok(true)
}

/// Compares what three agents have published and counted: with an own table, with a store, and with an own table that
/// is asked step by step.
fn same_ends([own, stored, slow]: [&Subject; 3], is_deferred: bool) -> Result<(), TestCaseError> {
    prop_assert_eq!(&own.batches, &slow.batches);
    prop_assert_eq!(own.decisions(), slow.decisions());
    prop_assert_eq!(own.admitted(), stored.admitted());
    let denials = |subject: &Subject| subject.decisions().iter().map(|(_, denied, _)| denied).sum::<u64>();
    prop_assert_eq!(denials(own), denials(stored));
    // Which rule is shown for a caller that no rule may deny depends on what the agent knows before the charge.
    let admissions = |subject: &Subject| {
        let by_rule = subject.decisions().into_iter().map(|(name, _, allowed)| (name, allowed));
        if is_deferred {
            vec![(String::new(), by_rule.map(|(_, allowed)| allowed).sum())]
        } else {
            by_rule.collect::<Vec<_>>()
        }
    };
    prop_assert_eq!(admissions(own), admissions(stored));
    Ok(())
}

#[test]
fn counts_in_the_own_table_decide_as_a_memory_store() {
    let whole = AtomicU64::new(0);
    let mut runner = TestRunner::new(Config { cases: 300, failure_persistence: None, ..Config::default() });
    let run = runner.run(&prop::collection::vec(events(), 1..120), |history| {
        let clock = Arc::new(HandClock(AtomicU64::new(START.as_ms())));
        let (mut own, mut stored) =
            (Subject::new(None, true), Subject::new(Some(MemoryStore::new(clock.clone())), true));
        let mut slow = Subject::new(None, false);
        // The agent with a store learns its time from a first answer.
        stored.engine.note_store_time(START, START, START);
        let is_deferred = Cell::new(false);
        let (mut now, mut decided) = (START, Vec::<(Call<'static>, Option<DecidedCall>)>::new());
        for event in &history {
            let earlier = |index: usize| decided.get(index.checked_rem(decided.len()).unwrap_or(0)).cloned();
            match event {
                Event::Wait(ms) => {
                    now = now.plus_ms(*ms);
                    clock.0.store(now.as_ms(), Ordering::Relaxed);
                    own.collect_batches(now);
                    slow.collect_batches(now);
                    stored.collect_batches(now);
                }
                Event::Check(call) => {
                    let call = call.call();
                    let outputs =
                        [&mut own, &mut stored, &mut slow].map(|subject| subject.run(now, Operation::check(&call)));
                    let [Some(a), Some(b), Some(c)] = outputs.map(|output| output.into_decisions().pop()) else {
                        panic!("a check decides")
                    };
                    prop_assert_eq!(&a, &c);
                    is_deferred.set(is_deferred.get() || a.allowed && b.source == Source::Local);
                    if !same_decision(&a, &b)? {
                        // Only one of them charges the rules in shadow.
                        return Ok(());
                    }
                    let of_call = DecidedCall::new(&DigestKey::default(), &call, &b);
                    decided.push((call, of_call));
                }
                Event::CheckAll(calls) => {
                    let calls: Vec<_> = calls.iter().map(SomeCall::call).collect();
                    let operation = Operation::Check { calls: &calls, scope: MatchScope::default() };
                    let outputs = [&mut own, &mut stored, &mut slow].map(|subject| subject.run(now, operation));
                    let [Output::Decisions(a), Output::Decisions(b), Output::Decisions(c)] = outputs else {
                        panic!("check all decides")
                    };
                    prop_assert_eq!(&a, &c);
                    prop_assert_eq!(a.len(), calls.len());
                    // A call that one agent denies without a question changes what is asked about the others.
                    if a.iter().zip(&b).any(|(a, b)| !a.allowed && a.source != b.source) {
                        return Ok(());
                    }
                    let mut follows = false;
                    for (a, b) in a.iter().zip(&b) {
                        if follows && a.allowed {
                            // An earlier call of the request is charged in the store after this decision.
                            prop_assert_eq!((a.allowed, &a.id), (b.allowed, &b.id));
                            is_deferred.set(true);
                            continue;
                        }
                        follows |= a.allowed && (a.source, b.source) == (Source::Store, Source::Local);
                        is_deferred.set(is_deferred.get() || a.allowed && b.source == Source::Local);
                        if !same_decision(a, b)? {
                            return Ok(());
                        }
                    }
                }
                Event::Settle(index, units) => {
                    let Some((call, decided)) = earlier(*index) else { continue };
                    let operation = Operation::Settle { call: &call, units: *units, decided: decided.as_ref() };
                    let outputs = [&mut own, &mut stored, &mut slow].map(|subject| subject.run(now, operation));
                    let [Output::Adjusted(Ok(a)), Output::Adjusted(Ok(b)), Output::Adjusted(Ok(c))] = outputs else {
                        panic!("it is settled")
                    };
                    prop_assert_eq!(&a, &c);
                    same_status(a.as_ref(), b.as_ref())?;
                }
                Event::Release(index) => {
                    let Some((call, Some(decided))) = earlier(*index) else { continue };
                    let operation = Operation::Release { call: &call, decided: &decided };
                    let outputs = [&mut own, &mut stored, &mut slow].map(|subject| subject.run(now, operation));
                    let [Output::Adjusted(Ok(a)), Output::Adjusted(Ok(b)), Output::Adjusted(Ok(c))] = outputs else {
                        panic!("it is released")
                    };
                    prop_assert_eq!(&a, &c);
                    same_status(a.as_ref(), b.as_ref())?;
                }
            }
        }
        own.collect_batches(now.plus_ms(10_000));
        stored.collect_batches(now.plus_ms(10_000));
        slow.collect_batches(now.plus_ms(10_000));
        same_ends([&own, &stored, &slow], is_deferred.get())?;
        whole.fetch_add(1, Ordering::Relaxed);
        Ok(())
    });
    run.unwrap();
    let whole = whole.into_inner();
    assert!(whole >= 200, "{whole} of 300 histories were compared to their end");
}
