//! Agents with wrong clocks and one real Redis.

use std::num::NonZeroU32;
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use tokio::runtime::Runtime;
use tollgate::{Agent, Call, Decision, Rule, Source};
use tollgate_core::clock::{Clock, SystemClock, Timestamp};
use tollgate_core::decision::LocalAnswer;
use tollgate_core::window::Window;
use tollgate_servers::{Redis, wait_for};

const QUOTA: usize = 100;
const OFFSETS_MS: [i64; 4] = [0, 3_000, 30_000, -30_000];
/// Quota and calls of the agents that lease units.
const LEASING_QUOTA: usize = 2_000;
const LEASING_CALLS: usize = 3_000;
/// Time by which the sub-window of a leased call may differ from the true time of its decision, in ms: clocks read
/// whole ms.
const READ_ERROR_MS: u64 = 3;
/// Deadline below any of the offsets, so that requests would expire if a wrong clock were used.
const DEADLINE: Duration = Duration::from_secs(1);
/// Maximum error of an agent's estimate of the store's time: that of the round trip of a ping, which has an upper
/// bound.
const CLOCK_ERROR_MS: u64 = 52;

static RUNTIME: LazyLock<Runtime> = LazyLock::new(|| Runtime::new().expect("a runtime"));

/// Clock with a constant error in ms.
struct Skewed(SystemClock, i64);

impl Clock for Skewed {
    fn now(&self) -> Timestamp {
        Timestamp::from_ms(self.0.now().as_ms().saturating_add_signed(self.1))
    }
}

fn agent(redis: &Redis, offset_ms: i64, quota: usize, leases: bool) -> Agent {
    let _guard = RUNTIME.enter();
    let rule = Rule::per("per-key", &["api_key"], format!("{quota}/min").parse().unwrap())
        .strict()
        .with(|policy| (policy.deadline, policy.leases) = (DEADLINE, leases));
    let clock = Arc::new(Skewed(SystemClock::start(), offset_ms));
    let agent = Agent::builder().node(format!("off by {offset_ms} ms")).clock(clock).rule(rule);
    let agent = agent.agents_expected(NonZeroU32::new(4).unwrap());
    let agent = agent.redis(&*redis.url()).start().expect("the agent starts");
    wait_for("readiness", || RUNTIME.block_on(agent.missing_parts()).is_empty().then_some(()));
    agent
}

fn check(agent: &Agent) -> Decision {
    RUNTIME.block_on(agent.decide(&Call::new().with("api_key", "k")))
}

fn time(redis: &Redis) -> Timestamp {
    let reply = redis.command("TIME");
    let mut numbers = reply.lines().filter_map(|line| line.trim().parse::<u64>().ok());
    let (seconds, micros) = (numbers.next().expect("seconds"), numbers.next().expect("microseconds"));
    Timestamp::from_ms(seconds * 1_000 + micros / 1_000)
}

/// D3: agents with clocks 3 s ahead, 30 s ahead and 30 s behind together admit as many calls as with correct clocks.
/// The store decides them, and all denials have the same retry time.
#[test]
fn wrong_clocks_have_no_effect() {
    let redis = Redis::start();
    let agents = OFFSETS_MS.map(|offset_ms| agent(&redis, offset_ms, QUOTA, false));
    let began = time(&redis);
    let passed: Vec<Decision> = (0..QUOTA).map(|call| check(&agents[call % agents.len()])).collect();
    for decision in &passed {
        assert_eq!((decision.allowed, decision.source), (true, Source::Store), "{decision:?}");
    }
    let asked = time(&redis);
    let denied: Vec<Decision> = agents.iter().map(check).collect();
    let denied_at = time(&redis);
    // Denials of the store are cached by the agents and repeated without a request.
    let repeated: Vec<Decision> = (0..2 * QUOTA).map(|call| check(&agents[call % agents.len()])).collect();
    let ended = time(&redis);

    // The agent that took the last unit knows the denial already.
    let (last, others) = denied.split_last().expect("an agent");
    assert!(others.iter().all(|decision| !decision.allowed && decision.source == Source::Store), "{others:?}");
    assert_eq!((last.allowed, last.by), (false, Some(LocalAnswer::CachedDenial)), "{last:?}");
    let by_store = |source| matches!(source, Source::Store | Source::Local);
    assert!(repeated.iter().all(|decision| !decision.allowed && by_store(decision.source)), "{repeated:?}");
    for (decisions, from, to) in [(&passed, began, asked), (&denied, asked, denied_at), (&repeated, denied_at, ended)] {
        let (from, to) = (from.minus_ms(CLOCK_ERROR_MS), to.plus_ms(CLOCK_ERROR_MS));
        for decision in decisions {
            assert!((from..=to).contains(&decision.at), "{:?} is not in {from:?}..={to:?}: {decision:?}", decision.at);
        }
    }
    let instants = |of: fn(&tollgate::LimitStatus) -> u64| {
        let bounds =
            denied.iter().chain(&repeated).map(|decision| (decision, decision.status.as_ref().expect("a rule")));
        let at = bounds.map(|(decision, status)| decision.at.plus_ms(of(status)));
        let at: Vec<Timestamp> = at.collect();
        let (first, last) = (at.iter().min().expect("some"), at.iter().max().expect("some"));
        last.ms_since(*first)
    };
    let (retry, reset) = (instants(|status| status.retry_after_ms), instants(|status| status.reset_ms));
    assert!(retry <= 2 * CLOCK_ERROR_MS, "the retry times of the denials differ by {retry} ms");
    assert!(reset <= 2 * CLOCK_ERROR_MS, "the reset times differ by {reset} ms");
}

/// C5, D3: agents with the same clocks spend leases only in the sub-windows of their charges, and together admit no
/// unit beyond the quota. This test has the server's clock, by which the lease of each call has not ended.
#[test]
fn wrong_clocks_prolong_no_lease() {
    let redis = Redis::start();
    let agents = OFFSETS_MS.map(|offset_ms| agent(&redis, offset_ms, LEASING_QUOTA, true));
    let window = Window::with_default_sub_windows(60_000).expect("a window");
    let (clock, mut admitted, mut leased) = (SystemClock::start(), 0, 0);
    for call in 0..LEASING_CALLS {
        let before = clock.now();
        let decision = check(&agents[call % agents.len()]);
        let (earliest, latest) = (before.minus_ms(READ_ERROR_MS), clock.now().plus_ms(READ_ERROR_MS));
        assert!(matches!(decision.source, Source::Store | Source::Local), "{decision:?}");
        admitted += usize::from(decision.allowed);
        if decision.by == Some(LocalAnswer::Lease) {
            leased += 1;
            let begun = window.start_of(window.sub_window(decision.at));
            assert!(earliest <= decision.at && begun <= latest, "{:?} in {earliest:?}..={latest:?}", decision.at);
        }
    }
    println!("{admitted} of {LEASING_QUOTA} units admitted, {leased} by leases");
    assert!(admitted <= LEASING_QUOTA && admitted * 10 >= LEASING_QUOTA * 9, "{admitted} admitted");
    // On a busy machine, calls come more slowly, and fewer of them are leased.
    assert!(leased * 10 > admitted, "{leased} of {admitted} by leases");
}
