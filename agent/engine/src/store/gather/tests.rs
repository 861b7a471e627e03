//! Pipelines and shared charges against a store that steps as the reference does.

use std::collections::HashMap;

use tollgate_core::clock::Timestamp;
use tollgate_core::counter::{RequestId, StoredCounter, step};
use tollgate_core::rules::LimitPolicy;

use super::*;

const NOW: Timestamp = Timestamp::from_ms(1_000_000);

fn charge(counter: u128, quota: &str, cost: u64) -> Charge {
    let limit = LimitPolicy::of(quota.parse().unwrap()).limit();
    Charge::enforce(CounterId::from_u128(counter), limit, 1, cost, NOW)
}

/// Runs the steps of a pipeline on a store. Returns (caller, admitted, remaining, retry), and the number of steps.
fn run(pipeline: Option<PipelineSteps<u32>>) -> (Vec<(u32, bool, u64, Timestamp)>, usize) {
    let (mut store, mut told) = (HashMap::<CounterId, StoredCounter>::new(), Vec::new());
    let steps = pipeline.map(|pipeline| pipeline.steps).unwrap_or_default();
    let len = steps.len();
    for gathered in steps {
        let answer = step(&mut store, &gathered.coalesced(), NOW);
        told.extend(gathered.split(&answer).into_iter().map(|(caller, answer)| {
            let result = answer.expect("in time")[0];
            assert_eq!((result.charged, result.leased), (result.verdict.admitted, 0));
            (caller, result.charged, result.verdict.remaining, result.verdict.retry_at)
        }));
    }
    (told, len)
}

/// Returns a gatherer whose first pipeline is in progress.
fn busy() -> Gatherer<u32> {
    let mut gatherer = Gatherer::default();
    assert_eq!(gatherer.push(&[charge(9, "9/min", 1)], 0).unwrap().expect("it is sent at once").pipeline, 1);
    gatherer
}

fn wait(gatherer: &mut Gatherer<u32>, charge: &Charge, caller: u32) {
    assert!(gatherer.push(std::slice::from_ref(charge), caller).unwrap().is_none(), "it waits");
}

/// The calls of one counter get what they would get one after the other.
#[test]
fn calls_that_wait_on_one_counter_become_one_charge() {
    // Quota, cost, number of calls; number of admissions.
    for (quota, cost, calls, admitted) in
        [("100/min", 1, 7, 7), ("5/min", 1, 7, 5), ("5/min", 2, 7, 2), ("5/min", 6, 7, 0), ("5/min", 5, 1, 1)]
    {
        let (mut gatherer, charge) = (busy(), charge(1, quota, cost));
        (0..calls).for_each(|call| wait(&mut gatherer, &charge, call));
        let mut alone = HashMap::<CounterId, StoredCounter>::new();
        let expected: Vec<_> = (0..calls)
            .map(|call| {
                let result = step(&mut alone, std::slice::from_ref(&charge), NOW).expect("in time")[0];
                (call, result.charged, result.verdict.remaining, result.verdict.retry_at)
            })
            .collect();
        let seen = run(gatherer.answered(1, 1));
        assert_eq!(seen, (expected, 1), "{quota} {cost}");
        assert_eq!(seen.0.iter().filter(|(_, is_admitted, ..)| *is_admitted).count(), admitted);
    }
}

#[test]
fn only_calls_that_ask_for_the_same_share_a_charge() {
    let (plain, later) = (charge(1, "9/min", 1), NOW.plus_ms(3));
    let lease = ChargeMode::Lease { expires_at: NOW, units_max: 1, agents: 2 };
    let cases = [
        ("the same", plain.clone(), 1),
        ("another counter", charge(2, "9/min", 1), 2),
        ("another cost", charge(1, "9/min", 2), 2),
        ("another limit", charge(1, "8/min", 1), 2),
        ("a request id", Charge { request: Some(RequestId::from_u128(1)), ..plain.clone() }, 2),
        ("a call that waits for longer", Charge { mode: plain.mode.expiring_at(later), ..plain.clone() }, 2),
        ("a lease", Charge { mode: lease, ..plain.clone() }, 2),
    ];
    for (name, other, steps) in cases {
        let mut gatherer = busy();
        wait(&mut gatherer, &plain, 1);
        wait(&mut gatherer, &other, 2);
        assert_eq!(gatherer.answered(1, 1).map_or(0, |pipeline| pipeline.steps.len()), steps, "{name}");
    }
}

/// no-wait: a pipeline without answers holds back no other for long.
#[test]
fn a_round_ends_with_its_last_answer_or_when_it_is_overdue() {
    let mut gatherer = busy();
    for counter in [1, 2] {
        wait(&mut gatherer, &charge(counter, "9/min", 1), 1);
    }
    assert_eq!(gatherer.overdue(1).expect("they have waited").pipeline, 2);
    wait(&mut gatherer, &charge(1, "9/min", 1), 2);
    assert!(gatherer.overdue(1).is_none() && gatherer.answered(1, 1).is_none(), "that pipeline has ended");
    assert!(gatherer.answered(2, 1).is_none(), "one of two steps");
    assert_eq!(gatherer.answered(2, 1).expect("all answers are there").pipeline, 3);
    assert!(gatherer.answered(3, 1).is_none() && gatherer.overdue(3).is_none(), "nothing waits");
    assert!(gatherer.push(&[charge(1, "9/min", 1)], 3).unwrap().is_some());
}

/// capped: past the cap on calls that wait, a call is told so at once.
#[test]
fn the_number_of_calls_that_wait_is_capped() {
    let (mut gatherer, charge) = (busy(), charge(1, "9/min", 1));
    for call in 0..WAITING_CALLS_MAX {
        wait(&mut gatherer, &charge, u32::try_from(call).unwrap());
    }
    assert_eq!(gatherer.push(&[charge], 0).err(), Some(StoreError::Busy));
    assert_eq!(gatherer.overdue(1).expect("they have waited").steps.len(), 10, "a charge of 1,000 calls each");
}
