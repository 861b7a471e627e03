//! Counts that Redis loses while Kafka and the aggregator are alive: FLUSHALL, `kill -9` without persistence, DEL, and a
//! failover to a replica without data.

use std::thread;
use std::time::Duration;

use tollgate_servers::Redis;

use super::fleet_of_processes::{Fleet, Member, check};
use crate::support::{Client, wait_for};

const RULES: &str = "
rules:
  - { name: per-key, per: [api_key], quota: 100/min, consistency: strict, deadline: 1s }
";
const QUOTA: usize = 100;
/// Time between two calls, and the calls in one lag of signals.
const PAUSE: Duration = Duration::from_millis(10);
const CALLS_PER_LAG: usize = 15;
/// Most units that a window may hold after a loss.
const BOUND: usize = QUOTA + QUOTA / 20 + CALLS_PER_LAG;

/// Sends so many calls on a key to the agents in turn, at a steady pace. Returns the number of those that were admitted.
fn admitted(clients: &mut [Client], key: &str, calls: usize) -> usize {
    let agents = clients.len();
    let call = |number: usize| {
        thread::sleep(PAUSE);
        check(&mut clients[number % agents], key).allowed
    };
    (0..calls).map(call).filter(|allowed| *allowed).count()
}

/// Waits until the aggregator has counted so many admissions on each of so many keys, and the agents have read a later
/// signal.
fn wait_for_signals(aggregator: &Member, agents: &[Member], keys: usize, units: u64) {
    wait_for("the counts of the aggregator", || {
        let counters = aggregator.counters();
        (counters.values().filter(|counter| counter.admitted >= units).count() >= keys).then_some(())
    });
    let signals = |agent: &Member| agent.metric("tollgate_signal_lag_seconds_count");
    let before: Vec<u64> = agents.iter().map(signals).collect();
    let mut clients: Vec<Client> = agents.iter().map(Member::client).collect();
    wait_for("signals at each agent", || {
        // Signals of other callers come behind those of the callers before.
        admitted(&mut clients, "another", 2 * QUOTA / 10);
        agents.iter().zip(&before).all(|(agent, before)| signals(agent) > *before).then_some(())
    });
}

fn lost(agents: &[Member]) -> (u64, u64, u64) {
    let sum = |name: &str| agents.iter().map(|agent| agent.metric(name)).sum();
    (
        sum("tollgate_store_losses_total"),
        sum("tollgate_store_lost_total"),
        sum("tollgate_store_lost_forgotten_total") + sum("tollgate_unsynced_forgotten_total"),
    )
}

/// I10: after 80 of 100, FLUSHALL and then `kill -9` leave no second quota, and each agent says in its log what was lost.
#[test]
fn a_flush_and_a_restart_without_data_leave_no_second_quota() {
    let mut fleet = Fleet::start("flush", RULES);
    let aggregator = fleet.aggregator("counting");
    let mut agents = [fleet.agent("gw-1"), fleet.agent("gw-2")];
    aggregator.wait_until_ready();
    let mut clients = agents.each_ref().map(Member::client);
    let before = ["flushed", "killed"].map(|key| admitted(&mut clients, key, 80));
    assert_eq!(before, [80, 80]);
    wait_for_signals(&aggregator, &agents, 2, 80);

    assert_eq!(fleet.redis.command("FLUSHALL"), "+OK");
    let after = admitted(&mut clients, "flushed", 100);
    assert!(80 + after <= BOUND, "{after} of 20 after the flush");
    wait_for("each agent to find the loss", || (lost(&agents).0 >= 2).then_some(()));

    fleet.redis.kill();
    fleet.redis.restart();
    let mut client = agents[0].client();
    wait_for("the store to decide again", || (check(&mut client, "after").source == "store").then_some(()));
    let after = admitted(&mut clients, "killed", 100);
    assert!(80 + after <= BOUND, "{after} of 20 after the restart");
    wait_for("each agent to find the loss again", || (lost(&agents).0 >= 4).then_some(()));
    let (_, counters, forgotten) = lost(&agents);
    assert!(counters >= 2 && forgotten == 0, "{counters} counters, {forgotten} forgotten");
    for agent in &mut agents {
        let lines = agent.stop();
        assert!(lines.contains("the store has lost counts") && lines.contains("check persistence"), "{lines}");
    }
}

/// I12: after 100 of 100, DEL of the live counter leaves no second quota, also at an agent that did not admit the calls. The
/// loss is counted and logged, and is not taken for one of the whole store.
#[test]
fn a_deleted_counter_is_entered_again_from_the_signal() {
    let fleet = Fleet::start("deleted", RULES);
    let aggregator = fleet.aggregator("counting");
    let mut agents = [fleet.agent("gw-1"), fleet.agent("gw-2"), fleet.agent("gw-3")];
    aggregator.wait_until_ready();
    let mut clients = agents.each_ref().map(Member::client);
    assert_eq!(admitted(&mut clients[..2], "deleted", 100), 100);
    wait_for_signals(&aggregator, &agents, 1, 100);
    let keys = fleet.redis.command("KEYS tollgate:{*");
    for key in keys.lines().map(str::trim).filter(|line| line.starts_with("tollgate:")) {
        assert_eq!(fleet.redis.command(&format!("DEL {key}")), ":1");
    }
    let after = admitted(&mut clients[2..], "deleted", 100);
    assert!(QUOTA + after <= BOUND, "{after} after the counter was deleted");
    let (losses, counters, forgotten) = lost(&agents);
    assert!(
        losses == 0 && counters >= 1 && forgotten == 0,
        "{losses} losses, {counters} counters, {forgotten} forgotten"
    );
    let lines = agents[2].stop();
    assert!(lines.contains("the store has lost counters") && lines.contains("noeviction"), "{lines}");
}

/// I10: Redis becomes a replica of an empty server and then a primary again. The units that were admitted before and
/// meanwhile are in its counts afterwards, but for those of one lag: two calls at each agent, because machines may be busy.
#[test]
fn a_failover_to_a_replica_without_data_loses_no_unit() {
    const KEYS: usize = 35;
    const PER_LAG: u64 = 4;
    let fleet = Fleet::start("replica", RULES);
    let other = Redis::start_with(&["--repl-diskless-sync-delay", "0"]);
    let aggregator = fleet.aggregator("counting");
    let agents = [fleet.agent("gw-1"), fleet.agent("gw-2")];
    aggregator.wait_until_ready();
    let mut clients = agents.each_ref().map(Member::client);
    let keys: Vec<String> = (0..KEYS).map(|number| format!("key-{number}")).collect();
    let mut passed = vec![0; KEYS];
    let mut round = |clients: &mut [Client; 2]| {
        for (number, key) in keys.iter().enumerate() {
            passed[number] += clients.iter_mut().map(|client| u64::from(check(client, key).allowed)).sum::<u64>();
        }
    };
    (0..26).for_each(|_| round(&mut clients));
    wait_for_signals(&aggregator, &agents, KEYS, 52);
    let port = other.url().rsplit(':').next().expect("a port").to_owned();
    assert_eq!(fleet.redis.command(&format!("REPLICAOF 127.0.0.1 {port}")), "+OK");
    wait_for("the empty data of the other server", || {
        round(&mut clients);
        fleet.redis.command("INFO replication").contains("master_link_status:up").then_some(())
    });
    assert_eq!(fleet.redis.command("REPLICAOF NO ONE"), "+OK");
    let mut client = agents[0].client();
    wait_for("the store to decide again", || (check(&mut client, "after").source == "store").then_some(()));
    round(&mut clients);
    wait_for("all units to be in the store", || {
        let waiting = agents.iter().map(|agent| agent.metric("tollgate_degraded")).sum::<u64>();
        (waiting == 0 && lost(&agents).0 >= 2).then_some(())
    });
    round(&mut clients);
    let lacking: Vec<(&String, u64, u64)> = keys
        .iter()
        .zip(&passed)
        .filter_map(|(key, passed)| {
            let said = check(&mut client, key);
            (said.remaining > 100 + PER_LAG - passed).then_some((key, *passed, said.remaining))
        })
        .collect();
    assert_eq!((lacking, lost(&agents).2), (vec![], 0), "key, admitted, remaining");
}
