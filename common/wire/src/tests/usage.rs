//! Records of the topic `usage`: golden bytes, and rejection of records that no Tollgate writes.

use tollgate_core::messages::usage::{LARGEST_LEN_MAX, RULES_LEN_MAX, UsageOfCounter, UsageOfRule, UsageUnits};

use super::*;

fn usage() -> UsageRecord {
    let counter = UsageOfCounter {
        counter: entry().id,
        label: "api_key=k1".into(),
        units: UsageUnits { used: 100, demand: u64::MAX },
    };
    let units = UsageUnits { used: 300, demand: u64::MAX };
    let rule = |name: &str, largest| UsageOfRule { rule: name.into(), counters: 7, units, largest };
    UsageRecord {
        region: "eu".into(),
        writer: u64::MAX - 1,
        at: Timestamp::from_ms(1_763_700_000_123),
        partitions: vec![0, 300],
        rules: vec![rule("per-key", vec![counter]), rule("per-ip", Vec::new())],
    }
}

#[test]
fn the_bytes_of_version_1_are_stable() {
    pinned(
        &usage(),
        "08011202657519feffffffffffffff20fb8ad9a5aa332a0300ac0232480a077065722d6b6579100718ac0220ffffffffffffffffff012a2d0a1209080706050403020111100f0e0d0c0b0a09120a6170695f6b65793d6b31186420ffffffffffffffffff0132180a067065722d6970100718ac0220ffffffffffffffffff01",
    );
    let idle = UsageRecord { writer: 0, partitions: vec![1], rules: Vec::new(), ..usage() };
    assert_eq!(UsageRecord::decode(&idle.encode()).expect("a record"), idle);
}

#[test]
fn absurd_records_are_errors_and_never_panic() {
    let good = crate::usage::to_wire(&usage());
    let decoded = |wire: &v1::UsageRecord| UsageRecord::decode(&wire.encode_to_vec());
    assert!(decoded(&good).is_ok());
    let corruptions: [fn(&mut v1::UsageRecord); 11] = [
        |record| record.version = 2,
        |record| record.region.clear(),
        |record| record.partitions.clear(),
        |record| record.partitions = vec![0; 10_001],
        |record| record.rules[0].rule.clear(),
        |record| record.rules[0].rule = "per-ip".into(),
        |record| record.rules[0].demand = 299,
        |record| record.rules[0].largest[0].counter = None,
        |record| record.rules[0].largest[0].demand = 99,
        |record| record.rules[0].largest = vec![record.rules[0].largest[0].clone(); LARGEST_LEN_MAX + 1],
        |record| {
            let rule = record.rules[1].clone();
            let numbered = |number: usize| v1::UsageOfRule { rule: number.to_string(), ..rule.clone() };
            record.rules = (0..=RULES_LEN_MAX).map(numbered).collect();
        },
    ];
    for (corrupt, number) in corruptions.into_iter().zip(0..) {
        let mut record = good.clone();
        corrupt(&mut record);
        assert!(decoded(&record).is_err(), "{number}");
    }
    let bytes = usage().encode();
    for len in 0..bytes.len() {
        let _ = UsageRecord::decode(&bytes[..len]);
    }
}
