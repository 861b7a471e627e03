//! Records of the topic `ledger`: golden bytes, and rejection of records that no Tollgate writes.

use tollgate_core::messages::ledger::{BudgetRequest, EntryId, LedgerEntry, Terms};
use tollgate_core::window::WIDTH_MS_MAX;
use v1::ledger_record::Entry;

use super::*;

const COUNTER: CounterId = CounterId::from_u128(0x0102_0304_0506_0708_090a_0b0c_0d0e_0f10);

fn id(sequence: u64) -> EntryId {
    EntryId { writer: u64::MAX - 1, sequence }
}

fn terms() -> Terms {
    Terms {
        rule: "per-key".into(),
        generation: 3,
        quota: 1_000,
        window_ms: 10_000,
        term_ms: 12_000,
        key_fingerprint: 42,
        floors: vec![("eu".into(), 100), ("us".into(), 0)],
    }
}

fn entries() -> [(LedgerEntry, &'static str); 7] {
    let request = BudgetRequest { terms: id(1), counter: COUNTER, region: "eu".into(), wants: u64::MAX };
    [
        (
            LedgerEntry::Terms(terms()),
            "0801120b09feffffffffffffff10011a290a077065722d6b6579100318e80720904e28e05d312a000000000000003a0265753a02757342026400",
        ),
        (
            LedgerEntry::Request(request),
            "0801120b09feffffffffffffff100222300a0b09feffffffffffffff1001121209080706050403020111100f0e0d0c0b0a091a02657520ffffffffffffffffff01",
        ),
        (
            LedgerEntry::Grant { counter: COUNTER, request: id(2), units: 300 },
            "0801120b09feffffffffffffff10032a240a1209080706050403020111100f0e0d0c0b0a09120b09feffffffffffffff100218ac02",
        ),
        (
            LedgerEntry::Renewal { counter: COUNTER, grant: id(3), wants: 400 },
            "0801120b09feffffffffffffff100432240a1209080706050403020111100f0e0d0c0b0a09120b09feffffffffffffff1003189003",
        ),
        (
            LedgerEntry::GiveBack { counter: COUNTER, grant: id(4), keeps: 0 },
            "0801120b09feffffffffffffff10053a210a1209080706050403020111100f0e0d0c0b0a09120b09feffffffffffffff1004",
        ),
        (
            LedgerEntry::FloorGiveBack { terms: id(5), region: "us".into() },
            "0801120b09feffffffffffffff100642110a0b09feffffffffffffff100512027573",
        ),
        (
            LedgerEntry::Expiry { counter: COUNTER, grant: id(6), last: id(7) },
            "0801120b09feffffffffffffff10074a2e0a1209080706050403020111100f0e0d0c0b0a09120b09feffffffffffffff10061a0b09feffffffffffffff1007",
        ),
    ]
}

#[test]
fn the_bytes_of_version_1_are_stable() {
    for ((entry, golden), sequence) in entries().into_iter().zip(1..) {
        pinned(&LedgerRecord { id: id(sequence), entry }, golden);
    }
}

fn decoded(entry: Option<Entry>) -> Result<LedgerRecord, WireError> {
    let id = Some(v1::LedgerEntryId { writer: 1, sequence: 1 });
    LedgerRecord::decode(&v1::LedgerRecord { version: VERSION, id, entry }.encode_to_vec())
}

#[test]
fn absurd_records_are_errors_and_never_panic() {
    let record = LedgerRecord { id: id(1), entry: LedgerEntry::Terms(terms()) };
    let Some(Entry::Terms(good)) = crate::ledger::to_wire(&record).entry else { panic!("terms") };
    assert!(decoded(Some(Entry::Terms(good.clone()))).is_ok());
    let corruptions: [fn(&mut v1::LedgerTerms); 12] = [
        |terms| terms.rule.clear(),
        |terms| terms.rule = "x".repeat(1_001),
        |terms| terms.quota = 0,
        |terms| terms.window_ms = 0,
        |terms| terms.window_ms = WIDTH_MS_MAX + 1,
        |terms| terms.term_ms = 0,
        |terms| terms.term_ms = u64::MAX,
        |terms| terms.floors.truncate(1),
        |terms| terms.regions[0].clear(),
        |terms| terms.regions[0] = "us".into(),
        |terms| (terms.regions, terms.floors) = (Vec::new(), Vec::new()),
        |terms| (terms.regions, terms.floors) = ((0..1_001).map(|name| name.to_string()).collect(), vec![0; 1_001]),
    ];
    for (corrupt, number) in corruptions.into_iter().zip(0..) {
        let mut terms = good.clone();
        corrupt(&mut terms);
        assert!(decoded(Some(Entry::Terms(terms))).is_err(), "{number}");
    }
    let (counter, id) = (v1::LedgerCounter::default(), v1::LedgerEntryId { writer: 1, sequence: 1 });
    let whole = v1::LedgerExpiry { counter: Some(counter), grant: Some(id), last: Some(id) };
    assert!(decoded(Some(Entry::Expiry(whole))).is_ok());
    for (entry, case) in [
        (None, "no entry"),
        (Some(Entry::Expiry(v1::LedgerExpiry { counter: None, ..whole })), "no counter"),
        (Some(Entry::Expiry(v1::LedgerExpiry { grant: None, ..whole })), "no grant"),
        (Some(Entry::Expiry(v1::LedgerExpiry { last: Some(v1::LedgerEntryId::default()), ..whole })), "number 0"),
        (Some(Entry::FloorGiveBack(v1::LedgerFloorGiveBack { terms: Some(id), region: String::new() })), "no region"),
    ] {
        assert!(decoded(entry).is_err(), "{case}");
    }
    assert!(
        LedgerRecord::decode(&v1::LedgerRecord { version: VERSION, ..Default::default() }.encode_to_vec()).is_err()
    );
    for (entry, _) in entries() {
        let bytes = LedgerRecord { id: self::id(1), entry }.encode();
        for len in 0..bytes.len() {
            let _ = LedgerRecord::decode(&bytes[..len]);
        }
    }
}
