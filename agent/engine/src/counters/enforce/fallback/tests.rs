//! The table of `on_failure`, and the parts of a fleet that is larger than the quota.

mod bursts;

use std::num::{NonZeroU32, NonZeroU64};

use tollgate_core::algorithm::CounterState;
use tollgate_core::counter::{ChargeResult, CounterId};
use tollgate_core::messages::signals::Signal;
use tollgate_core::rules::{Consistency, Quota};
use tollgate_core::window::Ring;

use super::super::{Authority, ChargeFacts, Enforcement, Plan, plan};
use super::*;
use crate::counters::view::{Flow, ViewEvent, update};
use crate::fleet::FleetPart;
use crate::time::TimeBounds;

const NOW: Timestamp = Timestamp::from_ms(1_000_000_000);
const AGENTS: u32 = 3;
/// Calls of a case; all of them pass where nothing limits.
const CALLS: u64 = 200;

/// Knowledge about a counter, apart from own admissions.
#[derive(Clone, Copy, Debug)]
enum Known {
    Nothing,
    /// Units in the last signal.
    BySignal(u64),
    /// Units in the last answer of the store.
    ByStore(u64),
}

fn policy(units: u64, on_failure: OnFailure) -> LimitPolicy {
    let mut policy = LimitPolicy::of(Quota::new(units, 60_000).unwrap());
    policy.on_failure = on_failure;
    policy
}

fn view(policy: &LimitPolicy, known: Known) -> CounterView {
    let mut view = CounterView::default();
    match known {
        Known::Nothing => {}
        Known::BySignal(units) => {
            let mut admitted = Ring::new(policy.window);
            admitted.add(policy.window.sub_window(NOW), units);
            let signal = Signal {
                counter: CounterId::from_u128(1),
                rule: "r".into(),
                label: "x".into(),
                generation: 1,
                quota: policy.quota.units(),
                admitted,
                by_agent: Vec::new(),
                by_others: 0,
                denied: 0,
                rate_milli: 0,
                budget: None,
                newest_at: NOW,
                charged_at: NOW,
            };
            let (signal, flow) = (&signal, Flow::default());
            update(policy, &mut view, ViewEvent::Signal { signal, flow, latest: NOW });
        }
        Known::ByStore(units) => {
            let remaining = policy.quota.units() - units;
            let reset_at = NOW.plus_ms(60_000);
            let verdict = Verdict { admitted: true, remaining, retry_at: NOW, reset_at, delay_ms: 0 };
            let limit = policy.quota.units();
            let result = ChargeResult {
                verdict,
                charged: true,
                repeated: false,
                leased: 0,
                at: NOW,
                limit,
                limit_until: None,
                born: NOW,
                previous: NOW,
            };
            let event =
                ViewEvent::Answered { result: &result, units: 0, round: None, acknowledged: None, is_demand: false };
            update(policy, &mut view, event);
        }
    }
    view
}

/// Calls of one unit that pass at this instant, one after the other.
fn admitted(policy: &LimitPolicy, known: Known, authority: Authority, rank: Option<u32>) -> u64 {
    let (mut view, part) = (view(policy, known), FleetPart::OneOf(NonZeroU32::new(AGENTS).unwrap()));
    let facts = Facts { now: TimeBounds::exactly(NOW), at: NOW, own_now: NOW, authority, part, rank };
    let mut is_admitted = || {
        let charge = ChargeFacts { policy, generation: 1, view: &view, cost: 1, enforcement: Enforcement::Normal };
        match plan(&charge, &facts) {
            Plan::Decided(Verdict { admitted: true, .. }, _, Some(event)) => {
                update(policy, &mut view, event);
                true
            }
            Plan::Decided(verdict, ..) => {
                assert!(verdict.retry_at > NOW, "{policy:?} {verdict:?}");
                false
            }
            plan => panic!("the store is away: {plan:?}"),
        }
    };
    (0..CALLS).take_while(|_| is_admitted()).count() as u64
}

fn fresh(threshold_permille: u32) -> Authority {
    Authority::Signals(FreshSignals { threshold_permille, covered: CoveredRounds::default() })
}

fn no_signals() -> Authority {
    Authority::Fallback(CoveredRounds::default())
}

/// I1, I2, I3, I4: the table of `on_failure`, at one of three agents, for a quota of 90.
#[test]
fn without_the_store_on_failure_decides_with_the_signals_and_alone() {
    use Known::{BySignal, ByStore, Nothing};
    let limit = |units| OnFailure::Limit(Quota::new(units, 60_000).unwrap());
    // `on_failure`; calls that pass if the signal says 60, 90 or more than that, and if there is none below half the quota;
    // and without fresh signals if nothing is known, and if the store or an old signal said 60 or 90.
    let cases = [
        (OnFailure::Share, [10, 0, 0, 15], [30, 10, 10, 0, 0]),
        (OnFailure::Open, [30, 0, 0, 90], [CALLS; 5]),
        (OnFailure::Closed, [0; 4], [0; 5]),
        (limit(20), [20, 0, 0, 20], [20; 5]),
        (limit(40), [30, 0, 0, 40], [40; 5]),
    ];
    for (on_failure, by_signal, by_fallback) in cases {
        let policy = policy(90, on_failure);
        let with = |known, threshold| admitted(&policy, known, fresh(threshold), None);
        let seen = [with(BySignal(60), 500), with(BySignal(90), 500), with(BySignal(95), 500), with(Nothing, 500)];
        assert_eq!(seen, by_signal, "{on_failure:?} with fresh signals");
        let known = [Nothing, ByStore(60), BySignal(60), ByStore(90), BySignal(90)];
        let seen = known.map(|known| admitted(&policy, known, no_signals(), None));
        assert_eq!(seen, by_fallback, "{on_failure:?} without");
    }
}

/// R8: with fewer units than agents, each agent has one, or under `strict` as many agents as there are units.
#[test]
fn an_agent_of_a_fleet_larger_than_the_quota_has_one_unit_or_is_placed() {
    // Consistency, agents before this one; calls of a quota of 2 that pass at one of three agents.
    let cases = [
        (Consistency::Bounded, None, 1),
        (Consistency::Strict, Some(0), 1),
        (Consistency::Strict, Some(1), 1),
        (Consistency::Strict, Some(2), 0),
        (Consistency::Strict, None, 0),
    ];
    for (consistency, rank, expected) in cases {
        let mut policy = policy(2, OnFailure::Share);
        policy.set_consistency(consistency);
        for authority in [fresh(0), no_signals()] {
            let seen = admitted(&policy, Known::Nothing, authority, rank);
            assert_eq!(seen, expected, "{consistency:?} {rank:?}");
        }
    }
}

/// J2: the quota of a global rule is in the store. A signal denies by the floor only if the store does not answer, and its
/// threshold is a part of the whole quota.
#[test]
fn a_signal_knows_no_quota_of_a_global_rule() {
    let regional = policy(90, OnFailure::Share);
    let mut global = regional;
    global.global_quota = NonZeroU64::new(180);
    let part = FleetPart::OneOf(NonZeroU32::MIN);
    let facts =
        Facts { now: TimeBounds::exactly(NOW), at: NOW, own_now: NOW, authority: Authority::Store, part, rank: None };
    let denied = |policy| denied_by_signal(policy, &view(policy, Known::BySignal(95)), &facts, 1).is_some();
    assert_eq!((denied(&regional), denied(&global)), (true, false));
    for (threshold_permille, expected) in [(0, [30, 30]), (250, [22, 15]), (500, [15, 0])] {
        let admitted =
            [&regional, &global].map(|policy| admitted(policy, Known::Nothing, fresh(threshold_permille), None));
        assert_eq!(admitted, expected, "{threshold_permille}");
    }
}
