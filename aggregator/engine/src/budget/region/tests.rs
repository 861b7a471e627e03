//! Sequences of a region's process: asking, a successor, a predecessor's give-back, another key. `faults`: a bus that is away, and a store
//! whose clock steps or whose data is lost.

use std::collections::BTreeSet;

use tollgate_core::messages::ledger::Terms;

use super::*;

mod faults;

const X: CounterId = CounterId::from_u128(1);
const GRANT: EntryId = EntryId { writer: 1, sequence: 2 };

fn ms(ms: u64) -> Timestamp {
    Timestamp::from_ms(ms)
}

fn terms() -> LedgerRecord {
    let (window_ms, term_ms, key_fingerprint) = (10_000, 12_000, 42);
    let floors = vec![("a".into(), 1), ("b".into(), 0)];
    let terms = Terms { rule: "rule".into(), generation: 1, quota: 60, window_ms, term_ms, key_fingerprint, floors };
    LedgerRecord { id: EntryId { writer: 1, sequence: 1 }, entry: LedgerEntry::Terms(terms) }
}

/// Returns a process of the region `a` that has read the terms, and entries after them.
fn process(writer: u64, key_fingerprint: u64, records: &[LedgerRecord]) -> RegionBudgets {
    let mut process = RegionBudgets::new(RegionMember { region: "a".into(), writer, key_fingerprint });
    for record in [terms()].iter().chain(records) {
        assert_eq!(poll(&mut process, 0, RegionInput::Record(record)), []);
    }
    process
}

fn poll(process: &mut RegionBudgets, now_ms: u64, input: RegionInput<'_>) -> Vec<RegionEffect> {
    let mut effects = Vec::new();
    process.poll(ms(now_ms), input, &mut effects);
    effects
}

fn offer(process: &mut RegionBudgets, now_ms: u64, units: u64) {
    poll(process, now_ms, RegionInput::Offered { rule: &"rule".into(), counter: X, units });
}

/// Offers units, and ticks. The store's clock is a million ms ahead.
fn tick(process: &mut RegionBudgets, now_ms: u64, units: u64) -> Vec<RegionEffect> {
    offer(process, now_ms, units);
    poll(process, now_ms, RegionInput::StoreTime(ms(1_000_000 + now_ms)));
    poll(process, now_ms, RegionInput::Tick)
}

fn appended(effects: &[RegionEffect]) -> Vec<LedgerRecord> {
    let record = |effect: &RegionEffect| match effect {
        RegionEffect::Append(record) => Some(record.clone()),
        _ => None,
    };
    effects.iter().filter_map(record).collect()
}

fn written(effects: &[RegionEffect]) -> Option<LimitWrite> {
    effects.iter().find_map(|effect| match effect {
        RegionEffect::Write { write, .. } => Some(*write),
        _ => None,
    })
}

/// Returns the request of a process, and the grant of 30 units for it.
fn granted(process: &mut RegionBudgets) -> Vec<LedgerRecord> {
    offer(process, 0, 10);
    let request = appended(&tick(process, 1_000, 0)).pop().expect("the demand is more than the floor");
    let grant = LedgerEntry::Grant { counter: X, request: request.id, units: 30 };
    vec![request, LedgerRecord { id: GRANT, entry: grant }]
}

#[test]
fn a_region_asks_and_uses_what_it_is_granted() {
    let mut process = process(7, 42, &[]);
    let records = granted(&mut process);
    let LedgerEntry::Request(request) = &records[0].entry else { panic!("a request") };
    assert_eq!((&*request.region, request.wants), ("a", 106));
    for record in &records {
        poll(&mut process, 2_000, RegionInput::Record(record));
    }
    let write = written(&tick(&mut process, 3_000, 2)).expect("the limit rises");
    // The term is counted from the asking, less the drift of two clocks.
    let (from, until) = (ms(1_000_000 + 1_000), ms(1_000_000 + 1_000 + 12_000 - 5));
    let limit = StoredLimit { units: 30, from, until, window_ms: 10_000, ledger: 1, as_of: 3, fence: None };
    // The demand of one busy second has fallen meanwhile.
    let shown = ShownBudget { wants: 69, moves: 0 };
    assert_eq!(write, LimitWrite { limit, seen: None, shown });
    let write = written(&tick(&mut process, 12_995, 20)).expect("its own clock says that the term has ended");
    assert_eq!(write.limit.units, 0);
}

#[test]
fn another_key_asks_for_nothing() {
    let mut process = process(7, 41, &[]);
    offer(&mut process, 0, 10);
    assert_eq!(appended(&tick(&mut process, 1_000, 0)), []);
}

#[test]
fn the_time_of_the_store_is_known_before_a_region_asks() {
    let mut process = process(7, 42, &[]);
    offer(&mut process, 0, 10);
    assert_eq!(appended(&poll(&mut process, 1_000, RegionInput::Tick)), []);
}

/// A process does not know when its predecessor asked: it uses a grant once it has read its own renewal. Until then, the limit of the
/// predecessor stays in the store, where it ends by itself.
#[test]
fn a_successor_renews_a_grant_before_it_uses_it() {
    let records = granted(&mut process(7, 42, &[]));
    let mut successor = process(8, 42, &records);
    tick(&mut successor, 2_000, 0);
    let effects = tick(&mut successor, 3_000, 2);
    assert_eq!(written(&effects), None);
    let renewal = appended(&effects).pop().expect("a renewal");
    assert!(matches!(renewal.entry, LedgerEntry::Renewal { grant: GRANT, .. }), "{renewal:?}");
    assert_eq!(written(&tick(&mut successor, 3_500, 1)), None);
    poll(&mut successor, 4_000, RegionInput::Record(&renewal));
    let write = written(&tick(&mut successor, 4_000, 1)).expect("the limit is renewed");
    assert_eq!((write.limit.units, write.limit.until), (30, ms(1_000_000 + 3_000 + 12_000 - 5)));
}

/// A renewal that does not come back keeps nobody from learning the fence of the predecessor.
#[test]
fn a_successor_whose_renewal_is_lost_writes_its_limit_after_two_seconds() {
    let records = granted(&mut process(7, 42, &[]));
    let mut successor = process(8, 42, &records);
    let written_at = |successor: &mut _, now_ms| written(&tick(successor, now_ms, 1)).map(|write| write.limit.units);
    let units = [2_000, 3_000, 3_999, 4_000].map(|now_ms| written_at(&mut successor, now_ms));
    assert_eq!(units, [None, None, None, Some(0)]);
}

/// The request waits in the ledger while the demand goes. A process that had forgotten the demand would renew the units.
#[test]
fn units_that_come_after_the_demand_are_given_back() {
    let mut process = process(7, 42, &[]);
    let records = granted(&mut process);
    poll(&mut process, 1_100, RegionInput::Record(&records[0]));
    for now_ms in (1_500..12_000).step_by(500) {
        tick(&mut process, now_ms, 0);
    }
    poll(&mut process, 12_000, RegionInput::Record(&records[1]));
    let effects = tick(&mut process, 12_200, 0);
    let fence = written(&effects).and_then(|write| write.limit.fence);
    assert_eq!((fence.map(|fence| (fence.grant, fence.keeps)), appended(&effects)), (Some((GRANT, 0)), vec![]));
}

/// The store shows a fence that a process did not set: the process appends its give-back once the window is within the kept units.
#[test]
fn a_successor_appends_the_give_back_of_its_predecessor() {
    let records = granted(&mut process(7, 42, &[]));
    let mut successor = process(8, 42, &records);
    tick(&mut successor, 2_000, 0);
    tick(&mut successor, 3_000, 2);
    let fence = Fence { id: EntryId { writer: 70, sequence: 1 }, grant: GRANT, keeps: 4 };
    let limit = StoredLimit { units: 4, until: ms(1_013_000), as_of: 3, fence: Some(fence), ..StoredLimit::default() };
    let answer = |used| RegionInput::Written { counter: X, answer: LimitAnswer { limit, floor: 1, used } };
    assert_eq!(poll(&mut successor, 3_001, answer(6)), []);
    let give_back = LedgerEntry::GiveBack { counter: X, grant: GRANT, keeps: 4 };
    let give_back = LedgerRecord { id: fence.id, entry: give_back };
    assert_eq!(poll(&mut successor, 3_002, answer(5)), [RegionEffect::Append(give_back.clone())]);
    assert_eq!(poll(&mut successor, 4_001, answer(5)), [], "it is on its way");
    assert_eq!(poll(&mut successor, 4_002, answer(5)), [RegionEffect::Append(give_back.clone())], "it may be lost");
    // The limit rises by a writer that has read the give-back.
    poll(&mut successor, 4_003, RegionInput::Record(&give_back));
    let write = written(&tick(&mut successor, 4_004, 1)).expect("a write without the fence");
    assert_eq!((write.limit.fence, write.seen), (None, Some(fence.id)));
}

/// A successor measures the demand anew: it gives nothing back before the estimate has settled.
#[test]
fn a_successor_keeps_the_grants_until_it_knows_the_demand() {
    let records = granted(&mut process(7, 42, &[]));
    let mut successor = process(8, 42, &records);
    let fence = |effects: &[RegionEffect]| written(effects).and_then(|write| write.limit.fence);
    for now_ms in [2_000, 2_200, 6_999] {
        assert_eq!(fence(&tick(&mut successor, now_ms, 0)), None, "{now_ms}");
    }
    let fence = fence(&tick(&mut successor, 7_000, 0)).expect("nobody wants the units");
    assert_eq!((fence.grant, fence.keeps), (GRANT, 0));
}

/// A link is cut while a give-back is on its way, and the limit of the store does not change any more. The store is
/// asked again, and the give-back is repeated. Without it, the region would ask for no units ever again.
#[test]
fn a_give_back_that_is_lost_is_repeated() {
    let records = granted(&mut process(7, 42, &[]));
    let mut region = process(8, 42, &records);
    tick(&mut region, 2_000, 0);
    let write = written(&tick(&mut region, 7_000, 0)).expect("nobody wants the units");
    let answer = LimitAnswer { limit: write.limit, floor: 1, used: 0 };
    let give_back = poll(&mut region, 7_001, RegionInput::Written { counter: X, answer });
    assert!(matches!(&give_back[..], [RegionEffect::Append(_)]), "{give_back:?}");
    assert_eq!(written(&tick(&mut region, 8_000, 0)), None, "it is on its way");
    assert_eq!(written(&tick(&mut region, 8_001, 0)), Some(write));
    assert_eq!(poll(&mut region, 8_002, RegionInput::Written { counter: X, answer }), give_back);
}

/// A wish takes the place of the demand for one term.
#[test]
fn an_operator_moves_units_for_a_term() {
    let mut taker = process(7, 42, &[]);
    poll(&mut taker, 1_000, RegionInput::Wanted { rule: &"rule".into(), counter: X, units: 40 });
    let request = appended(&tick(&mut taker, 1_000, 0)).pop().expect("it has no demand, and asks");
    assert!(matches!(&request.entry, LedgerEntry::Request(request) if request.wants == 58), "{request:?}");
    assert_eq!(appended(&tick(&mut taker, 13_000, 0)), [], "the term has passed");

    let records = granted(&mut process(7, 42, &[]));
    let mut giver = process(8, 42, &records);
    let fence = |effects: &[RegionEffect]| written(effects).and_then(|write| write.limit.fence);
    assert_eq!(fence(&tick(&mut giver, 2_000, 20)), None, "it has a demand");
    poll(&mut giver, 2_000, RegionInput::Wanted { rule: &"rule".into(), counter: X, units: 0 });
    assert_eq!(fence(&tick(&mut giver, 2_200, 2)).map(|fence| fence.keeps), Some(0));
}

/// A request that the ledger takes as void is repeated later each time, until there are other terms.
#[test]
fn a_void_request_is_not_repeated_with_each_tick() {
    // The ledger that is read here has no terms of that identity.
    let mut region = process(7, 42, &[]);
    let mut asked_at = Vec::new();
    for now_ms in (1_000..40_000).step_by(200) {
        offer(&mut region, now_ms - 200, 20);
        for record in appended(&tick(&mut region, now_ms, 0)) {
            let LedgerEntry::Request(request) = record.entry else { panic!("a request") };
            let request = BudgetRequest { terms: EntryId { writer: 99, sequence: 1 }, ..request };
            let record = LedgerRecord { entry: LedgerEntry::Request(request), ..record };
            poll(&mut region, now_ms, RegionInput::Record(&record));
            asked_at.push(now_ms);
        }
    }
    assert_eq!(asked_at, [1_000, 1_200, 2_200, 4_200, 8_200, 16_200, 28_200]);
    let LedgerRecord { entry: LedgerEntry::Terms(newer), .. } = terms() else { unreachable!() };
    let newer = LedgerEntry::Terms(Terms { generation: 2, ..newer });
    poll(
        &mut region,
        30_000,
        RegionInput::Record(&LedgerRecord { id: EntryId { writer: 1, sequence: 3 }, entry: newer }),
    );
    assert_eq!(appended(&tick(&mut region, 40_000, 20)).len(), 1);
}

/// A region that the terms do not name any more asks for nothing, renews nothing, and gives all grants back. A successor does so before it
/// knows the demand.
#[test]
fn a_region_that_has_left_the_terms_gives_back() {
    let mut records = granted(&mut process(7, 42, &[]));
    let LedgerRecord { entry: LedgerEntry::Terms(without), .. } = terms() else { unreachable!() };
    let without = Terms { generation: 2, floors: vec![("b".into(), 0)], ..without };
    records.push(LedgerRecord { id: EntryId { writer: 1, sequence: 3 }, entry: LedgerEntry::Terms(without) });
    let mut successor = process(8, 42, &records);
    let effects = tick(&mut successor, 2_000, 20);
    assert_eq!(appended(&effects), []);
    let fence = written(&effects).and_then(|write| write.limit.fence).expect("all is owed");
    assert_eq!((fence.grant, fence.keeps), (GRANT, 0));
    for now_ms in (3_000..20_000).step_by(200) {
        assert_eq!(appended(&tick(&mut successor, now_ms, 20)), [], "{now_ms}");
    }
}

/// Several processes of a region share its counters. The one with the first partition sets the floors.
#[test]
fn a_process_takes_care_of_its_part_only() {
    let partition = X.partition(8);
    let part = |own: &[u32]| {
        let own: BTreeSet<_> = own.iter().copied().collect();
        RegionPartitions { partitions: 8, counted: own.clone(), own }
    };
    let other = (partition + 1) % 8;
    for (own, asks, sets_floors) in [(partition, true, partition == 0), (other, false, other == 0)] {
        let mut process = process(7, 42, &[]);
        poll(&mut process, 0, RegionInput::Assigned(&part(&[own])));
        offer(&mut process, 0, 10);
        let effects = tick(&mut process, 1_000, 0);
        assert_eq!(appended(&effects).len(), usize::from(asks), "{own}");
        let floors = effects.iter().filter(|effect| matches!(effect, RegionEffect::WriteFloor { .. })).count();
        assert_eq!(floors, usize::from(sets_floors), "{own}");
    }
    let records = granted(&mut process(7, 42, &[]));
    let mut successor = process(8, 42, &records);
    poll(&mut successor, 0, RegionInput::Assigned(&part(&[other])));
    assert_eq!(written(&tick(&mut successor, 2_000, 2)), None, "another process has the grant");
    poll(&mut successor, 2_100, RegionInput::Assigned(&part(&[partition])));
    let entries = [2_200, 3_000].map(|now_ms| appended(&tick(&mut successor, now_ms, 2)));
    assert!(entries.iter().flatten().next().is_some(), "the partition was handed over");
}
