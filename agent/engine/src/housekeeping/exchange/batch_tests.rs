//! Batches of an agent with its own table, whose exchange is polled by hand.

use std::collections::HashSet;
use std::sync::Arc;
use std::thread;

use tollgate_core::call::Call;
use tollgate_core::clock::Timestamp;
use tollgate_core::decision::Source;
use tollgate_core::messages::calls::{Batch, Outcome, Row};
use tollgate_core::rules::{DescriptorSource, DescriptorSpec, Rule, RuleSet};
use tollgate_core::trace_context::TraceContext;

use super::{Exchange, ExchangeEffect, ExchangeInput};
use crate::call::{CallHome, CallRow};
use crate::engine::{Context, Engine};
use crate::engine_settings::EngineSettings;
use crate::request::{Operation, Progress};
use crate::time::TimeBounds;

const START: Timestamp = Timestamp::from_ms(1_000_000);
/// Time between two batches that waits for no report, in ms.
const ROUND_MS: u64 = 1_000;

struct Publisher {
    engine: Arc<Engine>,
    exchange: Exchange,
    now: Timestamp,
}

impl Publisher {
    fn new(rules: RuleSet) -> Self {
        let settings = EngineSettings { owns_table: true, ..EngineSettings::new("a", START) };
        let engine = Arc::new(Engine::new(settings, rules));
        Self { exchange: Exchange::new(engine.clone()), engine, now: START }
    }

    fn check(&self, key: &str) {
        let _ = self.engine.begin(self.now, Operation::check(&Call::new().with("key", key)));
    }

    fn batches(&mut self) -> Vec<Batch> {
        self.now = self.now.plus_ms(ROUND_MS);
        let (mut effects, mut batches) = (Vec::new(), Vec::new());
        self.exchange.poll(self.now, ExchangeInput::Tick, &mut effects);
        while let Some(effect) = effects.pop() {
            if let ExchangeEffect::Append(batch) = effect {
                let accepted = ExchangeInput::Accepted { partition: batch.name.partition };
                self.exchange.poll(self.now, accepted, &mut effects);
                batches.push(batch);
            }
        }
        batches
    }
}

fn rule() -> Rule {
    Rule::per("per-key", &["key"], "1000/min".parse().expect("a quota"))
}

fn rules(generation: u64, is_secret: bool) -> RuleSet {
    let spec =
        DescriptorSpec { public: !is_secret, ..DescriptorSpec::new("key", DescriptorSource::Header("key".into())) };
    let mut rules = RuleSet::new(generation, [rule()]);
    rules.descriptors = vec![spec];
    rules
}

#[test]
fn a_known_counter_is_described_in_each_batch_and_anew_under_other_rules() {
    let mut publisher = Publisher::new(rules(1, false));
    let shown = |publisher: &mut Publisher| {
        publisher.check("alice-and-bob");
        publisher.check("alice-and-bob");
        let batches = publisher.batches();
        let [batch] = &batches[..] else { panic!("{batches:?}") };
        assert_eq!((batch.rows.len(), batch.counters.len(), batch.descriptor_sets.len()), (2, 1, 1));
        assert!(
            batch.descriptor_sets[0].iter().all(|(name, value)| batch.texts[*name as usize] == *"key" && name != value)
        );
        let value = batch.texts[batch.descriptor_sets[0][0].1 as usize].to_owned();
        (batch.counters[0].generation, batch.counters[0].label.to_string(), value)
    };
    let plain = (1, "key=alice-and-bob".to_owned(), "alice-and-bob".to_owned());
    assert_eq!([shown(&mut publisher), shown(&mut publisher)], [plain.clone(), plain]);
    publisher.engine.set_rules(Timestamp::from_ms(1), rules(2, true)).expect("newer rules");
    let (generation, label, value) = shown(&mut publisher);
    assert!(generation == 2 && label.starts_with("key=alic…") && value.starts_with("alic…"), "{label} {value}");
}

/// A caller that is suspended between its decision and its row breaks no promise of an earlier batch.
#[test]
fn a_late_row_is_not_earlier_than_its_writer_has_announced() {
    let mut publisher = Publisher::new(rules(1, false));
    publisher.check("k");
    let announced = publisher.batches()[0].complete_through;
    let (active, at) = (publisher.engine.rules.load().clone(), announced.minus_ms(500));
    let context = Context {
        now: publisher.now,
        bounds: TimeBounds::exactly(publisher.now),
        active: &active,
        store: &publisher.engine.store,
    };
    let home = CallHome { decider: None, shadow_denied: false, denied: None, remaining: None };
    for (number, home) in [(7, Some(home)), (8, None)] {
        let row = CallRow::new(number, at, 1, Outcome::Charged, Source::Local);
        publisher.engine.publish(&context, &Call::new(), None, row, home);
    }
    let batch = &publisher.batches()[0];
    let rows: Vec<_> = batch.rows.iter().map(|row| (row.at, row.outcome)).collect();
    let expected = [(announced, Outcome::Admitted), (at, Outcome::Charged)];
    assert_eq!(rows, expected, "a correction is of the time of its call, and another time is not that of the charge");
}

/// A row of a call that its thread knows says little, and is published as a whole one would be, in the order of the calls.
#[test]
fn rows_of_known_calls_are_whole_and_in_order() {
    let mut publisher = Publisher::new(rules(1, false));
    let callers = ["a", "b", "a", "a", "c", "b", "a", "b", "b"];
    for generation in 2..5 {
        let mut decided = Vec::new();
        for (key, cost) in callers.into_iter().cycle().zip([1, 1, 2, 2, 600].into_iter().cycle()).take(200) {
            let call = Call::new().with("key", key).costing(cost);
            let decision = publisher.engine.decide(publisher.now, &call, Some, |_| None);
            let decision = decision.or_else(|| {
                let progress = publisher.engine.begin(publisher.now, Operation::check(&call));
                let Progress::Done(output) = progress else { panic!("an own table is not asked") };
                output.into_decisions().pop()
            });
            let decision = decision.expect("a decision");
            decided.push((key, cost, decision.allowed, decision.source, decision.id.call));
        }
        let batches = publisher.batches();
        let rows: Vec<_> = batches.iter().flat_map(published).collect();
        assert_eq!(rows, decided);
        assert!(batches.iter().flat_map(|batch| &batch.counters).all(|counter| counter.generation == generation - 1));
        publisher.engine.set_rules(Timestamp::from_ms(1), rules(generation, false)).expect("newer rules");
    }
}

/// Returns for each row the value of the call's descriptor, the cost, the result, and the number of the call.
fn published(batch: &Batch) -> Vec<(&str, u64, bool, Source, u64)> {
    let of_row = |row: &Row| {
        let home = row.home.as_ref().expect("a home row");
        let [(_, value)] = batch.descriptor_sets[home.descriptors as usize][..] else { panic!("{row:?}") };
        let text = |index: u32| &batch.texts[index as usize];
        assert_eq!((text(home.decider.expect("a decider")), row.at), ("per-key", START.max(row.at)));
        (text(value), row.cost.unsigned_abs(), row.outcome == Outcome::Admitted, row.source, row.call)
    };
    batch.rows.iter().map(of_row).collect()
}

/// `exactly-counted`: each row of each thread is in one batch, or counted as dropped.
#[test]
fn rows_of_several_threads_are_published_once() {
    const CALLS: u64 = 20_000;
    let mut publisher = Publisher::new(rules(1, false));
    let engine = publisher.engine.clone();
    let mut rows = Vec::new();
    thread::scope(|scope| {
        let check = |thread: usize| {
            let call = Call::new().with("key", thread.to_string());
            let is_known =
                |call: &Call<'_>| thread.is_multiple_of(2) && engine.decide(START, call, Some, |_| None).is_some();
            let check = |call: &Call<'_>| {
                is_known(call) || matches!(engine.begin(START, Operation::check(call)), Progress::Done(_))
            };
            assert!((0..CALLS).all(|_| check(&call)));
        };
        let threads: Vec<_> = (0..4).map(|thread| scope.spawn(move || check(thread))).collect();
        while threads.iter().any(|thread| !thread.is_finished()) {
            rows.extend(publisher.batches().into_iter().flat_map(|batch| batch.rows));
        }
    });
    rows.extend(publisher.batches().into_iter().flat_map(|batch| batch.rows));
    let numbers: HashSet<_> = rows.iter().map(|row| row.call).collect();
    assert_eq!(numbers.len(), rows.len(), "no row twice");
    assert_eq!(rows.len() as u64 + publisher.engine.dropped_rows(), 4 * CALLS);
    let held = publisher.engine.held();
    assert_eq!((held.waiting_rows, held.waiting_batches), (0, 0));
}

/// H3: the home row of each sampled call has its trace, also of a caller whose other calls its thread knows.
#[test]
fn a_sampled_call_has_its_trace_in_the_record() {
    let mut publisher =
        Publisher::new(RuleSet::new(1, [rule(), Rule::per("all", &[], "9/min".parse().expect("a quota"))]));
    let trace = |number: u8| TraceContext::from_bytes([number; TraceContext::LEN]);
    for number in 0..6 {
        let mut call = Call::new().with("key", "k");
        if number % 2 == 1 {
            call.set_trace(trace(number));
        }
        let _ = publisher.engine.decide(publisher.now, &call, Some, |_| {
            let Progress::Done(output) = publisher.engine.begin(publisher.now, Operation::check(&call)) else {
                return None;
            };
            output.into_decisions().pop()
        });
    }
    let batches = publisher.batches();
    let rows: usize = batches.iter().map(|batch| batch.rows.len()).sum();
    let mut traces = Vec::new();
    for batch in &batches {
        for (index, trace) in &batch.traces {
            let row = &batch.rows[*index as usize];
            assert!(row.home.is_some(), "{row:?}");
            traces.push((row.call, *trace));
        }
    }
    traces.sort_unstable_by_key(|(call, _)| *call);
    assert_eq!(
        (rows, traces.iter().map(|(_, trace)| *trace).collect::<Vec<_>>()),
        (12, vec![trace(1), trace(3), trace(5)])
    );
}
