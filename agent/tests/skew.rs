//! Whole agents whose clocks are wrong, over one real Redis.

use std::sync::{Arc, LazyLock};
use std::time::Duration;

use tokio::runtime::Runtime;
use tollgate::{Agent, Call, Decision, Rule, Source};
use tollgate_core::clock::{Clock, SystemClock, Timestamp};
use tollgate_servers::{Redis, wait_for};

const QUOTA: usize = 100;
const OFFSETS_MS: [i64; 4] = [0, 3_000, 30_000, -30_000];
/// Less than any of the offsets, so that a question which expires by a wrong clock expires.
const DEADLINE: Duration = Duration::from_secs(1);
/// An agent knows its store's time as well as the round trip of a ping allows; one that takes longer is not waited for.
const CLOCK_ERROR_MS: u64 = 52;

static RUNTIME: LazyLock<Runtime> = LazyLock::new(|| Runtime::new().expect("a runtime"));

/// A clock that is wrong by so many ms.
struct Skewed(SystemClock, i64);

impl Clock for Skewed {
    fn now(&self) -> Timestamp {
        Timestamp::from_ms(self.0.now().as_ms().saturating_add_signed(self.1))
    }
}

fn agent(redis: &Redis, offset_ms: i64) -> Agent {
    let _inside = RUNTIME.enter();
    let rule = Rule::per("per-key", &["api_key"], "100/min".parse().unwrap())
        .strict()
        .with(|policy| policy.deadline = DEADLINE);
    let clock = Arc::new(Skewed(SystemClock::start(), offset_ms));
    let agent = Agent::builder().node(format!("off by {offset_ms} ms")).clock(clock).rule(rule);
    let agent = agent.redis(&*redis.url()).start().expect("it starts");
    wait_for("readiness", || RUNTIME.block_on(agent.readiness()).missing.is_empty().then_some(()));
    agent
}

fn check(agent: &Agent) -> Decision {
    RUNTIME.block_on(agent.check(&Call::new().with("api_key", "k")))
}

/// The server's own time.
fn time(redis: &Redis) -> Timestamp {
    let reply = redis.command("TIME");
    let mut numbers = reply.lines().filter_map(|line| line.trim().parse::<u64>().ok());
    let (seconds, micros) = (numbers.next().expect("seconds"), numbers.next().expect("microseconds"));
    Timestamp::from_ms(seconds * 1_000 + micros / 1_000)
}

/// D3: agents 3 s ahead, 30 s ahead and 30 s behind admit together what one with a right clock would, the store decides
/// all their calls, and they tell those whom they deny the same instant to come back at.
#[test]
fn wrong_clocks_change_nothing() {
    let redis = Redis::start();
    let agents = OFFSETS_MS.map(|offset_ms| agent(&redis, offset_ms));
    let began = time(&redis);
    let passed: Vec<Decision> = (0..QUOTA).map(|call| check(&agents[call % agents.len()])).collect();
    for decision in &passed {
        assert_eq!((decision.allowed, decision.source), (true, Source::Store), "{decision:?}");
    }
    let asked = time(&redis);
    let denied: Vec<Decision> = agents.iter().map(check).collect();
    let told = time(&redis);
    // What the store has denied an agent repeats by itself, as long as that holds.
    let repeated: Vec<Decision> = (0..2 * QUOTA).map(|call| check(&agents[call % agents.len()])).collect();
    let ended = time(&redis);

    assert!(denied.iter().all(|decision| !decision.allowed && decision.source == Source::Store), "{denied:?}");
    let by_store = |source| matches!(source, Source::Store | Source::Local);
    assert!(repeated.iter().all(|decision| !decision.allowed && by_store(decision.source)), "{repeated:?}");
    for (decisions, from, to) in [(&passed, began, asked), (&denied, asked, told), (&repeated, told, ended)] {
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
    assert!(retry <= 2 * CLOCK_ERROR_MS, "whom they deny they send away until instants {retry} ms apart");
    assert!(reset <= 2 * CLOCK_ERROR_MS, "they tell resets {reset} ms apart");
}
