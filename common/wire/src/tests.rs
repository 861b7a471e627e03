//! Round trips of every field, rejection of invalid records, and golden bytes.

mod ledger;
mod usage;

use super::*;
use tollgate_core::clock::Timestamp;
use tollgate_core::decision::Source;
use tollgate_core::messages::calls::{BatchName, Home, Outcome, Row};
use tollgate_core::messages::emergency::EmergencySwitch;
use tollgate_core::messages::presence::{CounterReset, Role};
use tollgate_core::messages::signals::{AgentUnits, Signal};
use tollgate_core::messages::texts::Texts;
use tollgate_core::trace_context::TraceContext;
use tollgate_core::window::Ring;

fn minute() -> Window {
    Window::new(60_000, 12).unwrap()
}

fn entry() -> CounterEntry {
    CounterEntry {
        id: CounterId::from_u128(0x0102_0304_0506_0708_090a_0b0c_0d0e_0f10),
        rule: "per-key".into(),
        label: "api_key=sk_a…12345678".into(),
        generation: 3,
        quota: 100,
        window: minute(),
    }
}

fn batch() -> Batch {
    let at = Timestamp::from_ms(1_763_700_000_123);
    let home = |decider, denied: Option<DenialCause>, remaining| {
        Some(Home { descriptors: 0, decider, shadow_denied: denied.is_some(), denied, remaining })
    };
    let row = |call, counter: Option<u32>, cost, outcome, home| Row {
        call,
        counter,
        at,
        sub_window: if counter.is_some() { minute().sub_window(at) - 1 } else { 0 },
        cost,
        outcome,
        shadow_denied: cost < 0,
        source: Source::Store,
        home,
    };
    Batch {
        name: BatchName { agent: "a1".into(), epoch: 99, partition: 2, sequence: 7 },
        region: "eu".into(),
        complete_through: at.plus_ms(5),
        counters: vec![entry()],
        texts: ["endpoint", "/search", "ip", "10.0.0.1", "per-key"].into_iter().collect(),
        descriptor_sets: vec![[(0, 1), (2, 3)].into_iter().collect()],
        rows: vec![
            row(41, Some(0), 1, Outcome::Admitted, home(Some(4), None, Some(99))),
            row(40, Some(0), -3, Outcome::Spared, None),
            row(1 << 40, None, 1, Outcome::Denied(DenialCause::List), home(None, Some(DenialCause::List), None)),
        ],
        traces: vec![(2, TraceContext::from_bytes([7; TraceContext::LEN]))],
    }
}

fn signals() -> SignalBatch {
    let mut admitted = Ring::new(minute());
    admitted.add(1_000, 4);
    admitted.add(1_003, 9);
    SignalBatch {
        aggregator: "g1".into(),
        partition: 2,
        log: u64::MAX - 1,
        as_of: 12,
        as_of_appended: Timestamp::from_ms(77),
        threshold_permille: 500,
        agents: vec!["a1".into(), "a2".into()],
        signals: vec![Signal {
            counter: entry().id,
            rule: "per-key".into(),
            label: "x".into(),
            generation: 3,
            quota: 100,
            admitted,
            by_agent: vec![AgentUnits { agent: 1, units: 9 }, AgentUnits { agent: 0, units: 3 }],
            by_others: 1,
            denied: 8,
            rate_milli: 1_500,
            budget: Some(0),
            newest_at: Timestamp::from_ms(78),
            charged_at: Timestamp::from_ms(76),
        }],
    }
}

fn presence() -> Presence {
    Presence {
        id: "a1".into(),
        epoch: 4,
        region: "eu".into(),
        role: Role::Aggregator,
        generation: 5,
        clock: Timestamp::from_ms(6),
        open_breakers: vec!["10.0.0.1:6379".into()],
        dropped_rows: 7,
        leaving: true,
        http: "".into(),
        partitions: Vec::new(),
        coordinates: true,
        emergency: Some(EmergencySwitch {
            quota: Some("10/s".parse().expect("a quota")),
            changed_at: Timestamp::from_ms(9),
        }),
        resets: vec![CounterReset { counter: CounterId::from_u128((1 << 64) + 2), at: Timestamp::from_ms(3) }],
        rules_refusal: "".into(),
        rules_published: true,
    }
}

fn published() -> Published {
    Published::new("rules.yaml", "rules: []")
}

fn twin(batch: &Batch) -> v1::CallBatch {
    v1::CallBatch::decode(&*batch.encode()).unwrap()
}

#[test]
fn an_empty_batch_and_extreme_values_survive_a_round_trip() {
    let empty = Batch {
        name: BatchName::default(),
        region: "".into(),
        complete_through: Timestamp::default(),
        counters: Vec::new(),
        texts: Texts::default(),
        descriptor_sets: Vec::new(),
        rows: Vec::new(),
        traces: Vec::new(),
    };
    let extreme = |mut batch: Batch| {
        let mut row = batch.rows[0].clone();
        (row.call, row.at, row.sub_window, row.cost) = (u64::MAX, Timestamp::from_ms(u64::MAX), u64::MAX, i64::MIN);
        batch.rows.push(row);
        let entry = CounterEntry { id: CounterId::from_u128(0), rule: "".into(), label: "".into(), ..entry() };
        batch.counters.push(CounterEntry { generation: 0, quota: u64::MAX, ..entry });
        batch.texts.push("");
        batch.texts.push(&"x".repeat(300));
        batch.descriptor_sets.extend([[(0, 1), (1, 2)].into_iter().collect(), [].into_iter().collect()]);
        batch
    };
    for batch in [empty, batch(), extreme(batch())] {
        assert_eq!(Batch::decode(&batch.encode()).unwrap(), batch);
    }
}

#[test]
fn every_record_survives_a_round_trip() {
    assert_eq!(Batch::decode(&batch().encode()).unwrap(), batch());
    assert_eq!(SignalBatch::decode(&signals().encode()).unwrap(), signals());
    assert_eq!(Presence::decode(&presence().encode()).unwrap(), presence());
    assert_eq!(Published::decode(&published().encode()).unwrap(), published());
}

#[test]
fn a_row_of_a_large_batch_takes_few_bytes() {
    let mut busy = batch();
    let row = busy.rows.remove(0);
    busy.rows = (0..1_000).map(|call| Row { call, ..row.clone() }).collect();
    let len = busy.encode().len();
    assert!(len < 12_000, "{len} bytes");
}

#[test]
fn the_error_of_an_unknown_version_names_the_side_to_upgrade() {
    let mut wire = twin(&batch());
    wire.version = 9;
    let error = Batch::decode(&wire.encode_to_vec()).unwrap_err();
    assert_eq!(
        error.to_string(),
        "unknown record version 9; this process reads version 1: upgrade it before the writers"
    );
}

#[test]
fn undecodable_records_are_errors_and_never_panic() {
    let corruptions: [fn(&mut v1::CallBatch); 15] = [
        |wire| wire.traces.truncate(23),
        |wire| wire.trace_row_delta.push(0),
        |wire| wire.trace_row_delta[0] = 1,
        |wire| wire.set_len[0] = 3,
        |wire| wire.set_len[0] = 1,
        |wire| wire.set_names_and_values.push(1),
        |wire| wire.set_names_and_values[0] = 5,
        |wire| wire.counter[0] = 2,
        |wire| wire.home_decider[0] = 9,
        |wire| wire.home_descriptors[0] = 5,
        |wire| wire.cost.truncate(1),
        |wire| wire.source.clear(),
        |wire| wire.outcome[0] = 0,
        |wire| wire.counters[0].sub_windows = 7_000,
        |wire| wire.counters = vec![v1::Counter::default(); BATCH_ROWS_LEN_MAX + 1],
    ];
    for corrupt in corruptions {
        let mut wire = twin(&batch());
        corrupt(&mut wire);
        assert!(Batch::decode(&wire.encode_to_vec()).is_err());
    }
    let corruptions: [fn(&mut v1::Signal); 3] = [
        |wire| wire.agent[0] = 2,
        |wire| wire.agent_units.truncate(1),
        |wire| (wire.agent, wire.agent_units) = (vec![0; 17], vec![1; 17]),
    ];
    for corrupt in corruptions {
        let mut wire = signals::to_wire(&signals());
        corrupt(&mut wire.signals[0]);
        assert!(SignalBatch::decode(&wire.encode_to_vec()).is_err());
    }
    let good = batch().encode();
    for len in 0..good.len() {
        let _ = Batch::decode(&good[..len]);
        let _ = SignalBatch::decode(&good[..len]);
    }
}

/// Compares the bytes of a record with pinned ones.
fn pinned<R: Record + Clone + PartialEq + std::fmt::Debug>(record: &R, golden: &str) {
    let byte = |two: &[u8]| u8::from_str_radix(std::str::from_utf8(two).unwrap(), 16).unwrap();
    let golden: Vec<u8> = golden.as_bytes().chunks(2).map(byte).collect();
    assert_eq!(record.encode(), golden);
    assert_eq!(&R::decode(&golden).unwrap(), record);
}

/// Pins the bytes of version 1, which must stay readable. A later addition may change what is written, never what can
/// be read.
#[test]
fn the_bytes_of_version_1_are_stable() {
    pinned(
        &batch(),
        "0801120261311863200228073202657538808bd9a5aa33423e09080706050403020111100f0e0d0c0b0a091a077065722d6b657922176170695f6b65793d736b5f61e280a631323334353637382803306438e0d403400c4a08656e64706f696e744a072f7365617263684a0269704a0831302e302e302e314a077065722d6b65795201025a085201b0ffffffff3f62030101006a08f695b2cbd466000072030101007a030205028201030103078a010301000192010205009a0103020202a2010400010203aa010102b20118070707070707070707070707070707070707070707070707ba010101c201026400ca01020002d2010102",
    );
    pinned(
        &signals(),
        "080112026731180221feffffffffffffff280c304d38f40342510a2809080706050403020111100f0e0d0c0b0a091a077065722d6b65792201782803306438e0d403400c10eb071a0d09000004000000000000000000200828dc0b3000384e420201004a0209035001584c4a0261314a026132",
    );
    pinned(
        &presence(),
        "080112026131180422026575280230053806420d31302e302e302e313a36333739480750016a070809100a18e80770017a140901000000000000001102000000000000001803880101",
    );
    pinned(&published(), "0801120a72756c65732e79616d6c1a0972756c65733a205b5d");
}

/// The enum may grow without an error of the compiler here.
#[test]
fn every_source_has_a_twin() {
    for source in Source::ALL {
        assert_eq!(Source::from_wire(source.to_wire()).unwrap(), source);
    }
}
