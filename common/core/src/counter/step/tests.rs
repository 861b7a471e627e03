//! Steps, by the modes of their charges.

use std::collections::HashMap;

use super::*;
use crate::algorithm::{Algorithm, Limit};
use crate::counter::RequestId;
use crate::window::{Estimate, Window};

const NOW: Timestamp = Timestamp::from_ms(1_000_000);
const FOREVER: Timestamp = Timestamp::from_ms(u64::MAX);

/// Name, charges before, charges of the request, the expected (admitted, charged, remaining) of each, number of counters.
type StepCase = (&'static str, Vec<Charge>, Vec<Charge>, Vec<(bool, bool, u64)>, usize);

/// Name, charges before, charges of the request; of each the expected (admitted, leased), and the units left after it.
type LeaseCase = (&'static str, Vec<Charge>, Vec<Charge>, Vec<(bool, u64)>, u64);

/// Container with a cap.
struct Map(HashMap<CounterId, StoredCounter>, usize);

impl Counters for Map {
    fn get(&mut self, counter: CounterId) -> Option<&mut StoredCounter> {
        self.0.get_mut(&counter)
    }

    fn get_or_create(&mut self, charge: &Charge) -> Option<&mut StoredCounter> {
        let has_room = self.0.len() < self.1 || self.0.contains_key(&charge.counter);
        if has_room { self.0.get_or_create(charge) } else { None }
    }

    fn remove(&mut self, counter: CounterId) {
        self.0.remove(&counter);
    }
}

fn enforce(counter: u128, units: u64, cost: u64) -> Charge {
    let algorithm = Algorithm::SlidingWindow(Estimate::Conservative);
    let limit = Limit { algorithm, units, window: Window::new(60_000, 12).unwrap(), burst: 0 };
    Charge::enforce(CounterId::from_u128(counter), limit, 1, cost, FOREVER)
}

fn with_mode(charge: &Charge, mode: ChargeMode) -> Charge {
    Charge { mode, ..charge.clone() }
}

#[test]
fn a_step_charges_as_its_modes_demand() {
    let count_only = |charge| with_mode(&charge, ChargeMode::CountOnly { expires_at: FOREVER });
    let evaluate = |charge| with_mode(&charge, ChargeMode::Evaluate { expires_at: FOREVER });
    let backfill = |charge| with_mode(&charge, ChargeMode::Backfill { at: NOW.minus_ms(1_000) });
    let refund = |charge| with_mode(&charge, ChargeMode::Refund { at: NOW, whole: None });
    let named = |charge| Charge { request: Some(RequestId::from_u128(7)), ..charge };
    let raised = |charge| Charge { generation: 2, ..charge };
    let cases: Vec<StepCase> = vec![
        ("room", vec![], vec![enforce(1, 9, 2)], vec![(true, true, 7)], 1),
        ("no room", vec![enforce(1, 2, 2)], vec![enforce(1, 2, 1)], vec![(false, false, 0)], 1),
        ("all", vec![], vec![enforce(1, 9, 1), enforce(2, 9, 3)], vec![(true, true, 8), (true, true, 6)], 2),
        ("none", vec![], vec![enforce(1, 9, 1), enforce(2, 2, 3)], vec![(true, false, 8), (false, false, 2)], 2),
        (
            "counted although another charge has no room",
            vec![],
            vec![count_only(enforce(1, 9, 1)), enforce(2, 2, 3)],
            vec![(true, true, 8), (false, false, 2)],
            2,
        ),
        ("evaluated", vec![enforce(1, 9, 1)], vec![evaluate(enforce(1, 9, 2))], vec![(true, false, 6)], 1),
        ("an evaluation creates no counter", vec![], vec![evaluate(enforce(1, 9, 2))], vec![(true, false, 7)], 0),
        (
            "an evaluation holds nothing back",
            vec![],
            vec![evaluate(enforce(1, 1, u64::MAX)), enforce(2, 9, 3)],
            vec![(false, false, 1), (true, true, 6)],
            1,
        ),
        ("counted past the limit", vec![], vec![count_only(enforce(1, 2, 3))], vec![(false, true, 2)], 1),
        ("backfilled past the limit", vec![], vec![backfill(enforce(1, 2, 3))], vec![(false, true, 2)], 1),
        ("refunded", vec![enforce(1, 9, 5)], vec![refund(enforce(1, 9, 2))], vec![(true, true, 6)], 1),
        ("refunded once at most", vec![enforce(1, 9, 1)], vec![refund(enforce(1, 9, 4))], vec![(true, true, 9)], 1),
        ("a refund creates no counter", vec![], vec![refund(enforce(1, 9, 2))], vec![(true, true, 9)], 0),
        (
            "nor do two",
            vec![],
            vec![refund(enforce(1, 9, 2)), refund(enforce(2, 9, 2))],
            vec![(true, true, 9), (true, true, 9)],
            0,
        ),
        (
            "a later charge sees the refund",
            vec![enforce(1, 2, 2)],
            vec![refund(enforce(1, 2, 1)), enforce(1, 2, 1)],
            vec![(true, true, 1), (true, true, 0)],
            1,
        ),
        ("repeated", vec![named(enforce(1, 1, 1))], vec![named(enforce(1, 1, 1))], vec![(true, true, 0)], 1),
        ("another request", vec![named(enforce(1, 1, 1))], vec![enforce(1, 1, 1)], vec![(false, false, 0)], 1),
        ("a newer limit", vec![enforce(1, 1, 1)], vec![raised(enforce(1, 3, 1))], vec![(true, true, 1)], 1),
        ("an older limit", vec![raised(enforce(1, 3, 1))], vec![enforce(1, 1, 1)], vec![(true, true, 1)], 1),
    ];
    for (name, before, charges, expected, len) in cases {
        let mut map = Map(HashMap::new(), 10);
        for charge in before {
            assert!(step(&mut map, &[charge], NOW).unwrap()[0].charged, "{name}");
        }
        let results = step(&mut map, &charges, NOW).unwrap();
        let seen: Vec<_> = results.iter().map(|r| (r.verdict.admitted, r.charged, r.verdict.remaining)).collect();
        assert_eq!((seen, map.0.len()), (expected, len), "{name}");
    }
}

/// C4: a lease is charged with its call, and never more than a part of the units that are free.
#[test]
fn a_lease_takes_at_most_a_part_of_the_free_units() {
    let lease = |charge: Charge, units_max, agents| {
        with_mode(&charge, ChargeMode::Lease { expires_at: FOREVER, units_max, agents })
    };
    let with_burst = |charge: Charge| Charge { limit: Limit { burst: 20, ..charge.limit }, ..charge };
    let by_log =
        |charge: Charge| Charge { limit: Limit { algorithm: Algorithm::SlidingLog, ..charge.limit }, ..charge };
    let cases: [LeaseCase; 10] = [
        ("as many as wanted", vec![], vec![lease(enforce(1, 100, 1), 10, 2)], vec![(true, 10)], 89),
        ("a part of the free units", vec![], vec![lease(enforce(1, 100, 1), 80, 3)], vec![(true, 33)], 66),
        ("near the limit none", vec![enforce(1, 9, 6)], vec![lease(enforce(1, 9, 1), 8, 3)], vec![(true, 0)], 2),
        ("no room", vec![enforce(1, 9, 9)], vec![lease(enforce(1, 9, 1), 8, 1)], vec![(false, 0)], 0),
        (
            "another counter denies",
            vec![],
            vec![lease(enforce(1, 9, 1), 8, 1), lease(enforce(2, 1, 2), 8, 1)],
            vec![(true, 0), (false, 0)],
            9,
        ),
        (
            "of each counter",
            vec![],
            vec![lease(enforce(1, 9, 1), 2, 1), lease(enforce(2, 9, 3), 8, 2)],
            vec![(true, 2), (true, 3)],
            6,
        ),
        ("for whole calls", vec![], vec![lease(enforce(1, 100, 4), 30, 1)], vec![(true, 28)], 68),
        ("without a cost any number", vec![], vec![lease(enforce(1, 9, 0), 8, 1)], vec![(true, 8)], 1),
        ("a burst leases nothing", vec![], vec![lease(with_burst(enforce(1, 9, 1)), 8, 1)], vec![(true, 0)], 19),
        ("nor does a log", vec![], vec![lease(by_log(enforce(1, 9, 1)), 8, 1)], vec![(true, 0)], 8),
    ];
    for (name, before, charges, expected, left) in cases {
        let mut map = Map(HashMap::new(), 10);
        for charge in before {
            assert!(step(&mut map, &[charge], NOW).unwrap()[0].charged, "{name}");
        }
        let results = step(&mut map, &charges, NOW).unwrap();
        let seen: Vec<_> = results.iter().map(|result| (result.verdict.admitted, result.leased)).collect();
        let evaluated = Charge { cost: 0, ..with_mode(&charges[0], ChargeMode::Evaluate { expires_at: FOREVER }) };
        let now_left = step(&mut map, &[evaluated], NOW).unwrap()[0].verdict.remaining;
        assert_eq!((seen, now_left), (expected, left), "{name}");
    }
}

/// A call that takes the last units of a window learns when the next call has room. The time is the same as in the
/// denial of that next call.
#[test]
fn an_admission_that_leaves_no_room_says_from_when_there_is_room() {
    let of = |algorithm, charge: Charge| Charge { limit: Limit { algorithm, ..charge.limit }, ..charge };
    let lease = |units_max, agents| ChargeMode::Lease { expires_at: FOREVER, units_max, agents };
    // Name, cost, mode, true if the next call of the cost has no room.
    let cases = [
        ("the last unit", 4, None, true),
        ("all but one unit", 3, None, true),
        ("room for one more", 2, None, false),
        ("the rest is leased", 1, Some(lease(9, 1)), true),
        ("a part is leased", 1, Some(lease(9, 2)), false),
    ];
    for algorithm in [
        Algorithm::SlidingWindow(Estimate::Conservative),
        Algorithm::SlidingWindow(Estimate::Interpolated),
        Algorithm::FixedWindow,
    ] {
        for (name, cost, mode, is_last) in &cases {
            let mut map = Map(HashMap::new(), 1);
            step(&mut map, &[of(algorithm, enforce(1, 9, 5))], NOW.minus_ms(17_000)).unwrap();
            let next = of(algorithm, enforce(1, 9, *cost));
            let charge = mode.map_or(next.clone(), |mode| with_mode(&next, mode));
            let admitted = step(&mut map, &[charge], NOW).unwrap()[0];
            let (after, now) = (step(&mut map, &[next], NOW).unwrap()[0].verdict, admitted.at);
            assert_eq!((admitted.charged, after.admitted), (true, !is_last), "{algorithm:?}: {name}");
            let expected = if *is_last { after.retry_at } else { now };
            assert_eq!(admitted.verdict.retry_at, expected, "{algorithm:?}: {name}");
        }
    }
}

#[test]
fn an_expired_request_and_one_without_a_place_charge_nothing() {
    let mut map = Map(HashMap::new(), 1);
    let late = with_mode(&enforce(1, 9, 1), ChargeMode::Enforce { expires_at: NOW.minus_ms(1) });
    assert_eq!(step(&mut map, &[enforce(2, 9, 1), late], NOW), Err(StoreError::Expired(NOW)));
    assert!(map.0.is_empty());
    let late = with_mode(&enforce(1, 9, 1), ChargeMode::Enforce { expires_at: NOW.minus_ms(1) });
    assert!(step_at_once(&mut Map(HashMap::new(), 1), &[late], NOW).is_ok_and(|results| results[0].charged));
    assert!(step(&mut map, &[enforce(1, 9, 1)], NOW).is_ok());
    assert_eq!(step(&mut map, &[enforce(2, 9, 1)], NOW), Err(StoreError::Full));
    assert_eq!(step(&mut map, &[enforce(1, 9, 1), enforce(2, 9, 1)], NOW), Err(StoreError::Full));
    assert_eq!(step(&mut map, &[enforce(1, 9, 0)], NOW).unwrap()[0].verdict.remaining, 8);
}
/// Container of one place that drops the counter in it for another one, as no container may.
struct Forgetful(Map);

impl Counters for Forgetful {
    fn get(&mut self, counter: CounterId) -> Option<&mut StoredCounter> {
        self.0.get(counter)
    }

    fn get_or_create(&mut self, charge: &Charge) -> Option<&mut StoredCounter> {
        self.0.0.retain(|counter, _| *counter == charge.counter);
        self.0.get_or_create(charge)
    }

    fn remove(&mut self, counter: CounterId) {
        self.0.remove(counter);
    }
}

#[test]
fn a_request_is_never_admitted_without_a_counter_to_charge() {
    let mut counters = Forgetful(Map(HashMap::new(), 1));
    assert_eq!(step(&mut counters, &[enforce(1, 9, 1), enforce(2, 9, 1)], NOW), Err(StoreError::Full));
    assert_eq!(step(&mut counters, &[enforce(2, 9, 0)], NOW).unwrap()[0].verdict.remaining, 9);
}
