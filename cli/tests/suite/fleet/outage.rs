//! One key through an outage of the store, then of the bus too, and through their recovery.

use std::collections::BTreeMap;
use std::time::Duration;

use tollgate_core::clock::Stopwatch;
use tollgate_core::messages::signals::FRESH_MS;
use tollgate_servers::Redis;

use super::fleet_of_processes::{Fleet, Member, Said, check, while_timing};
use super::log;
use crate::support::wait_for;

const RULES: &str = "
rules:
  - { name: per-key, per: [api_key], quota: 100/min, consistency: strict, deadline: 1s }
";
/// Longest time of a call on a busy machine, below the time-outs of servers. The deadlines themselves are measured by
/// `tollgate-lab live failure`.
const CALL_MAX: Duration = Duration::from_secs(3);
const CALLS: usize = 1_000;
/// Units that the fallback leaves each of three agents: 100 / 3.
const SHARE: u64 = 33;

fn signalled(allowed: bool) -> impl Fn(&Said) -> bool {
    move |said| said.allowed == allowed && said.source == "signal"
}

/// B1, B2, E1, E2, E3, I1: 1,000 calls in turn to two agents admit exactly 100, and the signal says so. Without Redis an
/// agent that was not there then denies the key by signal and admits another; without Kafka too, its rule's fallback
/// decides, and no call waits. After both have recovered, the admitted units are backfilled.
#[test]
fn the_ring_survives_the_loss_of_redis_and_then_of_kafka() {
    let mut fleet = Fleet::start("outage", RULES);
    let aggregator = fleet.aggregator("counting");
    let agents = [fleet.agent("gw-1"), fleet.agent("gw-2")];
    aggregator.wait_until_ready();

    let mut clients = agents.each_ref().map(Member::client);
    let admitted = (0..CALLS).filter(|call| check(&mut clients[call % 2], "hot").allowed).count();
    assert_eq!(admitted, 100);
    let counter = wait_for("the signal of all calls", || {
        let counters = aggregator.get("/counters?rule=per-key");
        let counter = counters["counters"].get(0)?.clone();
        (counter["admitted"].as_u64()? + counter["denied"].as_u64()? == CALLS as u64).then_some(counter)
    });
    assert_eq!((counter["admitted"].as_u64(), counter["denied"].as_u64()), (Some(100), Some(900)));
    let bus = log::bus(&fleet.kafka.brokers());
    let said = wait_for("the record of it", || {
        let last = log::signals(&bus).into_iter().flat_map(|(_, batch)| batch.signals).next_back()?;
        (last.denied == 900).then_some(last)
    });
    assert_eq!(said.admitted.counts().map(|(_, units)| units).sum::<u64>(), 100);

    fleet.redis.kill();
    let third = fleet.agent("gw-3");
    let mut client = third.client();
    let first = check(&mut client, "hot");
    assert!(signalled(false)(&first), "{first:?}");
    let admitted = || Some(check(&mut client, "unused")).filter(|said| said.allowed);
    let unused = wait_for("the third agent to take its part", admitted);
    assert!(signalled(true)(&unused), "{unused:?}");
    let others: Vec<Said> = clients.iter_mut().map(|client| check(client, "hot")).collect();
    assert!(others.iter().all(|said| !said.allowed), "all agents' views agree: {others:?}");

    fleet.kafka.kill();
    let gone = Stopwatch::start();
    wait_for("3 s without Kafka", || (gone.elapsed() > Duration::from_secs(3)).then_some(()));
    let ((slowest, sources), lateness) = while_timing(|| {
        let (mut slowest, mut sources) = (Duration::ZERO, BTreeMap::<String, usize>::new());
        for call in 0..CALLS {
            let took = Stopwatch::start();
            let said = check(&mut client, &format!("fresh-{call}"));
            slowest = slowest.max(took.elapsed());
            *sources.entry(said.source).or_default() += 1;
        }
        (slowest, sources)
    });
    assert_eq!(sources, BTreeMap::from([("fallback".to_owned(), CALLS)]));
    println!("the slowest call took {slowest:?}; a bare timer was {lateness:?} late");
    assert!(slowest <= CALL_MAX, "{slowest:?}");
    let spent = (0..100).filter(|_| check(&mut client, "spender").allowed).count() as u64;
    assert_eq!(spent, SHARE, "share: an equal part of the quota for each of three agents");

    let owed = third.metric("tollgate_backfilled_units_total");
    fleet.redis.restart();
    fleet.kafka.restart();
    wait_for("the store to decide again", || (check(&mut client, "after").source == "store").then_some(()));
    let charged = third.metric("tollgate_backfilled_units_total") - owed;
    assert!(charged >= CALLS as u64 + SHARE, "{charged} units were charged when the store was back");
    let said = check(&mut client, "spender");
    assert_eq!((said.source.as_str(), said.remaining), ("store", 100 - SHARE - 1), "what passed meanwhile is charged");
    wait_for("signals again", || (aggregator.client().get("/readyz", &[]).status == 200).then_some(()));

    // Every call is in the log, or counted as dropped.
    let made = third.metric("tollgate_decisions_total");
    let in_log = wait_for("the calls of the third agent", || {
        let dropped = third.metric("tollgate_dropped_rows_total");
        let calls = log::calls_of(&bus, "gw-3");
        (calls + dropped == made).then_some(calls)
    });
    assert!(in_log > 0);
}

/// E6, one-truth-of-time: the clock of Redis is set back by an hour; then Redis and the aggregator end. The last
/// signals are an hour younger than Redis's time, and yet stale: they decide nothing.
#[test]
fn signals_grow_stale_although_the_clock_of_redis_was_set_back() {
    let mut fleet = Fleet::start("set-back", RULES);
    fleet.redis = Redis::start_with_clock();
    let mut aggregator = fleet.aggregator("counting");
    let agent = fleet.agent("gw-1");
    aggregator.wait_until_ready();
    let mut client = agent.client();
    let mut calls = 0;
    let mut next = || {
        calls += 1;
        check(&mut client, &format!("call-{calls}"))
    };
    wait_for("the store", || (next().source == "store").then_some(()));
    fleet.redis.set_clock(-3_600_000);
    wait_for("the step", || {
        next();
        (agent.metric("tollgate_store_clock_steps_total") == 1).then_some(())
    });
    let signalled = Stopwatch::start();
    wait_for("signals of two seconds", || (signalled.elapsed() > Duration::from_secs(3)).then_some(()));
    fleet.redis.kill();
    aggregator.kill();
    let gone = Stopwatch::start();
    wait_for("stale signals", || (gone.elapsed() > Duration::from_millis(FRESH_MS + 500)).then_some(()));
    let sources: Vec<String> = (0..10).map(|_| next().source).collect();
    assert!(sources.iter().all(|source| source == "fallback"), "{sources:?}");
}
