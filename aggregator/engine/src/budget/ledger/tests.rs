//! Tables of cases for the ledger: each kind of entry, each reason for which one is void, floors, lowered quotas, and caps.

use super::*;

mod floors;

const X: CounterId = CounterId::from_u128(1);
const Y: CounterId = CounterId::from_u128(2);

/// Entries, each with the result of its application.
type Steps = Vec<(LedgerEntry, Result<(), Void>)>;

/// Returns the identity of the entry at a place of a case, from 1.
fn id(place: u64) -> EntryId {
    EntryId { writer: 1, sequence: place }
}

fn terms(generation: u64, quota: u64, floors: [u64; 3]) -> LedgerEntry {
    let floors = ["a", "b", "c"].into_iter().zip(floors).map(|(name, units)| (name.into(), units)).collect();
    let (rule, window_ms, term_ms, key_fingerprint) = ("rule".into(), 10, 12, 42);
    LedgerEntry::Terms(Terms { rule, generation, quota, window_ms, term_ms, key_fingerprint, floors })
}

fn terms_of_window(generation: u64, window_ms: u64) -> LedgerEntry {
    let LedgerEntry::Terms(terms) = terms(generation, 10, [1, 0, 0]) else { unreachable!() };
    LedgerEntry::Terms(Terms { window_ms, ..terms })
}

fn request_of(terms: u64, counter: CounterId, region: &str) -> LedgerEntry {
    LedgerEntry::Request(BudgetRequest { terms: id(terms), counter, region: region.into(), wants: 9 })
}

fn request(terms: u64, region: &str) -> LedgerEntry {
    request_of(terms, X, region)
}

fn grant(request: u64, units: u64) -> LedgerEntry {
    LedgerEntry::Grant { counter: X, request: id(request), units }
}

fn renewal(grant: u64) -> LedgerEntry {
    LedgerEntry::Renewal { counter: X, grant: id(grant), wants: 5 }
}

fn give_back(grant: u64, keeps: u64) -> LedgerEntry {
    LedgerEntry::GiveBack { counter: X, grant: id(grant), keeps }
}

fn expiry(grant: u64, last: u64) -> LedgerEntry {
    LedgerEntry::Expiry { counter: X, grant: id(grant), last: id(last) }
}

fn floor_give_back(terms: u64, region: &str) -> LedgerEntry {
    LedgerEntry::FloorGiveBack { terms: id(terms), region: region.into() }
}

fn valid(entries: impl IntoIterator<Item = LedgerEntry>) -> Steps {
    entries.into_iter().map(|entry| (entry, Ok(()))).collect()
}

fn last(entries: impl IntoIterator<Item = LedgerEntry>, entry: LedgerEntry, result: Result<(), Void>) -> Steps {
    let mut steps = valid(entries);
    steps.push((entry, result));
    steps
}

/// Applies the entries of a case. Checks their results, and that a void one changes nothing but the length.
fn applied(case: &str, steps: &Steps) -> Ledger {
    let mut ledger = Ledger::default();
    for (place, (entry, result)) in (1..).zip(steps) {
        let before = ledger.clone();
        assert_eq!(
            ledger.apply(&LedgerRecord { id: id(place), entry: entry.clone() }),
            *result,
            "{case}: entry {place}"
        );
        assert_eq!((ledger.len(), ledger.contains(id(place)), ledger.contains(id(place + 1))), (place, true, false));
        if result.is_err() {
            assert_eq!((&ledger.rules, &ledger.counters), (&before.rules, &before.counters), "{case}: entry {place}");
        }
    }
    ledger
}

/// Returns the units of each region, floors included.
fn held(ledger: &Ledger) -> [u64; 3] {
    let budget = ledger.budget("rule", X);
    ["a", "b", "c"].map(|region| budget.as_ref().map_or(0, |budget| budget.held(region)))
}

#[test]
fn an_entry_is_valid_or_void_for_a_reason() {
    let granted = || [terms(1, 10, [1, 0, 0]), request(1, "a"), grant(2, 4)];
    let renewed = || granted().into_iter().chain([renewal(3)]);
    let expired = || granted().into_iter().chain([expiry(3, 3)]);
    let further = || granted().into_iter().chain([request(1, "a"), grant(4, 1)]);
    for (case, steps, units) in [
        ("terms", valid([terms(1, 10, [1, 2, 3])]), [1, 2, 3]),
        ("newer terms", valid([terms(1, 10, [1, 2, 3]), terms(2, 10, [1, 2, 4])]), [1, 2, 4]),
        ("terms again", last([terms(1, 10, [1; 3])], terms(1, 10, [2; 3]), Err(Void::OtherTerms)), [1; 3]),
        ("older terms", last([terms(2, 10, [1; 3])], terms(1, 10, [2; 3]), Err(Void::OtherTerms)), [1; 3]),
        ("floors over the quota", last([], terms(1, 10, [5, 5, 1]), Err(Void::FloorsOverQuota)), [0; 3]),
        ("floors past u64", last([], terms(1, 10, [u64::MAX, 11, 0]), Err(Void::FloorsOverQuota)), [0; 3]),
        ("request", valid(granted().into_iter().take(2)), [1, 0, 0]),
        ("request without terms", last([], request(1, "a"), Err(Void::OtherTerms)), [0; 3]),
        (
            "request under older terms",
            last([terms(1, 10, [1, 0, 0]), terms(2, 10, [1, 0, 0])], request(1, "a"), Err(Void::OtherTerms)),
            [1, 0, 0],
        ),
        ("foreign region", last([terms(1, 10, [1, 0, 0])], request(1, "d"), Err(Void::UnknownRegion)), [1, 0, 0]),
        ("grant", valid(granted()), [5, 0, 0]),
        (
            "expiry before a longer window",
            last(granted().into_iter().chain([terms_of_window(2, 11)]), expiry(3, 3), Err(Void::Renewed)),
            [5, 0, 0],
        ),
        (
            "expiry after a longer window",
            valid(granted().into_iter().chain([terms_of_window(2, 11), expiry(3, 4)])),
            [1, 0, 0],
        ),
        (
            "expiry after a shorter window",
            valid(granted().into_iter().chain([terms_of_window(2, 9), expiry(3, 3)])),
            [1, 0, 0],
        ),
        ("grant of all", valid([terms(1, 10, [1, 0, 2]), request(1, "b"), grant(2, 7)]), [1, 7, 2]),
        ("refusal", valid([terms(1, 10, [1, 0, 0]), request(1, "a"), grant(2, 0)]), [1, 0, 0]),
        ("grant without a request", last([terms(1, 10, [1, 0, 0])], grant(2, 1), Err(Void::Answered)), [1, 0, 0]),
        ("second grant", last(granted(), grant(2, 4), Err(Void::Answered)), [5, 0, 0]),
        (
            "grant after a refusal",
            last([terms(1, 10, [0; 3]), request(1, "a"), grant(2, 0)], grant(2, 4), Err(Void::Answered)),
            [0; 3],
        ),
        (
            "grant for a replaced request",
            last([terms(1, 10, [0; 3]), request(1, "a"), request(1, "a")], grant(2, 4), Err(Void::Answered)),
            [0; 3],
        ),
        (
            "grant of more than the rest",
            last(granted().into_iter().chain([request(1, "b")]), grant(4, 6), Err(Void::NotFree)),
            [5, 0, 0],
        ),
        (
            "grant of reserved units",
            last([terms(1, 10, [1, 0, 2]), request(1, "b")], grant(2, 8), Err(Void::NotFree)),
            [1, 0, 2],
        ),
        ("further grant", valid(further()), [6, 0, 0]),
        ("renewal of the grant with further units", valid(further().chain([renewal(3)])), [6, 0, 0]),
        ("give-back from before the further units", last(further(), give_back(3, 0), Err(Void::Ended)), [6, 0, 0]),
        ("give-back with the further units", valid(further().chain([give_back(5, 2)])), [3, 0, 0]),
        ("renewal", valid(renewed()), [5, 0, 0]),
        ("renewal of no grant", last(granted(), renewal(2), Err(Void::Ended)), [5, 0, 0]),
        ("renewal of an expired grant", last(expired(), renewal(3), Err(Void::Ended)), [1, 0, 0]),
        ("give-back", valid(granted().into_iter().chain([give_back(3, 1)])), [2, 0, 0]),
        ("give-back of nothing", valid(granted().into_iter().chain([give_back(3, 9)])), [5, 0, 0]),
        ("give-back of all", valid(granted().into_iter().chain([give_back(3, 0)])), [1, 0, 0]),
        (
            "give-back of an ended grant",
            last(granted().into_iter().chain([give_back(3, 0)]), give_back(3, 0), Err(Void::Ended)),
            [1, 0, 0],
        ),
        ("give-back of an expired grant", last(expired(), give_back(3, 1), Err(Void::Ended)), [1, 0, 0]),
        ("expiry", valid(expired()), [1, 0, 0]),
        ("expiry after a renewal", last(renewed(), expiry(3, 3), Err(Void::Renewed)), [5, 0, 0]),
        ("expiry of a renewal", valid(renewed().chain([expiry(3, 4)])), [1, 0, 0]),
        ("second expiry", last(expired(), expiry(3, 3), Err(Void::Ended)), [1, 0, 0]),
        (
            "floor give-back",
            valid([terms(1, 10, [4, 0, 0]), terms(2, 10, [1, 0, 0]), floor_give_back(2, "a")]),
            [1, 0, 0],
        ),
        (
            "floor give-back to older terms",
            last([terms(1, 10, [4, 0, 0]), terms(2, 10, [1, 0, 0])], floor_give_back(1, "a"), Err(Void::OtherTerms)),
            [4, 0, 0],
        ),
    ] {
        let ledger = applied(case, &steps);
        assert_eq!(held(&ledger), units, "{case}");
        let by_all = ledger.budget("rule", X).map_or(0, |budget| budget.held_by_all());
        assert_eq!(by_all, units.iter().sum::<u64>(), "{case}");
    }
}

/// A request has one answer; after it, the counter is known only if a region holds more than its floor.
#[test]
fn a_request_is_answered_once() {
    let (start, answer) = ([terms(1, 10, [0; 3]), request(1, "a"), request(1, "b")], [grant(2, 4), grant(3, 0)]);
    let ledger = applied("asked", &valid(start.clone()));
    let pending = |ledger: &Ledger| {
        let budget = ledger.budget("rule", X).expect("there are terms");
        budget.pending().map(|(region, request)| (region.to_string(), request)).collect::<Vec<_>>()
    };
    assert_eq!(pending(&ledger), [("a".to_owned(), id(2)), ("b".to_owned(), id(3))]);
    let mut steps = valid(start.into_iter().chain(answer.clone()));
    steps.extend(answer.map(|again| (again, Err(Void::Answered))));
    let ledger = applied("answered", &steps);
    assert_eq!(pending(&ledger), []);
    let budget = ledger.budget("rule", X).expect("there are terms");
    assert_eq!((budget.wants("a"), budget.wants("b")), (9, 0), "a region without grants or requests wants nothing");
    steps.push((give_back(4, 0), Ok(())));
    assert_eq!(applied("given back", &steps).counters().count(), 0);
}

/// A mirror begins again at an earlier record, in the order of the ledger.
#[test]
fn a_repeated_segment_changes_nothing() {
    let entries = [
        terms(1, 10, [1, 0, 0]),
        request(1, "a"),
        request(1, "b"),
        grant(2, 4),
        grant(2, 4),
        renewal(4),
        expiry(4, 4),
        grant(3, 5),
        give_back(4, 1),
        terms(2, 8, [0, 0, 0]),
        floor_give_back(10, "a"),
        give_back(8, 0),
    ];
    let records: Vec<LedgerRecord> =
        (1..).zip(entries).map(|(place, entry)| LedgerRecord { id: id(place), entry }).collect();
    let mut expected = Ledger::default();
    let states: Vec<Ledger> = (records.iter())
        .map(|record| {
            let _ = expected.apply(record);
            expected.clone()
        })
        .collect();
    for from in 0..records.len() {
        for until in from..records.len() {
            let mut ledger = states[until].clone();
            for record in &records[from..=until] {
                assert_eq!(ledger.apply(record), Err(Void::Repeated));
            }
            assert_eq!(ledger, states[until], "entries {from} to {until}");
            for record in &records[until + 1..] {
                let _ = ledger.apply(record);
            }
            assert_eq!(ledger, expected, "after entries {from} to {until}");
        }
    }
}

#[test]
fn counters_are_capped() {
    let mut ledger = Ledger::default();
    let mut place = 0;
    let mut apply = |entry| {
        place += 1;
        ledger.apply(&LedgerRecord { id: id(place), entry })
    };
    let counter = |number: usize| CounterId::from_u128(number as u128 + 1);
    assert_eq!(apply(terms(1, 10, [0; 3])), Ok(()));
    for number in 0..COUNTERS_LEN_MAX {
        assert_eq!(apply(request_of(1, counter(number), "a")), Ok(()));
    }
    assert_eq!(apply(request_of(1, counter(COUNTERS_LEN_MAX), "a")), Err(Void::TooMany));
    assert_eq!(apply(request_of(1, X, "b")), Ok(()), "a known counter");
    assert_eq!(apply(LedgerEntry::Grant { counter: Y, request: id(3), units: 0 }), Ok(()));
    assert_eq!(apply(request_of(1, counter(COUNTERS_LEN_MAX), "a")), Ok(()), "the answered one is forgotten");
}
