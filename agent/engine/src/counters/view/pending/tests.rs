//! Pending charges of one counter, without an engine.

use super::*;

const AGEING: Ageing = Ageing { sub_window_ms: 100, kept_ms: 60_000 };

const fn at(ms: u64) -> Timestamp {
    Timestamp::from_ms(ms)
}

fn new(ms: u64, units: u64) -> Unsynced {
    Unsynced { at: at(ms), units, request: None, own_id: id(ms), has_room: true }
}

/// Units of a call with an id.
fn named(ms: u64) -> Unsynced {
    Unsynced { request: Some(id(1_000_000 + ms)), ..new(ms, 1) }
}

const fn id(ms: u64) -> RequestId {
    RequestId::from_u128(ms as u128)
}

/// The ids of the entries that the maintenance sends next.
fn sent(unsynced: &mut PendingCharges, len_max: usize) -> Vec<RequestId> {
    unsynced.send_next(len_max).iter().filter_map(|entry| entry.id).collect()
}

#[test]
fn units_are_unsynced_until_the_store_has_confirmed_them() {
    let mut unsynced = PendingCharges::default();
    unsynced.add(new(10, 2), AGEING);
    unsynced.add(new(10, 1), AGEING);
    let first = Pending::admitted(at(10), 3, id(10));
    assert_eq!(unsynced.send(9).collect::<Vec<_>>(), [&first], "units of one instant are one entry");
    unsynced.add(new(20, 4), AGEING);
    assert!(unsynced.holds_unsent(at(20), 4) && !unsynced.holds_unsent(at(20), 5));
    assert!(!unsynced.holds_unsent(at(10), 3), "the store may know them");
    assert_eq!(sent(&mut unsynced, 9), [id(10)], "what was sent is sent again, under its id");
    assert_eq!(unsynced.send(9).count(), 2, "a call carries all");
    assert_eq!([unsynced.end(id(10)), unsynced.end(id(10))], [3, 0]);
    assert_eq!((unsynced.size().units, unsynced.is_empty()), (4, false));
    unsynced.end(id(20));
    assert!(unsynced.is_empty());
}

/// The ids of the entries and their units.
fn left(unsynced: &PendingCharges) -> Vec<(RequestId, u64)> {
    unsynced.closed.iter().chain(&unsynced.open).filter_map(|entry| Some((entry.id?, entry.units))).collect()
}

fn refund(ms: u64, units: u64, id: Option<RequestId>) -> Pending {
    Pending { id, ..Pending::returned(at(ms), units) }
}

/// C6: calls of one instant are told apart, whether their slots were sent or not.
#[test]
fn a_release_removes_the_slots_of_its_own_call() {
    let mut unsynced = PendingCharges::default();
    let call = |number| Unsynced { own_id: id(number), ..new(10, 1) };
    unsynced.add_slots(call(1), AGEING);
    assert_eq!(unsynced.send(9).count(), 1);
    for number in [2, 3, 4] {
        unsynced.add_slots(call(number), AGEING);
    }
    assert_eq!(left(&unsynced), [(id(1), 1), (id(2), 3)], "slots of one instant are one entry");
    assert!(!unsynced.holds_unsent_slots(id(1)) && unsynced.holds_unsent_slots(id(3)), "the store may know the first");
    unsynced.remove_slots(id(3));
    unsynced.remove_slots(id(3));
    assert_eq!(left(&unsynced), [(id(1), 1), (id(2), 2)], "a call is released once");
    unsynced.remove_slots(id(1));
    unsynced.remove_slots(id(2));
    assert_eq!(left(&unsynced), [(id(2), 1)], "the entry keeps its id, and the slot of the last call");
    assert_eq!((unsynced.send(9).count(), unsynced.end(id(2))), (1, 1));
    unsynced.add_slots(call(5), AGEING);
    unsynced.remove_slots(id(4));
    assert_eq!(left(&unsynced), [(id(5), 1)], "a call that the store has charged is not looked for here");
}

/// All decisions on a request with an id are one charge.
#[test]
fn the_release_of_a_request_removes_the_slots_of_all_its_decisions() {
    let mut unsynced = PendingCharges::default();
    for ms in [10, 20] {
        unsynced.add_slots(Unsynced { request: Some(id(1)), ..new(ms, 1) }, AGEING);
    }
    unsynced.remove_slots(id(1));
    assert!(unsynced.is_empty() && unsynced.size() == PendingSize::default());
}

/// capped: past the cap, the slot of the oldest call is no longer found, and stays in its entry.
#[test]
fn slots_that_are_too_many_are_backfilled() {
    let mut unsynced = PendingCharges::default();
    let calls = SLOTS_LEN_MAX as u64 + 1;
    (0..calls).for_each(|number| unsynced.add_slots(new(number, 1), Ageing { sub_window_ms: 1, ..AGEING }));
    (0..calls).for_each(|number| unsynced.remove_slots(id(number)));
    assert_eq!(
        (unsynced.size().units, unsynced.slots.len()),
        (1, 0),
        "those that joined another entry are found there"
    );
}

/// capped: past the cap on refunds, the oldest is forgotten and its units are counted. Late answers of one instant need one
/// refund; one that the store knows by its request stays apart.
#[test]
fn past_the_cap_the_oldest_refund_is_forgotten_and_counted() {
    let mut unsynced = PendingCharges::default();
    (0..10_000).for_each(|_| unsynced.add_refund(refund(5, 1, None)));
    unsynced.add_refund(refund(5, 2, Some(id(1))));
    unsynced.add_refund(refund(5, 3, Some(id(2))));
    assert_eq!((unsynced.returned.len(), unsynced.forgotten), (3, 0));
    let later = REFUNDS_LEN_MAX as u64;
    (0..later).rev().for_each(|ms| unsynced.add_refund(refund(10 + ms, 1, None)));
    assert_eq!((unsynced.returned.len(), unsynced.size().forgotten_refund_units), (REFUNDS_LEN_MAX, 10_005));
    let mut left = 0;
    while !unsynced.is_empty() {
        let sent = unsynced.send_next(128);
        assert!(sent.len() <= 128 && sent.iter().all(|refund| refund.at >= at(10)), "{sent:?}");
        left += sent.iter().map(|refund| refund.units).sum::<u64>();
    }
    assert_eq!(left, later, "no other units are lost");
}

#[test]
fn a_long_outage_needs_few_entries_and_a_call_carries_few() {
    let mut unsynced = PendingCharges::default();
    for ms in 0..10_000 {
        unsynced.add(new(ms, 1), Ageing { sub_window_ms: 1_000, ..AGEING });
    }
    assert!(unsynced.size().entries <= OPEN_LEN_MAX + 10 && !unsynced.fits_in_call());
    assert_eq!(unsynced.size().units, 10_000);
}

/// capped, I12: a burst, and then calls that are far apart: entries become one, and no unit is lost.
#[test]
fn past_the_cap_no_unit_is_lost() {
    let mut unsynced = PendingCharges::default();
    let bursts = OPEN_LEN_MAX as u64 + 2;
    (0..bursts).for_each(|ms| unsynced.add(new(ms, 1), Ageing { sub_window_ms: 1, ..AGEING }));
    (1..=20).for_each(|calls| unsynced.add(new(calls * 6_000, 1), Ageing { sub_window_ms: 5_000, ..AGEING }));
    assert!(unsynced.size().entries <= OPEN_LEN_MAX + 1);
    assert_eq!(unsynced.size().units, bursts + 20);
}

/// capped: calls with an id past the cap are backfilled with others, under an id that no call has.
#[test]
fn calls_with_an_id_are_capped_and_no_unit_is_lost() {
    let mut unsynced = PendingCharges::default();
    let calls = 3 * CLOSED_LEN_MAX as u64;
    (0..calls).for_each(|ms| unsynced.add(named(ms), AGEING));
    let PendingSize { units, entries, joined, .. } = unsynced.size();
    assert!(entries <= UNSYNCED_ENTRIES_OF_COUNTER_MAX, "{entries}");
    assert_eq!((units, joined), (calls, calls - CLOSED_LEN_MAX as u64));
    let mut ended = 0;
    while unsynced.has_units() {
        let ids = sent(&mut unsynced, 100);
        assert!(ids.len() <= 100, "the rest travels with the next request");
        ended += ids.iter().map(|id| unsynced.end(*id)).sum::<u64>();
    }
    assert_eq!(ended, calls);
}

/// Two attempts of a call have one id; the store charges one of them.
#[test]
fn entries_of_one_id_end_one_by_one() {
    let mut unsynced = PendingCharges::default();
    let twice = [named(10), Unsynced { at: at(20), ..named(10) }];
    for new in twice {
        unsynced.add(new, AGEING);
    }
    assert_eq!(sent(&mut unsynced, 1).len(), 1);
    assert_eq!((unsynced.end(id(1_000_010)), unsynced.size().units), (1, 1));
    assert_eq!((unsynced.end(id(1_000_010)), unsynced.is_empty()), (1, true));
}

/// capped: units that no window holds, and their refunds, make room for others.
#[test]
fn past_the_cap_units_that_have_left_their_window_are_dropped() {
    let mut unsynced = PendingCharges::default();
    (0..CLOSED_LEN_MAX as u64).for_each(|ms| unsynced.add(named(ms), AGEING));
    unsynced.add_refund(refund(10, 1, None));
    let later = 60_000 + CLOSED_LEN_MAX as u64;
    unsynced.add(named(later), AGEING);
    assert_eq!(unsynced.size(), PendingSize { units: 1, entries: 1, ..PendingSize::default() });
    assert_eq!(sent(&mut unsynced, 9), [named(later).request.unwrap()], "nor is their refund");
}

/// A refund that overtakes its units would find none in the store.
#[test]
fn a_refund_is_sent_once_and_with_or_after_its_units() {
    let mut unsynced = PendingCharges::default();
    let refund = refund(10, 2, None);
    for ms in [10, 20] {
        unsynced.add(named(ms), AGEING);
    }
    unsynced.add_refund(refund);
    assert_eq!(sent(&mut unsynced, 1).len(), 1);
    let all = unsynced.send_next(3);
    assert_eq!((all.len(), all[2]), (3, refund));
    let ended: u64 = all.iter().filter_map(|entry| entry.id).map(|id| unsynced.end(id)).sum();
    assert_eq!((ended, unsynced.is_empty()), (2, true));
}
