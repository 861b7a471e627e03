//! A region whose bus is away, whose store's clock steps back, or whose store has lost its data.

use super::*;

/// While the calls cannot be counted, a region keeps what it holds: it renews and gives nothing back. A successor that has never known
/// the demand wants what its predecessor wanted.
#[test]
fn a_region_keeps_its_units_while_the_calls_are_not_counted() {
    let part = |counted: &[u32]| RegionPartitions {
        partitions: 1,
        own: [0].into(),
        counted: counted.iter().copied().collect(),
    };
    let mut holder = process(7, 42, &[]);
    poll(&mut holder, 0, RegionInput::Assigned(&part(&[0])));
    let records = granted(&mut holder);
    let successor = process(8, 42, &records);
    for record in &records {
        poll(&mut holder, 2_000, RegionInput::Record(record));
    }
    for (case, mut process) in [("holder", holder), ("successor", successor)] {
        poll(&mut process, 2_000, RegionInput::Assigned(&part(&[])));
        let mut renewals = 0;
        for now_ms in (2_000..62_000).step_by(200) {
            let effects = tick(&mut process, now_ms, 0);
            let write = written(&effects);
            assert_eq!(write.and_then(|write| write.limit.fence), None, "{case} gives back at {now_ms}");
            for record in appended(&effects) {
                let LedgerEntry::Renewal { grant: GRANT, wants, .. } = record.entry else { continue };
                assert_eq!(wants, if case == "holder" { 106 } else { 31 }, "{case}");
                renewals += 1;
                poll(&mut process, now_ms, RegionInput::Record(&record));
            }
            let lives = write.is_none_or(|write| write.limit.units == 30);
            assert!(lives || (case == "successor" && now_ms < 2_400), "{case}: {write:?} at {now_ms}");
            if let Some(LimitWrite { limit, .. }) = write {
                let answer = LimitAnswer { limit, floor: 1, used: 0 };
                poll(&mut process, now_ms, RegionInput::Written { counter: X, answer });
            }
        }
        assert_eq!(renewals, 10, "{case}: every half of a term");
        // All calls are counted again, and there are none.
        poll(&mut process, 62_000, RegionInput::Assigned(&part(&[0])));
        let fence = |effects: &[RegionEffect]| written(effects).and_then(|write| write.limit.fence);
        assert_eq!(fence(&tick(&mut process, 66_799, 0)), None, "{case}: late calls may come");
        for now_ms in (66_800..90_000).step_by(1_000) {
            tick(&mut process, now_ms, 0);
        }
        assert!(process.counters[&X].1.giving.is_some(), "{case} gives back");
    }
}

/// The ends of the terms step back with the store's clock, and the limit is written anew. Late answers are no step.
#[test]
fn a_store_clock_that_steps_back_lengthens_no_term() {
    for (case, by_ms, is_written) in
        [("a late answer", 1_001, false), ("a step", 1_002, true), ("hours", 900_000, true)]
    {
        let mut process = process(7, 42, &[]);
        for record in &granted(&mut process) {
            poll(&mut process, 2_000, RegionInput::Record(record));
        }
        let write = written(&tick(&mut process, 3_000, 2)).expect("the limit rises");
        let answer = LimitAnswer { limit: write.limit, floor: 1, used: 0 };
        poll(&mut process, 3_000, RegionInput::Written { counter: X, answer });
        assert_eq!(written(&tick(&mut process, 4_000, 2)), None, "{case}: the store has the limit");
        poll(&mut process, 5_000, RegionInput::StoreTime(ms(1_005_000 - by_ms)));
        let rewritten = written(&poll(&mut process, 5_000, RegionInput::Tick)).map(|write| write.limit);
        // The drift since the last answer is no step.
        let shift = |time: Timestamp| time.minus_ms(by_ms - 1);
        let StoredLimit { from, until, .. } = write.limit;
        let expected = StoredLimit { from: shift(from), until: shift(until), ..write.limit };
        assert_eq!(rewritten, is_written.then_some(expected), "{case}");
    }
}

/// The store has lost its data, perhaps with the give-back of another process. The region has its floor until it has
/// read its own renewal, which it asks for afterwards.
#[test]
fn a_region_has_its_floor_after_its_store_lost_its_data() {
    let mut process = process(7, 42, &[]);
    let floor_of = |effects: &[RegionEffect]| {
        effects.iter().find_map(|effect| match effect {
            RegionEffect::WriteFloor { write, .. } => Some(write.limit),
            _ => None,
        })
    };
    let rule = "rule".into();
    for record in &granted(&mut process) {
        poll(&mut process, 2_000, RegionInput::Record(record));
    }
    let effects = tick(&mut process, 3_000, 2);
    let (limit, floor) = (written(&effects).expect("it rises").limit, floor_of(&effects).expect("a floor"));
    poll(&mut process, 3_000, RegionInput::Written { counter: X, answer: LimitAnswer { limit, floor: 1, used: 0 } });
    poll(&mut process, 3_000, RegionInput::FloorWritten { rule: &rule, limit: floor });
    let effects = tick(&mut process, 4_000, 2);
    let probe = floor_of(&effects).expect("the store is asked");
    assert_eq!((written(&effects), StoredLimit { as_of: floor.as_of, ..probe }), (None, floor));
    poll(&mut process, 4_000, RegionInput::FloorWritten { rule: &rule, limit: probe });
    let effects = tick(&mut process, 4_200, 2);
    assert_eq!(written(&effects).map(|write| write.limit.units), Some(0), "the probe was accepted");
    let is_renewal = |record: &LedgerRecord| matches!(record.entry, LedgerEntry::Renewal { grant: GRANT, .. });
    let renewal = appended(&effects).into_iter().find(is_renewal).expect("a renewal");
    poll(&mut process, 4_400, RegionInput::Record(&renewal));
    assert_eq!(written(&tick(&mut process, 4_400, 2)).map(|write| write.limit.units), Some(30));
}
