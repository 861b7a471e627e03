//! The table of `on_failure`, and the parts of a fleet that is larger than the quota.

use std::num::NonZeroU32;

use tollgate_core::algorithm::CounterState;
use tollgate_core::counter::{ChargeResult, CounterId};
use tollgate_core::messages::signals::{Signal, SignalBatch};
use tollgate_core::rules::{Consistency, Quota};
use tollgate_core::window::Ring;

use super::super::{Authority, ChargeFacts, Enforcement, Plan, plan, plan_late};
use super::*;
use crate::fleet::FleetPart;
use crate::time_bounds::TimeBounds;
use crate::view::{Flow, ViewEvent, update};

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
            let batch = SignalBatch {
                aggregator: "g".into(),
                partition: 0,
                log: 1,
                as_of: 1,
                as_of_appended: NOW,
                threshold_permille: 0,
                agents: Vec::new(),
                signals: Vec::new(),
            };
            let (signal, flow) = (&signal, Flow::default());
            update(policy, &mut view, ViewEvent::Signal { signal, batch: &batch, flow, latest: NOW });
        }
        Known::ByStore(units) => {
            let remaining = policy.quota.units() - units;
            let reset_at = NOW.plus_ms(60_000);
            let verdict = Verdict { admitted: true, remaining, retry_at: NOW, reset_at, delay_ms: 0 };
            let limit = policy.quota.units();
            let result =
                ChargeResult { verdict, charged: true, repeated: false, at: NOW, limit, born: NOW, previous: NOW };
            let event = ViewEvent::Answered { result: &result, units: 0, round: None, acknowledged: None };
            update(policy, &mut view, event);
        }
    }
    view
}

/// Calls of one unit that pass at this instant, one after the other.
fn admitted(policy: &LimitPolicy, known: Known, authority: Authority, place: Option<u32>) -> u64 {
    let (mut view, part) = (view(policy, known), FleetPart::OneOf(NonZeroU32::new(AGENTS).unwrap()));
    let facts = Facts { now: TimeBounds::exactly(NOW), at: NOW, own_now: NOW, authority, part, place };
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
            Plan::NeedsStore => panic!("the store is away"),
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
    for (consistency, place, expected) in cases {
        let mut policy = policy(2, OnFailure::Share);
        policy.set_consistency(consistency);
        for authority in [fresh(0), no_signals()] {
            let seen = admitted(&policy, Known::Nothing, authority, place);
            assert_eq!(seen, expected, "{consistency:?} {place:?}");
        }
    }
}

/// A caller under a rule with a burst, at one of so many agents.
struct BurstCase {
    policy: LimitPolicy,
    agents: u32,
    view: CounterView,
    store: CounterState,
}

impl BurstCase {
    fn new(quota: &str, algorithm: Algorithm, burst: u64, agents: u32) -> Self {
        let policy = LimitPolicy { burst, ..LimitPolicy::of(quota.parse().expect("a quota")) }.counted_by(algorithm);
        policy.check().expect("a policy");
        Self { policy, agents, view: CounterView::default(), store: CounterState::new(&policy.limit()) }
    }

    /// Admits units through the store at this instant. Returns the units that are then left there.
    fn by_store(&mut self, at: Timestamp, units: u64) -> u64 {
        let verdict = self.store.step(&self.policy.limit(), at, units);
        assert!(verdict.admitted, "{verdict:?}");
        let limit = self.policy.quota.units();
        let result = ChargeResult { verdict, charged: true, repeated: false, at, limit, born: at, previous: at };
        let event = ViewEvent::Answered { result: &result, units, round: None, acknowledged: None };
        update(&self.policy, &mut self.view, event);
        verdict.remaining
    }

    /// Applies a signal that contains all own admissions until now.
    fn signal(&mut self) {
        let units = self.view.admitted(&self.policy).map_or(0, |ring| ring.used(NOW, Estimate::Conservative));
        self.view.remote = view(&self.policy, Known::BySignal(units)).remote;
        self.view.local.iter_mut().for_each(|local| local.uncovered = <_>::default());
    }

    /// Asks without the store.
    fn admits(&mut self, at: Timestamp, cost: u64, authority: Authority, is_late: bool) -> bool {
        let part = FleetPart::OneOf(NonZeroU32::new(self.agents).unwrap());
        let facts = Facts { now: TimeBounds::exactly(at), at, own_now: at, authority, part, place: None };
        let (policy, view, enforcement) = (&self.policy, &self.view, Enforcement::Normal);
        let charge = ChargeFacts { policy, generation: 1, view, cost, enforcement };
        match if is_late { plan_late(&charge, &facts) } else { plan(&charge, &facts) } {
            Plan::Decided(Verdict { admitted: true, .. }, _, Some(event)) => {
                update(&self.policy, &mut self.view, event);
                true
            }
            _ => false,
        }
    }
}

/// A5, A6, I1: a caller who has used a part of a burst keeps this agent's part of the rest, in an outage and while the store is
/// late, with signals and without. A new caller has this agent's part of the burst.
#[test]
fn a_caller_with_a_burst_has_this_agents_part_of_the_units_that_are_free() {
    let sliding = Algorithm::SlidingWindow(Estimate::Interpolated);
    // Quota, algorithm, burst; units that the caller has used at this agent.
    let cases = [
        ("60/h", Algorithm::TokenBucket, 500, 70),
        ("60/h", Algorithm::TokenBucket, 500, 430),
        ("60/h", Algorithm::TokenBucket, 500, 500),
        ("60/h", Algorithm::LeakyBucket, 500, 70),
        ("60/h", Algorithm::LeakyBucket, 500, 200),
        ("100/min", sliding, 500, 150),
        ("100/min", sliding, 500, 400),
        ("100/min", sliding, 500, 500),
        ("100/min", Algorithm::TokenBucket, 0, 2),
    ];
    for (quota, algorithm, burst, used) in cases {
        for (agents, is_late) in [(1, false), (1, true), (3, false), (3, true)] {
            let name = format!("{quota} {algorithm:?} {used}, {agents} agents, late {is_late}");
            let case = || BurstCase::new(quota, algorithm, burst, agents);
            let burst = case().policy.burst;
            let mut known = case();
            let free = known.by_store(NOW, used.min(burst));
            assert_eq!(free, burst - used.min(burst), "{name}");
            let mut passed = 0;
            while known.admits(NOW, 1, no_signals(), is_late) {
                passed += 1;
            }
            assert_eq!(passed, free / u64::from(agents), "{name}");
            let mut new = case();
            assert!(new.admits(NOW, burst / u64::from(agents), no_signals(), is_late) || burst < 3, "{name}: new");
            // With signals: what has left the bucket since is not known, so the bound is that of a window.
            let mut signalled = case();
            signalled.by_store(NOW, used.min(burst));
            signalled.signal();
            let mut passed = 0;
            while signalled.admits(NOW, 1, fresh(0), false) {
                passed += 1;
            }
            let most = signalled.policy.most_in_window() - used.min(burst);
            assert!(passed * u64::from(agents) <= most.max(1), "{name}: {passed} of {most}");
            assert!(passed >= free / u64::from(agents), "{name}: {passed} of {free} by signal");
        }
    }
}

/// A5: a bucket that is used at nearly its rate for a long time has room for the next call whenever the store has; a large call
/// passes without the store if it fits what is left.
#[test]
fn a_call_that_fits_into_the_bucket_is_not_denied_by_what_the_agent_admitted_before() {
    for algorithm in [Algorithm::TokenBucket, Algorithm::LeakyBucket] {
        let mut case = BurstCase::new("60/min", algorithm, 2, 1);
        let mut at = NOW;
        for _ in 0..200 {
            at = at.plus_ms(1_010);
            assert!(case.by_store(at, 1) > 0);
        }
        assert!(case.admits(at, 1, no_signals(), true), "{algorithm:?}");
        let mut bytes = BurstCase::new("10MB/s", algorithm, 50_000_000, 1);
        assert_eq!(bytes.by_store(NOW, 30_000_000), 20_000_000);
        assert!(bytes.admits(NOW, 20_000_000, no_signals(), true), "{algorithm:?}");
        assert!(!bytes.admits(NOW, 1, no_signals(), true), "{algorithm:?}");
        let refilled = NOW.plus_ms(2_000);
        assert!(bytes.admits(refilled, 20_000_000, no_signals(), false), "{algorithm:?} is refilled");
        assert!(!bytes.admits(refilled, 1_000_000, no_signals(), false), "{algorithm:?}");
    }
}

/// I4: one agent alone admits no more in any window than its part of the window that is printed, in a long outage after any use.
#[test]
fn an_agent_alone_admits_its_part_of_the_window_and_then_of_the_rate() {
    for algorithm in [Algorithm::TokenBucket, Algorithm::LeakyBucket, Algorithm::SlidingWindow(Estimate::Interpolated)]
    {
        for (used, agents) in [(0, 1), (0, 3), (120, 1), (300, 3)] {
            let mut case = BurstCase::new("90/min", algorithm, 300, agents);
            if used > 0 {
                case.by_store(NOW, used);
            }
            let mut admitted = Vec::new();
            for at in (0..600_000).step_by(200).map(|ms| NOW.plus_ms(ms)) {
                if case.admits(at, 1, no_signals(), false) {
                    admitted.push(at);
                }
            }
            let part = case.policy.most_in_window() / u64::from(agents);
            for end in &admitted {
                let is_in = |at: &&Timestamp| *at <= end && end.ms_since(**at) < 60_000;
                let held = admitted.iter().filter(is_in).count() as u64;
                assert!(held <= part, "{algorithm:?} {used} {agents}: {held} of {part}");
            }
            let by_rate = (admitted.len() as u64 * u64::from(agents)).checked_sub(10 * 90 + 300);
            assert!(by_rate.is_none_or(|beyond| beyond <= 90), "{algorithm:?} {used} {agents}: {by_rate:?}");
            let last = admitted.iter().filter(|at| at.ms_since(NOW) >= 540_000).count() as u64;
            assert!(last * u64::from(agents) >= 70, "{algorithm:?} {used} {agents}: {last} in the last minute");
        }
    }
}
