//! `--decision-log kafka`: events of single decisions on the topic `decisions`, in DuckDB and in ClickHouse.

use std::collections::HashMap;

use serde_json::{Value, json};
use tollgate_bus::kafka::{KafkaBus, KafkaSettings, TopicSet};
use tollgate_bus::{Bus, Topic};
use tollgate_servers::is_full;

use super::fleet_of_processes::{Fleet, check};
use super::log;
use super::warehouse::{Warehouse, sections, write_file};
use crate::support::wait_for;

const RULES: &str = "
descriptors: { tenant: { header: x-tenant } }
rules:
  - { name: per-key, per: [api_key], quota: 2/min, deadline: 1s }
  - { name: all, per: [], quota: 100/min, deadline: 1s }
";
const PARTITIONS: u32 = 8;
/// Place of the cause in the rows of both queries.
const CAUSE: usize = 3;
/// Caller in the queries of docs/warehouse.md.
const CALLER_OF_PAGE: &str = "api_key=k1…3783ceca";

fn events(bus: &KafkaBus) -> Vec<Value> {
    let end = |partition| wait_for("the end of the log", || bus.next_offset(Topic::Decisions, partition));
    let ends: Vec<_> = (0..PARTITIONS).map(end).collect();
    let records = log::all(bus, Topic::Decisions, &ends);
    records.iter().map(|record| serde_json::from_slice(&record.payload).expect("a JSON object")).collect()
}

/// Compares the events of a caller with the answers of the page's queries.
fn assert_queries(brokers: &str, caller: &str, of_caller: &[&Value]) {
    let folder = tempfile::tempdir().expect("a folder");
    let (duckdb, clickhouse): (Vec<_>, Vec<_>) =
        sections()["Single decisions"].iter().copied().partition(|statement| statement.contains("read_json"));
    let ([of_duckdb], [tables @ .., of_clickhouse]) = (&*duckdb, &*clickhouse) else {
        panic!("run each statement: {duckdb:?}, {clickhouse:?}");
    };
    let compare = |warehouse: &mut Warehouse, query: &str, columns: &[&str]| {
        assert!(query.contains(CALLER_OF_PAGE), "{query}");
        let query = query.replace(CALLER_OF_PAGE, caller);
        let mut found =
            wait_for("the events", || Some(warehouse.run(&query)).filter(|rows| rows.len() >= of_caller.len()));
        // An absent text is null in DuckDB and empty in ClickHouse.
        for cause in found.iter_mut().filter_map(|row| row.get_mut(CAUSE)).filter(|cause| cause.is_null()) {
            *cause = json!("");
        }
        assert!(found.is_sorted_by_key(|row| std::cmp::Reverse(row[0].as_u64())), "the last one is first: {found:?}");
        let value = |event: &Value, column: &str| match (&event[column], column) {
            (Value::Null, "cause") => json!(""),
            (value, _) => value.clone(),
        };
        let row = |event: &&Value| columns.iter().map(|column| value(event, column)).collect::<Value>();
        let mut expected: Vec<_> = of_caller.iter().map(row).collect();
        // Events may have the same time.
        for rows in [&mut found, &mut expected] {
            rows.sort_by_key(ToString::to_string);
        }
        assert_eq!(found, expected, "{query}");
    };
    write_file(brokers, "decisions", folder.path());
    let columns = ["at_ms", "agent", "allowed", "cause", "rule", "limit", "remaining"];
    compare(&mut Warehouse::duckdb(folder.path()), of_duckdb, &columns);
    if is_full() {
        compare(&mut Warehouse::clickhouse(brokers, folder.path(), tables), of_clickhouse, &columns);
    }
}

/// L8, M1: each denial and the sampled admissions of several agents are on the topic, and the last decisions on a caller are
/// found by its label, in order, without its secret, also by the queries of docs/warehouse.md.
#[test]
fn the_last_decisions_on_a_caller_are_on_the_topic() {
    let fleet = Fleet::start("decisions", RULES);
    let args = ["--decision-log", "kafka", "--decision-log-admissions", "100%"];
    let agents = ["gw-1", "gw-2"].map(|node| fleet.agent_with(node, &args));
    let mut allowed: HashMap<&str, Vec<bool>> = HashMap::new();
    for call in 0..4 {
        for key in ["secret-1", "secret-2"] {
            let mut client = agents[call % 2].client();
            allowed.entry(key).or_default().push(check(&mut client, key).allowed);
        }
    }
    assert_eq!(allowed["secret-1"], [true, true, false, false]);
    let bus =
        KafkaBus::new(KafkaSettings::new(&fleet.kafka.brokers()).carrying(TopicSet::Decisions)).expect("settings");
    wait_for("the topic", || bus.prepare(std::time::Duration::from_secs(5)).ok());
    let events = wait_for("the events", || Some(events(&bus)).filter(|events| events.len() >= 8));
    assert_eq!(events.len(), 8, "{events:?}");
    assert!(events.iter().all(|event| !event.to_string().contains("secret-")), "{events:?}");
    // An id names the agent, the call, and the partition of `calls` that has its home row.
    let calls = log::bus(&fleet.kafka.brokers());
    let homes = wait_for("the calls", || Some(log::homes(&calls)).filter(|homes| homes.len() >= 8));
    for event in &events {
        let id = event["id"].as_str().expect("an id");
        assert!(homes.iter().any(|home| id.starts_with(home)), "{id} of {homes:?}");
    }
    for key in ["secret-1", "secret-2"] {
        let caller = format!("api_key={}", tollgate_core::counter::DigestKey::default().shown(key, true));
        let of_caller: Vec<_> = events.iter().filter(|event| event["caller"] == *caller).collect();
        let mut seen: Vec<_> =
            of_caller.iter().map(|event| (event["at_ms"].as_u64(), event["allowed"].as_bool())).collect();
        seen.sort_unstable();
        let seen: Vec<_> = seen.into_iter().filter_map(|(_, allowed)| allowed).collect();
        assert_eq!(seen.iter().filter(|allowed| **allowed).count(), 2, "{of_caller:?}");
        let denied = of_caller.iter().find(|event| event["allowed"] == false).expect("a denial");
        let fields =
            ["rule", "cause", "limit", "window_ms", "remaining", "cost", "region", "one_of"].map(|name| &denied[name]);
        let expected: [Value; 8] = [
            "per-key".into(),
            "count".into(),
            2.into(),
            60_000.into(),
            0.into(),
            1.into(),
            "default".into(),
            1.0.into(),
        ];
        assert_eq!(fields, expected.each_ref());
        let nodes: std::collections::HashSet<_> = of_caller.iter().map(|event| event["agent"].to_string()).collect();
        assert_eq!(nodes.len(), 2, "both agents decided");
        if key == "secret-1" {
            assert_queries(&fleet.kafka.brokers(), &caller, &of_caller);
        }
    }
}
