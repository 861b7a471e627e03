//! Settlements: over two agents, retries and lost answers, no call is refunded more than it was charged.

use std::collections::HashMap;

use fastrand::Rng;
use tollgate::{Call, DecidedCall};
use tollgate_core::algorithm::Algorithm;
use tollgate_core::clock::Timestamp;
use tollgate_core::counter::{CallCorrection, ChargeMode, CounterId, DigestKey, RequestId};
use tollgate_core::decision::LocalAnswer;
use tollgate_sim::{Correction, Faults, Observation, SimSettings, Simulation};

const START: Timestamp = Timestamp::from_ms(1_700_000_000_000);
const RULES: &str = "
version: 1
rules:
  - { name: tokens, per: [user], quota: 2000/h }
  - { name: slots, per: [user], quota: 500/h, algorithm: concurrency }
  # Several of their windows pass in a run, and none of them drains.
  - { name: bucket, per: [user], quota: 10/s, algorithm: token_bucket, burst: 5000 }
  - { name: queue, per: [user], quota: 10/s, algorithm: leaky_bucket, burst: 5000 }
";
const CALLS: usize = 200;
/// Number of steps of 20 ms for the backfill.
const BACKFILL_STEPS: usize = 250;
const SEEDS: u64 = 20;

/// Units that the store refunded, by the request that names the decision, and by counter.
type Refunded = HashMap<(RequestId, CounterId), u64>;

/// Runs calls, each of which is settled and released several times, at both agents, for more than it cost, and some of them
/// seconds later. Returns the units
/// that the store charged and those that it refunded.
fn settled_over_and_over(seed: u64) -> (u64, Refunded) {
    let rules = tollgate_rules::from_yaml("rules.yaml", RULES, 1).expect("valid rules");
    let settings = SimSettings {
        seed,
        faults: Faults { store_ms_max: 2, store_answer_lost_percent: 10, ..Faults::default() },
        ..SimSettings::fleet(START, 2)
    };
    let mut sim = Simulation::new(settings, &rules);
    let (mut rng, mut charged, mut refunded) = (Rng::with_seed(seed), 0, Refunded::new());
    let mut earlier: Vec<(Call<'_>, DecidedCall)> = Vec::new();
    sim.run_until(START.plus_ms(100));
    // In the end, units that were admitted without the store reach it.
    for step in 0..CALLS + BACKFILL_STEPS {
        if step < CALLS {
            sim.check(rng.usize(0..2), vec![Call::new().with("user", "u").costing(rng.u64(1..5))]);
        }
        if let Some((call, decided)) = rng.choice(&earlier) {
            sim.correct(rng.usize(0..2), call.clone(), Correction::Settle(-1_000, Some(decided.clone())));
        }
        let until = sim.now().plus_ms(20);
        sim.run_until(until);
        let observations: Vec<_> = sim.observations().collect();
        for observation in observations {
            match observation {
                Observation::Answered(answered) => {
                    let key = DigestKey::default();
                    let Some(decided) = DecidedCall::new(&key, &answered.call, &answered.decision) else { continue };
                    for _ in 0..rng.usize(1..4) {
                        let settled = Correction::Settle(-rng.i64(1..1_000), Some(decided.clone()));
                        sim.correct(rng.usize(0..2), answered.call.clone(), settled);
                        sim.correct(rng.usize(0..2), answered.call.clone(), Correction::Release(decided.clone()));
                        sim.correct(rng.usize(0..2), answered.call.clone(), Correction::Settle(-1_000, None));
                    }
                    earlier.push((answered.call.clone(), decided));
                }
                Observation::Executed { charges, answer: Ok(results), .. } => {
                    for (charge, result) in charges.iter().zip(&results) {
                        // The release of a slot that the store does not know frees nothing.
                        let is_slot = charge.limit.algorithm == Algorithm::Concurrency;
                        let counts = result.charged && !result.repeated && !is_slot;
                        match charge.mode {
                            ChargeMode::Refund { .. } if counts => {
                                let request = charge.request.expect("a refund names its decision");
                                *refunded.entry((request, charge.counter)).or_default() += charge.cost;
                            }
                            _ if counts => charged += charge.cost,
                            _ => {}
                        }
                    }
                }
                _ => {}
            }
        }
    }
    (charged, refunded)
}

#[test]
fn no_call_is_refunded_more_than_it_was_charged() {
    for seed in 0..SEEDS {
        let (charged, refunded) = settled_over_and_over(seed);
        let most = refunded.values().max().copied().unwrap_or_default();
        let sum: u64 = refunded.values().sum();
        assert!(most <= 4 && sum > 0, "seed {seed}: {most} units of a call that cost at most 4");
        assert!(sum <= charged, "seed {seed}: {sum} refunded of {charged}");
    }
}

/// DESIGN 5: a settlement never loses its unit to a lease. A call that a lease has admitted is settled at another agent, several
/// times: the store refunds it once, at the instant of its decision.
#[test]
fn each_settled_call_of_a_lease_is_refunded_once_at_its_instant() {
    const LEASED_RULES: &str =
        "version: 1\nrules: [{ name: tokens, per: [user], quota: 6000/min, consistency: strict }]";
    let rules = tollgate_rules::from_yaml("rules.yaml", LEASED_RULES, 1).expect("valid rules");
    for seed in 0..SEEDS {
        let settings = SimSettings {
            seed,
            faults: Faults { store_ms_max: 2, ..Faults::default() },
            ..SimSettings::fleet(START, 2)
        };
        let mut sim = Simulation::new(settings, &rules);
        let (mut rng, mut settled, mut refunds) = (Rng::with_seed(seed), HashMap::new(), HashMap::new());
        let (key, mut leased) = (DigestKey::default(), 0);
        // The last calls are settled, too.
        for step in 0..3 * CALLS {
            if step < 2 * CALLS {
                sim.check(rng.usize(0..2), vec![Call::new().with("user", "u").costing(3)]);
            }
            sim.run_until(START.plus_ms(20 * (step as u64 + 1)));
            let observations: Vec<_> = sim.observations().collect();
            for observation in observations {
                match observation {
                    Observation::Answered(answered) => {
                        assert!(answered.is_admitted, "seed {seed}: {:?}", answered.decision);
                        let decided = DecidedCall::new(&key, &answered.call, &answered.decision).expect("admitted");
                        if answered.decision.by != Some(LocalAnswer::Lease) {
                            continue;
                        }
                        leased += 1;
                        for _ in 0..rng.usize(1..4) {
                            let settlement = Correction::Settle(-2, Some(decided.clone()));
                            sim.correct(rng.usize(0..2), answered.call.clone(), settlement);
                        }
                        settled.insert(decided.correction(&key, CallCorrection::Settlement), decided.at());
                    }
                    Observation::Executed { charges, answer: Ok(results), .. } => {
                        for (charge, result) in charges.iter().zip(&results) {
                            if let (ChargeMode::Refund { at, .. }, Some(request)) = (charge.mode, charge.request)
                                && result.charged
                                && !result.repeated
                            {
                                assert_eq!(charge.cost, 2);
                                let before = refunds.insert(request, at);
                                assert_eq!(before, None, "seed {seed}: {request:?} is refunded twice");
                            }
                        }
                    }
                    _ => {}
                }
            }
        }
        assert!(leased > CALLS, "seed {seed}: {leased} calls by leases");
        assert_eq!(refunds, settled, "seed {seed}");
    }
}
