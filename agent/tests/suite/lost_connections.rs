//! Two agents under a steady load, while Redis closes their connections and pauses again and again: the callers are admitted
//! within the quota, and under `bounded` within a twentieth more.

use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinSet;
use tokio::time::{MissedTickBehavior, interval};
use tollgate::{Agent, Call, Source};
use tollgate_core::clock::Stopwatch;
use tollgate_servers::Redis;

const TIMEOUT: Duration = Duration::from_secs(20);
const AGENTS: NonZeroU32 = NonZeroU32::new(2).unwrap();
/// Callers of each agent, each of which makes one call after the other at this interval.
const CALLERS: u64 = 2;
const INTERVAL: Duration = Duration::from_millis(8);
/// Calls of each caller, and the number of calls of the first caller from one fault to the next.
const CALLS: u64 = 600;
const FAULT_EVERY: u64 = 25;
const QUOTA: u64 = 1_000;
const FAULTS: [&str; 2] = ["CLIENT KILL TYPE normal", "CLIENT PAUSE 30 ALL"];

async fn agent(redis: &Redis, number: u32, settings: &str) -> Agent {
    let rules = format!("rules: [{{ name: key, per: [api_key], quota: {QUOTA}/min, {settings} }}]");
    let rules = tollgate_rules::from_yaml("rules.yaml", &rules, 1).unwrap();
    let builder = Agent::builder().node(format!("agent-{number}")).rules(rules).agents_expected(AGENTS);
    let agent = builder.redis(&*redis.url()).start().unwrap();
    let waited = Stopwatch::start();
    while !agent.missing_parts().await.is_empty() {
        assert!(waited.elapsed() < TIMEOUT, "timed out waiting for Redis");
        tokio::task::yield_now().await;
    }
    agent
}

/// Makes the calls of one caller; the first caller strikes the server. Returns the sources of the admissions.
async fn calls(agent: Agent, strike: Option<impl Fn(u64)>) -> Vec<Source> {
    let (mut admissions, mut ticks) = (Vec::new(), interval(INTERVAL));
    ticks.set_missed_tick_behavior(MissedTickBehavior::Burst);
    for call in 0..CALLS {
        ticks.tick().await;
        if let Some(strike) = strike.as_ref().filter(|_| call % FAULT_EVERY == FAULT_EVERY - 1) {
            tokio::task::block_in_place(|| strike(call / FAULT_EVERY));
        }
        let decision = agent.decide(&Call::new().with("api_key", "k")).await;
        if decision.allowed {
            admissions.push(decision.source);
        }
    }
    admissions
}

/// never-over, D9: the whole run lies in one window, so all admissions of all callers, but those by `on_failure`, are within
/// its bound. Redis closes the connections twelve times and pauses twelve times, while there is room and when there is none.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lost_connections_and_pauses_add_no_excess() {
    for (settings, bound) in [
        ("consistency: strict", QUOTA),
        ("consistency: strict, leases: off", QUOTA),
        ("estimate: conservative", QUOTA + QUOTA / 20),
    ] {
        let redis = Arc::new(Redis::start());
        let mut callers = JoinSet::new();
        for number in 0..AGENTS.get() {
            let agent = agent(&redis, number, settings).await;
            for caller in 0..CALLERS {
                let server = redis.clone();
                let strike = move |place: u64| {
                    let place = usize::try_from(place).expect("a few") % FAULTS.len();
                    // The answer to the kill may be lost with the connection of the command.
                    let _ = server.try_command(FAULTS[place]);
                };
                callers.spawn(calls(agent.clone(), (number == 0 && caller == 0).then_some(strike)));
            }
        }
        let admissions: Vec<Source> = callers.join_all().await.into_iter().flatten().collect();
        let by = |source| admissions.iter().filter(|other| **other == source).count();
        let (store, local, fallback) = (by(Source::Store), by(Source::Local), by(Source::Fallback));
        let admitted = admissions.len() as u64;
        println!("{settings}: {admitted} admitted, {store} by the store, {local} local, {fallback} by on_failure");
        // A pause may open the breaker. What `on_failure` admits then is beside the quota until Redis has it.
        assert!(admitted <= bound + fallback as u64, "{settings}: {admitted} of {bound}, {fallback} by on_failure");
        assert!(admitted >= QUOTA / 4, "{settings}: {admitted}");
    }
}
