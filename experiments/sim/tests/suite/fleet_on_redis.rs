//! Leases of twenty agents with wrong clocks on a real Redis: no window holds more than its quota, and most calls do
//! not ask Redis.
//!
//! The windows are built from the instants that decisions report. An agent moves the instant of a leased call into the
//! sub-window of its lease, so that a lease that was spent too late would look spent in time. Each such instant is
//! therefore compared with the true clock, which Redis has, too: it may not be earlier, and its sub-window must have
//! begun. It may be some ms later, because an agent counts a call at the latest time that the clock of Redis may show.

use std::collections::HashMap;
use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use fastrand::Rng;
use tokio::task::JoinSet;
use tokio::time::{MissedTickBehavior, interval};
use tollgate::rules::{Algorithm, Estimate};
use tollgate::{Agent, Builder, Call, Rule};
use tollgate_core::clock::{Clock, SystemClock, Timestamp};
use tollgate_core::decision::{LocalAnswer, Source};
use tollgate_servers::Redis;
use tollgate_servers::scaled;

const AGENTS: NonZeroU32 = NonZeroU32::new(20).unwrap();
const WIDTH_MS: u64 = 2_000;
/// Calls of each agent per second, and callers. The busiest caller is past its quota.
const CALLS_PER_SECOND: u64 = 200;
const QUOTAS: [(&str, u64); 3] = [("busy", 2_000), ("usual", 6_000), ("rare", 20)];
const DEADLINE: Duration = Duration::from_secs(5);
/// Largest error of an agent's clock, in ms.
const CLOCK_ERROR_MS: i64 = 300;
/// Time by which the sub-window of a leased call may differ from the true time of its decision, in ms: clocks read
/// whole ms.
const READ_ERROR_MS: u64 = 3;
const RUN_S: u64 = 60;

/// Admissions of a caller, by the instant at which each counts.
type Admissions = HashMap<&'static str, Vec<Timestamp>>;

fn rule(name: &str, quota: u64, is_strict: bool) -> Rule {
    let quota = format!("{quota}/{WIDTH_MS}ms").parse().expect("a quota");
    let rule = Rule::per(name, &["api_key"], quota).matching("api_key", name);
    let rule = if is_strict { rule.strict() } else { rule };
    rule.with(|policy| {
        policy.algorithm = Algorithm::SlidingWindow(Estimate::Conservative);
        // A busy machine is no outage of the store.
        policy.deadline = DEADLINE;
    })
}

/// Clock with a constant error in ms.
struct Skewed(SystemClock, i64);

impl Clock for Skewed {
    fn now(&self) -> Timestamp {
        Timestamp::from_ms(self.0.now().as_ms().saturating_add_signed(self.1))
    }
}

/// Returns the clock of an agent: the errors of all agents are spread evenly.
fn clock_of(number: u32) -> Arc<Skewed> {
    let error_ms = i64::from(number) * 2 * CLOCK_ERROR_MS / i64::from(AGENTS.get() - 1) - CLOCK_ERROR_MS;
    Arc::new(Skewed(SystemClock::start(), error_ms))
}

/// Calls at one agent: half of them are of the busy caller, and a hundredth of the rare one. Returns all admissions, and the
/// numbers of calls and of admissions by leases.
async fn calls(agent: Agent, seed: u64) -> (Admissions, u64, u64) {
    let (mut admissions, mut leased, mut rng) = (Admissions::new(), 0, Rng::with_seed(seed));
    let len = scaled(RUN_S) * CALLS_PER_SECOND;
    let period = Duration::from_secs(1) / u32::try_from(CALLS_PER_SECOND).expect("few");
    let (mut ticks, clock) = (interval(period), SystemClock::start());
    let window = rule("busy", 1, true).policy.expect("a policy").window;
    ticks.set_missed_tick_behavior(MissedTickBehavior::Burst);
    for _ in 0..len {
        ticks.tick().await;
        let (caller, _) = QUOTAS[match rng.u32(0..100) {
            0..50 => 0,
            50..99 => 1,
            _ => 2,
        }];
        let before = clock.now();
        let decision = agent.decide(&Call::new().with("api_key", caller)).await;
        let (earliest, latest) = (before.minus_ms(READ_ERROR_MS), clock.now().plus_ms(READ_ERROR_MS));
        // No call waits for its deadline, so each is admitted by the store, or by what the store has granted.
        assert!(matches!(decision.source, Source::Store | Source::Local), "{decision:?}");
        if decision.allowed {
            admissions.entry(caller).or_default().push(decision.at);
            if decision.by == Some(LocalAnswer::Lease) {
                leased += 1;
                let begun = window.start_of(window.sub_window(decision.at));
                assert!(earliest <= decision.at && begun <= latest, "{:?} in {earliest:?}..={latest:?}", decision.at);
            }
        }
    }
    (admissions, len, leased)
}

/// Returns the most admissions in a window of (t-W, t]. The instants are sorted.
fn fullest_window(at: &[Timestamp]) -> u64 {
    let from = |end: Timestamp| at.partition_point(|at| at.plus_ms(WIDTH_MS) <= end);
    at.iter().enumerate().map(|(place, end)| (place + 1 - from(*end)) as u64).max().unwrap_or_default()
}

/// C5, D3, N5: under a conservative estimate, twenty agents with leases and clocks that differ by up to 600 ms admit at
/// most the quota in any window.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn twenty_agents_with_leases_keep_a_quota_on_redis() {
    for is_strict in [true, false] {
        let redis = Redis::start();
        let mut fleet = JoinSet::new();
        for number in 0..AGENTS.get() {
            let rules = QUOTAS.map(|(name, quota)| rule(name, quota, is_strict));
            let agent = rules.into_iter().fold(Agent::builder(), Builder::rule);
            let agent = agent.clock(clock_of(number)).redis(redis.url().as_str()).agents_expected(AGENTS);
            let agent = agent.start().expect("it starts");
            while !agent.missing_parts().await.is_empty() {
                tokio::task::yield_now().await;
            }
            fleet.spawn(calls(agent, number.into()));
        }
        let (mut admissions, mut calls, mut leased) = (Admissions::new(), 0, 0);
        for (of_agent, made, by_lease) in fleet.join_all().await {
            for (caller, at) in of_agent {
                admissions.entry(caller).or_default().extend(at);
            }
            (calls, leased) = (calls + made, leased + by_lease);
        }
        let admitted = admissions.values().map(Vec::len).sum::<usize>() as u64;
        let mut fullest = Vec::new();
        for (caller, quota) in QUOTAS {
            let at = admissions.get_mut(caller).expect("admissions");
            at.sort_unstable();
            let most = fullest_window(at);
            fullest.push((caller, most, quota));
            assert!(most <= quota, "{caller}: {most} of {quota}, strict {is_strict}");
        }
        let scripts = redis.scripts_run();
        println!(
            "strict {is_strict}: {calls} calls, {admitted} admitted, {leased} by leases, {scripts} scripts; {fullest:?}"
        );
        // On a busy machine, late answers cost leases.
        assert!(leased * 3 > admitted, "{leased} of {admitted} admissions are by leases");
        assert!(fullest[0].1 * 100 >= fullest[0].2 * 90, "the busy caller uses its quota");
    }
}
