//! Two aggregators: they share the partitions, hand them over without a gap in the signals, and take over from a dead one.

use std::collections::BTreeMap;

use tollgate_bus::Topic;

use super::dead_letters::append;
use super::fleet_of_processes::{Fleet, check};
use super::log;
use crate::support::wait_for;

/// Time within which the partitions of a dead aggregator are signalled again, by the clock of the bus, also on a busy
/// machine. On an idle one it takes about a second.
const TAKEN_OVER_MS: u64 = 10_000;
const RULES: &str = "
rules:
  - { name: per-key, per: [api_key], quota: 100/min, consistency: strict, deadline: 1s }
";

/// E3, E6, I11, N7: a second aggregator takes over its share while both are owners. An agent that limits by signals
/// alone sees no difference, also if old signals are repeated. When the second one is killed, its partitions are
/// signalled again within seconds.
#[test]
fn partitions_change_hands_unnoticed_and_are_taken_over_from_the_dead() {
    let mut fleet = Fleet::start("failover", RULES);
    let first = fleet.aggregator("first");
    let agent = fleet.agent("gw-1");
    first.wait_until_ready();
    let mut client = agent.client();
    let keys: Vec<String> = (0..20).map(|number| format!("key-{number}")).collect();
    let admitted = |client: &mut _, key: &String| (0..110).filter(|_| check(client, key).allowed).count();
    assert!(keys.iter().all(|key| admitted(&mut client, key) == 100));
    wait_for("the counts", || {
        let counters = first.get("/counters");
        counters["counters"].as_array()?.iter().all(|counter| counter["denied"] == 10).then_some(())
    });
    fleet.redis.kill();
    wait_for("answers by signal", || (check(&mut client, "unused").source == "signal").then_some(()));

    // All signals so far are in the log again, after newer ones.
    let bus = log::bus(&fleet.kafka.brokers());
    for (record, _) in log::signals(&bus) {
        append(&bus, Topic::Signals, record.partition, &[record.payload]);
    }
    let mut second = fleet.aggregator("second");
    let mut checked = 0;
    wait_for("the end of the handover", || {
        for key in &keys {
            let said = check(&mut client, key);
            assert!(!said.allowed, "{key} during the handover: {said:?}");
            checked += 1;
        }
        let other = check(&mut client, &format!("unused-{checked}"));
        assert_eq!((other.allowed, other.source.as_str()), (true, "signal"), "a key that nobody used");
        let shares = (first.own_partitions().len(), second.own_partitions().len());
        let held = first.get("/healthz")["partitions"].as_array()?.len();
        (shares.1 > 0 && shares.0 + shares.1 == 8 && held == shares.0).then_some(())
    });

    let inherited = second.own_partitions();
    second.kill();
    let mut last_words = BTreeMap::new();
    wait_for("signals of all partitions by the one that is left", || {
        let mut taken_over = BTreeMap::new();
        for (record, batch) in log::signals(&bus) {
            let (partition, appended) = (u64::from(record.partition), record.appended);
            match &*batch.aggregator {
                "second" => drop(last_words.insert(partition, appended)),
                _ if last_words.contains_key(&partition) => drop(taken_over.entry(partition).or_insert(appended)),
                _ => {}
            }
        }
        let after = |partition: &u64| {
            let (last, next) = (last_words.get(partition)?, taken_over.get(partition)?);
            Some(next.ms_since(*last))
        };
        let silences: Option<Vec<u64>> = inherited.iter().map(after).collect();
        silences.map(|silences| assert!(silences.iter().all(|ms| *ms <= TAKEN_OVER_MS), "silent for {silences:?} ms"))
    });
    let said = check(&mut client, &keys[0]);
    assert!(!said.allowed, "{said:?}");
}
