//! Floors that rise and fall, a quota that is lowered, and the largest quotas.

use super::*;

#[test]
fn floors_rise_when_units_are_free_and_fall_by_give_backs() {
    let raised = [terms(1, 10, [2, 0, 0]), request(1, "b"), grant(2, 7), terms(2, 10, [5, 0, 0])];
    let lowered = [terms(1, 10, [6, 2, 0]), terms(2, 10, [1, 2, 7])];
    for (case, steps, units, floor_of_all) in [
        ("one unit is free", valid(raised.clone()), [3, 7, 0], 3),
        ("a part is given back", valid(raised.clone().into_iter().chain([give_back(3, 6)])), [4, 6, 0], 4),
        ("enough is given back", valid(raised.clone().into_iter().chain([give_back(3, 5)])), [5, 5, 0], 5),
        ("the grant expires", valid(raised.into_iter().chain([expiry(3, 3)])), [5, 0, 0], 5),
        ("others have lowered theirs not yet", valid(lowered.clone()), [6, 2, 2], 6),
        ("by another region", valid(lowered.clone().into_iter().chain([floor_give_back(2, "b")])), [6, 2, 2], 6),
        ("by the region", valid(lowered.clone().into_iter().chain([floor_give_back(2, "a")])), [1, 2, 7], 1),
        (
            "once and again",
            valid(lowered.into_iter().chain([floor_give_back(2, "a"), floor_give_back(2, "a")])),
            [1, 2, 7],
            1,
        ),
        (
            "a region leaves the rule",
            {
                let LedgerEntry::Terms(mut alone) = terms(2, 10, [9, 0, 0]) else { unreachable!() };
                alone.floors.truncate(1);
                valid([terms(1, 10, [1, 3, 0]), LedgerEntry::Terms(alone), floor_give_back(2, "b")])
            },
            [9, 0, 0],
            9,
        ),
    ] {
        let ledger = applied(case, &steps);
        assert_eq!(held(&ledger), units, "{case}");
        assert_eq!(ledger.floor_of_all("rule", "a"), floor_of_all, "{case}");
    }
}

/// The units of a region that the terms do not name any more come back by its give-backs, or when its term has ended.
#[test]
fn a_region_leaves_the_terms() {
    let LedgerEntry::Terms(mut without_b) = terms(2, 10, [1, 0, 0]) else { unreachable!() };
    without_b.floors.remove(1);
    let left = || {
        let held = [terms(1, 10, [1, 2, 0]), request(1, "b"), grant(2, 4), request(1, "b")];
        held.into_iter().chain([LedgerEntry::Terms(without_b.clone())])
    };
    for (case, steps, units) in [
        ("it holds them still", valid(left()), [1, 6, 0]),
        ("renewal", last(left(), renewal(3), Err(Void::UnknownRegion)), [1, 6, 0]),
        ("grant for an earlier request", last(left(), grant(4, 1), Err(Void::UnknownRegion)), [1, 6, 0]),
        ("refusal", valid(left().chain([grant(4, 0)])), [1, 6, 0]),
        ("request", last(left(), request(5, "b"), Err(Void::UnknownRegion)), [1, 6, 0]),
        ("give-back", valid(left().chain([give_back(3, 0)])), [1, 2, 0]),
        ("expiry", valid(left().chain([expiry(3, 3)])), [1, 2, 0]),
        ("give-back of the floor", valid(left().chain([expiry(3, 3), floor_give_back(5, "b")])), [1, 0, 0]),
        ("it comes again", valid(left().chain([terms(3, 10, [1, 2, 0]), renewal(3)])), [1, 6, 0]),
    ] {
        let ledger = applied(case, &steps);
        assert_eq!(held(&ledger), units, "{case}");
        let has_left = units[1] > 0 && case != "it comes again";
        let removed: Vec<_> = ledger.floors_of_removed("rule").into_iter().collect();
        assert_eq!(removed, if has_left { vec![("b".into(), 2)] } else { vec![] }, "{case}");
    }
}

/// The floor that the store may enforce for all counters is the least of them: one of them waits for units.
#[test]
fn the_floor_of_all_counters_is_the_lowest() {
    let mut steps = valid([terms(1, 10, [2, 0, 0]), request(1, "b"), grant(2, 7), terms(2, 10, [5, 0, 0])]);
    steps.push((request_of(4, Y, "c"), Ok(())));
    let ledger = applied("two counters", &steps);
    let floor = |counter| ledger.budget("rule", counter).map(|budget| budget.floor("a"));
    assert_eq!((floor(X), floor(Y)), (Some(3), Some(5)));
    assert_eq!((ledger.floor_of_all("rule", "a"), ledger.floor_of_all("other", "a")), (3, 0));
    assert_eq!((ledger.floor_of_any("rule", "a"), ledger.floor_of_any("other", "a")), (5, 0));
}

/// A lowered quota holds as soon as the regions have given back; no units are granted meanwhile.
#[test]
fn a_lowered_quota_is_reached_by_give_backs() {
    let start =
        [terms(1, 10, [1, 0, 0]), request(1, "a"), grant(2, 5), request(1, "b"), grant(4, 4), terms(2, 6, [0; 3])];
    let mut steps = valid(start);
    let by_all = |steps: &Steps| {
        let budget = applied("lowered", steps).budget("rule", X).expect("there are terms");
        (budget.held_by_all(), budget.free(6))
    };
    assert_eq!(by_all(&steps), (10, 0));
    steps.push((request(6, "c"), Ok(())));
    steps.push((grant(7, 1), Err(Void::NotFree)));
    steps.push((floor_give_back(6, "a"), Ok(())));
    assert_eq!(by_all(&steps), (9, 0));
    steps.push((give_back(3, 2), Ok(())));
    assert_eq!(by_all(&steps), (6, 0));
    steps.push((grant(7, 1), Err(Void::NotFree)));
    steps.push((expiry(5, 5), Ok(())));
    assert_eq!(by_all(&steps), (2, 4));
    steps.push((grant(7, 5), Err(Void::NotFree)));
    steps.push((grant(7, 4), Ok(())));
    assert_eq!(by_all(&steps), (6, 0));
    assert_eq!(held(&applied("lowered", &steps)), [2, 0, 4]);
}

#[test]
fn the_largest_quotas_do_not_overflow() {
    const MAX: u64 = u64::MAX;
    for (case, steps, units) in [
        ("a floor", last([terms(1, MAX, [MAX, 0, 0]), request(1, "b")], grant(2, 1), Err(Void::NotFree)), [MAX, 0, 0]),
        ("floors past it", last([], terms(1, MAX, [MAX, 1, 0]), Err(Void::FloorsOverQuota)), [0; 3]),
        (
            "a floor and a grant",
            last(
                [terms(1, MAX, [9, 0, 0]), request(1, "b"), grant(2, MAX - 9), request(1, "a")],
                grant(4, 1),
                Err(Void::NotFree),
            ),
            [9, MAX - 9, 0],
        ),
        (
            "more than the rest",
            last([terms(1, MAX, [9, 0, 0]), request(1, "b")], grant(2, MAX), Err(Void::NotFree)),
            [9, 0, 0],
        ),
        (
            "a lowered quota",
            last(
                [terms(1, MAX, [0; 3]), request(1, "a"), grant(2, MAX), terms(2, 0, [0; 3]), request(4, "b")],
                grant(5, 1),
                Err(Void::NotFree),
            ),
            [MAX, 0, 0],
        ),
        ("kept units", valid([terms(1, MAX, [0; 3]), request(1, "a"), grant(2, 1), give_back(3, MAX)]), [1, 0, 0]),
    ] {
        assert_eq!(held(&applied(case, &steps)), units, "{case}");
    }
}

/// A counter whose floors were behind those of the rule is forgotten once they are equal.
#[test]
fn a_counter_is_forgotten_when_its_floors_have_caught_up() {
    let raised = [terms(2, 20, [0, 8, 0]), terms(3, 20, [9, 8, 0]), expiry(3, 3)];
    let start = [terms(1, 20, [0, 0, 10]), request(1, "a"), grant(2, 4)].into_iter().chain(raised);
    let ledger = applied("behind", &valid(start.clone()));
    assert_eq!((held(&ledger), ledger.floor_of_all("rule", "a")), ([4, 6, 10], 2));
    let ledger = applied("equal", &valid(start.chain([floor_give_back(5, "c")])));
    assert_eq!((held(&ledger), ledger.floor_of_all("rule", "a")), ([9, 8, 0], 9));
    assert_eq!(ledger.counters.len(), 0);
}
