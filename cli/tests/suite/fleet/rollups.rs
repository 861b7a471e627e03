//! Rollups over real Kafka while aggregators die: the minutes in the log, in DuckDB and in ClickHouse, and the answers of
//! `/api/v1`, equal what the callers saw.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;

use serde_json::json;
use tollgate_bus::{Bus, LogWriter, Topic};
use tollgate_core::clock::{Clock, Stopwatch, SystemClock};
use tollgate_core::counter::DigestKey;
use tollgate_core::messages::rollups::{MINUTE_MS, Rollup, RollupBatch, Subject, Totals};
use tollgate_servers::scaled;
use tollgate_wire::Record;

use super::fleet_of_processes::{Fleet, Member};
use super::loaded_rollups::{self, Seen};
use super::log;
use crate::support::{Client, wait_for};

/// Time of the load, in seconds, and the time between two deaths.
const LOAD_S: u64 = 120;
const DEATHS: u32 = 6;
const KEYS: u64 = 40;
const CALLS_PER_S: u64 = 200;
/// Time before and after the start of a minute in which no call is made, because the store's clock decides its minute, in ms.
const APART_MS: u64 = 1_500;
const FLUSH_WAIT: Duration = Duration::from_secs(30);
/// Two rules in each call; the first one denies a part of them. The version is the same at all agents, as one time of reading the
/// file is not.
const RULES: &str = "
version: 1
rules:
  - { name: per-key, per: [api_key], quota: 60/min, deadline: 1s }
  - { name: tenant, per: [tenant], quota: 1000000/min, deadline: 1s }
";
const QUOTAS: [(&str, u64); 2] = [("per-key", 60), ("tenant", 1_000_000)];
const AGENTS: [&str; 2] = ["gw-1", "gw-2"];

/// Admitted and denied calls by minute and key, as callers saw them.
type Calls = BTreeMap<(u64, String), (u64, u64)>;

/// Calls an agent at a steady rate, and returns the answers.
fn load(agent: u64, address: SocketAddr, time: Duration) -> Calls {
    let (mut calls, mut rng, started) = (Calls::new(), fastrand::Rng::with_seed(agent), Stopwatch::start());
    let clock = SystemClock::start();
    let now_ms = || clock.now().as_ms();
    let mut client = wait_for("an agent", || Client::connect(address));
    let mut due = Duration::ZERO;
    while started.elapsed() < time {
        due += Duration::from_micros(1_000_000 / CALLS_PER_S);
        wait_for("the next call", || (started.elapsed() >= due).then_some(()));
        wait_for("the middle of a minute", || {
            (APART_MS..MINUTE_MS - APART_MS).contains(&(now_ms() % MINUTE_MS)).then_some(())
        });
        let key = format!("key-{}", rng.u64(0..KEYS).min(rng.u64(0..KEYS)));
        let minute = now_ms() / MINUTE_MS * MINUTE_MS;
        let body = json!({ "descriptors": { "api_key": key, "tenant": "t1" } });
        client.send("POST", "/check", &[], &body.to_string());
        let of_key = calls.entry((minute, key)).or_default();
        match client.receive().status {
            200 => of_key.0 += 1,
            429 => of_key.1 += 1,
            other => panic!("status {other}"),
        }
    }
    calls
}

/// Returns all records of the topic, in their order.
fn batches(bus: &impl Bus) -> Vec<RollupBatch> {
    let end = wait_for("the end of the log", || bus.next_offset(Topic::Rollups, 0));
    let records = log::all(bus, Topic::Rollups, &[end]);
    records.iter().map(|record| RollupBatch::decode(&record.payload).expect("rollups")).collect()
}

/// Writes each record again, first with half of its calls as of an earlier offset, as a slow aggregator does that has lost the
/// partition.
fn write_again(bus: &impl Bus) {
    let mut records = Vec::new();
    for newest in batches(bus) {
        if let Some(as_of) = newest.as_of.checked_sub(1) {
            let mut older = RollupBatch { as_of, ..newest.clone() };
            for Rollup { totals, .. } in &mut older.rollups {
                totals.admitted /= 2;
                totals.denied = totals.denied.map(|denied| denied / 2);
            }
            records.push(older.encode());
        }
        records.push(newest.encode());
    }
    let (mut writer, count) = (bus.writer(Topic::Rollups), records.len());
    for record in records {
        writer.append(0, record, 0).expect("the queue has room");
    }
    writer.flush(FLUSH_WAIT);
    let stored = writer.reports().iter().filter(|report| report.offset.is_some()).count();
    assert_eq!(stored, count, "Kafka has each record");
}

/// Returns the newest rollup of each name, added over partitions: by minute and subject.
fn minutes(bus: &impl Bus) -> BTreeMap<(u64, Subject), Totals> {
    let mut newest = BTreeMap::new();
    for batch in batches(bus) {
        for rollup in batch.rollups {
            let name = (batch.partition, rollup.start.as_ms(), rollup.subject);
            let known = newest.entry(name).or_insert((batch.as_of, rollup.totals));
            if batch.as_of >= known.0 {
                *known = (batch.as_of, rollup.totals);
            }
        }
    }
    let mut sums: BTreeMap<(u64, Subject), Totals> = BTreeMap::new();
    for ((_, start, subject), (_, totals)) in newest {
        sums.entry((start, subject)).or_default().add(&totals);
    }
    sums
}

/// A6, L1: three aggregators of which one is killed again and again; the rollups equal the callers' own logs by rule, caller and
/// minute, each aggregator shows the whole fleet, and a warehouse has the same sums.
#[test]
fn minutes_equal_what_callers_saw_whatever_dies() {
    let time = Duration::from_secs(scaled(LOAD_S));
    let fleet = Fleet::start("rollups", RULES);
    let agents = AGENTS.map(|node| fleet.agent(node));
    let mut aggregators = ["agg-1", "agg-2", "agg-3"].map(|node| fleet.aggregator(node));
    aggregators.iter().for_each(Member::wait_until_ready);
    let addresses = agents.each_ref().map(Member::address);
    let (mut seen, mut by_agent) = (Calls::new(), BTreeMap::new());
    std::thread::scope(|scope| {
        let loads: Vec<_> =
            (0..).zip(addresses).map(|(agent, address)| scope.spawn(move || load(agent, address, time))).collect();
        let started = Stopwatch::start();
        for death in 1..=DEATHS {
            let due = time * death / (DEATHS + 1);
            wait_for("the next death", || (started.elapsed() >= due).then_some(()));
            // Each is killed in turn.
            aggregators.rotate_left(1);
            let victim = &mut aggregators[0];
            victim.kill();
            victim.restart();
        }
        for (agent, load) in AGENTS.into_iter().zip(loads) {
            for (name, (admitted, denied)) in load.join().expect("a load") {
                for sum in [seen.entry(name).or_default(), by_agent.entry(agent.to_owned()).or_default()] {
                    *sum = (sum.0 + admitted, sum.1 + denied);
                }
            }
        }
    });
    let bus = log::bus(&fleet.kafka.brokers());
    let made: u64 = seen.values().map(|(admitted, denied)| admitted + denied).sum();
    let denied: u64 = seen.values().map(|(_, denied)| denied).sum();
    assert!(denied > 0, "the rule denies nothing");
    // The partitions of the keys and that of the tenant are closed one after the other.
    let found = wait_for("all closed minutes", || {
        let found = minutes(&bus);
        let calls = |subject: &Subject| -> u64 {
            found.iter().filter(|((_, of), _)| of == subject).map(|(_, sums)| sums.calls()).sum()
        };
        (calls(&Subject::Calls) >= made && calls(&Subject::Rule("tenant".into())) >= made - denied).then_some(found)
    });

    let key = DigestKey::default();
    let (mut by_minute, mut callers): (BTreeMap<u64, (u64, u64)>, _) = (BTreeMap::new(), BTreeMap::new());
    for ((minute, name), (admitted, denied)) in &seen {
        let caller = format!("api_key={}", key.shown(name, true));
        let sums = found[&(*minute, Subject::Caller { rule: "per-key".into(), caller: (&*caller).into() })];
        assert_eq!((sums.admitted, sums.denied()), (*admitted, *denied), "{name} in minute {minute}");
        callers.insert(("per-key".to_owned(), caller, *minute), (*admitted, *denied));
        let sum = by_minute.entry(*minute).or_default();
        *sum = (sum.0 + admitted, sum.1 + denied);
    }
    for (minute, (admitted, denied)) in &by_minute {
        let of = |subject| found[&(*minute, subject)];
        let (calls, rule, tenant) =
            (of(Subject::Calls), of(Subject::Rule("per-key".into())), of(Subject::Rule("tenant".into())));
        assert_eq!((calls.admitted, calls.denied()), (*admitted, *denied), "all calls in minute {minute}");
        assert_eq!((rule.admitted, rule.denied()), (*admitted, *denied), "per-key in minute {minute}");
        assert_eq!((tenant.admitted, tenant.denied()), (*admitted, 0), "tenant in minute {minute}");
        let caller = format!("tenant={}", key.shown("t1", true));
        callers.insert(("tenant".to_owned(), caller, *minute), (*admitted, 0));
        assert_eq!(calls.by_source.iter().sum::<u64>(), admitted + denied, "{calls:?}");
    }
    // Every aggregator has the view of the whole fleet, the one that was restarted last included.
    for aggregator in &aggregators {
        wait_for("the series of the fleet", || {
            let series = aggregator.get("/api/v1/series?step=1m");
            let points = series["points"].as_array()?;
            let sum = |column: usize| points.iter().filter_map(|point| point[column].as_u64()).sum::<u64>();
            ((sum(1), sum(2)) == (made - denied, denied)).then_some(())
        });
    }
    // Without aggregators, nobody else writes to the topic while it is read.
    drop(aggregators);
    let quotas = QUOTAS.map(|(rule, quota)| (rule.to_owned(), quota)).into();
    let seen = Seen { calls: by_minute, callers, agents: by_agent, quotas };
    loaded_rollups::assert_equal(&fleet.kafka.brokers(), &seen, || write_again(&bus));
}
