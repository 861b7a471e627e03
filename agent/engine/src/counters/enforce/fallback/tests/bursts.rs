//! Decisions without the store under rules with a burst.

use super::*;

/// A caller under a rule with a burst, at one of so many agents.
struct BurstCase {
    policy: LimitPolicy,
    agents: u32,
    view: CounterView,
    store: CounterState,
}

impl BurstCase {
    fn new(quota: &str, algorithm: Algorithm, burst: u64, agents: u32) -> Self {
        let mut policy = LimitPolicy::of(quota.parse().expect("a quota"));
        policy.burst = burst;
        let policy = policy.counted_by(algorithm);
        policy.check().expect("a policy");
        Self { policy, agents, view: CounterView::default(), store: CounterState::new(&policy.limit()) }
    }

    /// Admits units through the store at this instant. Returns the units that are then left there.
    fn by_store(&mut self, at: Timestamp, units: u64) -> u64 {
        let verdict = self.store.step(&self.policy.limit(), at, units);
        assert!(verdict.admitted, "{verdict:?}");
        let limit = self.policy.quota.units();
        let result = ChargeResult {
            verdict,
            charged: true,
            repeated: false,
            leased: 0,
            at,
            limit,
            limit_until: None,
            born: at,
            previous: at,
        };
        let event = ViewEvent::Answered { result: &result, units, round: None, acknowledged: None, is_demand: false };
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
    fn admits(&mut self, at: Timestamp, cost: u64, authority: Authority) -> bool {
        let part = FleetPart::OneOf(NonZeroU32::new(self.agents).unwrap());
        let facts = Facts { now: TimeBounds::exactly(at), at, own_now: at, authority, part, rank: None };
        let (policy, view, enforcement) = (&self.policy, &self.view, Enforcement::Normal);
        let charge = ChargeFacts { policy, generation: 1, view, cost, enforcement };
        match plan(&charge, &facts) {
            Plan::Decided(Verdict { admitted: true, .. }, _, Some(event)) => {
                update(&self.policy, &mut self.view, event);
                true
            }
            _ => false,
        }
    }
}

/// A5, A6, I1: a caller who has used a part of a burst keeps this agent's part of the rest in an outage, with signals
/// and without. A new caller has this agent's part of the burst.
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
        for agents in [1, 3] {
            let name = format!("{quota} {algorithm:?} {used}, {agents} agents");
            let case = || BurstCase::new(quota, algorithm, burst, agents);
            let burst = case().policy.burst;
            let mut known = case();
            let free = known.by_store(NOW, used.min(burst));
            assert_eq!(free, burst - used.min(burst), "{name}");
            let mut passed = 0;
            while known.admits(NOW, 1, no_signals()) {
                passed += 1;
            }
            assert_eq!(passed, free / u64::from(agents), "{name}");
            let mut new = case();
            assert!(new.admits(NOW, burst / u64::from(agents), no_signals()) || burst < 3, "{name}: new");
            // With signals: what has left the bucket since is not known, so the bound is that of a window.
            let mut signalled = case();
            signalled.by_store(NOW, used.min(burst));
            signalled.signal();
            let mut passed = 0;
            while signalled.admits(NOW, 1, fresh(0)) {
                passed += 1;
            }
            let most = signalled.policy.most_in_window() - used.min(burst);
            assert!(passed * u64::from(agents) <= most.max(1), "{name}: {passed} of {most}");
            assert!(passed >= free / u64::from(agents), "{name}: {passed} of {free} by signal");
        }
    }
}

/// A5: a bucket that is used at nearly its rate for a long time has room for the next call whenever the store has. A
/// large call passes without the store if it fits the units that are left.
#[test]
fn a_call_that_fits_into_the_bucket_is_not_denied_by_what_the_agent_admitted_before() {
    for algorithm in [Algorithm::TokenBucket, Algorithm::LeakyBucket] {
        let mut case = BurstCase::new("60/min", algorithm, 2, 1);
        let mut at = NOW;
        for _ in 0..200 {
            at = at.plus_ms(1_010);
            assert!(case.by_store(at, 1) > 0);
        }
        assert!(case.admits(at, 1, no_signals()), "{algorithm:?}");
        let mut bytes = BurstCase::new("10MB/s", algorithm, 50_000_000, 1);
        assert_eq!(bytes.by_store(NOW, 30_000_000), 20_000_000);
        assert!(bytes.admits(NOW, 20_000_000, no_signals()), "{algorithm:?}");
        assert!(!bytes.admits(NOW, 1, no_signals()), "{algorithm:?}");
        let refilled = NOW.plus_ms(2_000);
        assert!(bytes.admits(refilled, 20_000_000, no_signals()), "{algorithm:?} is refilled");
        assert!(!bytes.admits(refilled, 1_000_000, no_signals()), "{algorithm:?}");
    }
}

/// I4: one agent alone admits no more in any window than its part of the window that is printed, in a long outage after
/// any use.
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
                if case.admits(at, 1, no_signals()) {
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
