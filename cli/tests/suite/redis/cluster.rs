//! Redis Cluster: calls over several primaries, slots that move under load, and primaries that are lost.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tollgate_core::clock::Stopwatch;
use tollgate_servers::{Certificates, Redis, RedisCluster, free_port, wait_for};

use super::{Log, RULES, agent, check, fleet_agent, fleet_agent_with, wait_for_store};
use crate::support::{Up, finish, tollgate};

/// Maximum time from the end of an election to the next decision of Redis.
const BACK_WITHIN: Duration = Duration::from_secs(5);
/// Maximum time of the move of a slot.
const PATIENCE: Duration = Duration::from_secs(40);

/// Waits until the agents know all three primaries, and each decides.
fn wait_for_cluster(agents: &[Up]) {
    for agent in agents {
        wait_for("decisions of all primaries", || {
            let health = agent.client().get("/healthz", &[]).json();
            let nodes = health["redis"].as_array().filter(|nodes| nodes.len() == 3)?;
            let are_up = nodes.iter().all(|node| node["connected"] == true);
            (are_up && health["status"] == "ok").then_some(())
        });
    }
}

/// B7, N11: three agents with two rules, one in shadow, and ids share quotas over three primaries, and admit exactly the quota.
#[test]
fn a_fleet_on_a_cluster_admits_the_quota() {
    let cluster = RedisCluster::start();
    let agents = ["a", "b", "c"].map(|node| fleet_agent(&cluster.url(), node, "quota", RULES));
    admit_the_quota(&agents);
}

/// N8: the same over TLS, of the agents with the nodes and of the nodes with one another.
#[test]
fn a_fleet_on_a_cluster_with_tls_admits_the_quota() {
    let certificates = Certificates::of("own");
    let cluster = RedisCluster::start_with_tls(&certificates);
    let ca = certificates.text("ca.pem");
    let agent = |node| fleet_agent_with(&cluster.url(), node, "quota-tls", RULES, &["--redis-ca", &ca]);
    admit_the_quota(&["a", "b", "c"].map(agent));
}

/// Sends more calls than the quotas of some callers allow, and checks what is admitted.
fn admit_the_quota(agents: &[Up; 3]) {
    wait_for_cluster(agents);
    for user in ["u1", "u2", "u3", "u4"] {
        let mut admitted = 0;
        for call in 0..90 {
            let id = format!("{user}-{call}");
            let id = (call % 3 == 0).then_some(&*id);
            let (allowed, source) = check(&agents[call % 3], user, &format!("r{}", call % 5), id);
            assert!(source == "store" || source == "local", "{source}");
            admitted += usize::from(allowed);
        }
        assert_eq!(admitted, 40, "{user}");
    }
    // A request with an id is charged once, whichever agents it comes through.
    for call in 0..100 {
        assert!(check(&agents[call % 3], "u5", "r1", Some("same")).0, "call {call}");
    }
}

/// Returns the key of the only counter of a rule on a node whose key ends so, and its slot.
fn slot_of_counter(cluster: &RedisCluster) -> (usize, u16) {
    for (index, node) in cluster.nodes.iter().enumerate() {
        let keys = node.command("KEYS tollgate:{*");
        let key = keys.lines().skip(2).step_by(2).map(str::trim).find(|key| key.ends_with('}'));
        if let Some(key) = key {
            let slot = node.command(&format!("CLUSTER KEYSLOT {key}"));
            return (index, slot.trim_start_matches(':').trim().parse().expect("a slot"));
        }
    }
    panic!("no counter is stored");
}

/// B7: a slot moves slowly under load, with request ids whose keys are missing at both nodes. No call is lost or counted twice: the quota
/// is admitted exactly, whichever node holds the counter, also if it has just joined the cluster and has no slot but this one.
#[test]
fn a_slot_moves_under_load_and_the_quota_is_admitted_exactly() {
    const QUOTA: usize = 600;
    let rules = "
version: 1
rules: [{ name: user, per: [user], quota: 600/1h, consistency: strict, leases: off, deadline: 100ms }]
";
    let cluster = RedisCluster::start_with_empty_node();
    let agents = ["a", "b"].map(|node| fleet_agent(&cluster.url(), node, "move", rules));
    wait_for_cluster(&agents);
    check(&agents[0], "u1", "r", None);
    let (from, slot) = slot_of_counter(&cluster);
    let to = 3;
    let is_moved = AtomicBool::new(false);
    let admitted: usize = std::thread::scope(|scope| {
        let loads: Vec<_> = agents
            .iter()
            .map(|agent| {
                let is_moved = &is_moved;
                scope.spawn(move || {
                    let (mut admitted, mut calls, mut after) = (0, 0, 0);
                    let began = Stopwatch::start();
                    while after < 500 {
                        assert!(began.elapsed() < PATIENCE, "the slot has not moved");
                        calls += 1;
                        after += usize::from(is_moved.load(Ordering::Relaxed));
                        let id = format!("{agent:p}-{calls}");
                        let (allowed, source) = check(agent, "u1", "r", (calls % 4 == 0).then_some(&*id));
                        // A key that is missing while its slot moves leaves a call with an id without an answer in time.
                        assert!(calls % 4 == 0 || source == "store" || source == "local", "{source}");
                        admitted += usize::from(allowed);
                    }
                    admitted
                })
            })
            .collect();
        cluster.begin_move(slot, from, to);
        let has = |node: usize, section: &str, text: &str| {
            cluster.nodes[node].command(&format!("INFO {section}")).contains(text).then_some(())
        };
        // A new id is missing at the node that has the counter.
        wait_for("TRYAGAIN", || has(from, "errorstats", "errorstat_TRYAGAIN"));
        while cluster.move_keys(slot, from, to, 1) {}
        wait_for("ASK", || has(to, "commandstats", "cmdstat_asking"));
        cluster.end_move(slot, from, to);
        while cluster.move_keys(slot, from, to, 10) {}
        is_moved.store(true, Ordering::Relaxed);
        loads.into_iter().map(|load| load.join().expect("the load ends")).sum()
    });
    assert_eq!(admitted + 1, QUOTA);
    let charged = cluster.nodes[to].scripts_run();
    check(&agents[0], "u1", "r", Some("after"));
    assert!(cluster.nodes[to].scripts_run() > charged, "the new node is asked");
}

/// D6, D7: a primary dies under load. The calls on the counters of the others are decided by Redis throughout, and those on its own
/// within five seconds of the election.
#[test]
fn a_lost_primary_degrades_only_its_counters_until_its_replica_takes_over() {
    let mut cluster = RedisCluster::start();
    let rules = "
version: 1
rules: [{ name: user, per: [user], quota: 100000/1m, leases: off, on_failure: open, deadline: 1s }]
";
    let agents = ["a", "b", "c"].map(|node| fleet_agent(&cluster.url(), node, "lost", rules));
    wait_for_cluster(&agents);
    // The users whose counters each node holds.
    let users: Vec<String> = (0..60).map(|user| format!("u{user}")).collect();
    let lost = 0;
    let is_on_lost = |user: &str| {
        let before = cluster.nodes[lost].scripts_run();
        check(&agents[0], user, "r", None);
        cluster.nodes[lost].scripts_run() > before
    };
    let (of_lost, of_others): (Vec<_>, Vec<_>) = users.iter().partition(|user| is_on_lost(user));
    assert!(of_lost.len() > 5 && of_others.len() > 20, "{} {}", of_lost.len(), of_others.len());
    cluster.nodes[lost].kill();
    let replica = &cluster.nodes[lost + 3];
    let mut elsewhere = 0;
    while !replica.command("ROLE").contains("master") {
        let (allowed, source) = check(&agents[1], of_lost[0], "r", None);
        assert!(allowed, "{source}");
        elsewhere += usize::from(source != "store");
        for (number, user) in of_others.iter().enumerate() {
            let (allowed, source) = check(&agents[number % 3], user, "r", None);
            assert!(allowed && source == "store", "{user}: {source}");
        }
    }
    let elected = Stopwatch::start();
    for agent in &agents {
        wait_for("decisions of the new primary", || (check(agent, of_lost[0], "r", None).1 == "store").then_some(()));
    }
    let back = elected.elapsed();
    assert!(back < BACK_WITHIN && elsewhere > 0, "{back:?}, {elsewhere} decisions by others");
    wait_for_cluster(&agents);
}

/// I8: primaries whose clocks are 300 ms and 30 s apart admit the quota, and a release finds its slots at each of them.
#[test]
fn primaries_with_different_clocks_limit_exactly() {
    let cluster = RedisCluster::start_with_clocks();
    cluster.nodes[1].set_clock(300);
    cluster.nodes[2].set_clock(-30_000);
    let rules = "
version: 1
rules:
  - { name: user, per: [user], quota: 40/1m, consistency: strict, deadline: 5s }
  - { name: route, per: [route], quota: 100000/1m, deadline: 5s }
  - { name: running, per: [user], quota: 1/1m, algorithm: concurrency, consistency: strict, deadline: 5s }
  - { name: watched, per: [user, route], quota: 5/1m, shadow: true, deadline: 5s }
";
    let mut agents = ["a", "b"].map(|node| fleet_agent(&cluster.url(), node, "apart", rules));
    wait_for_cluster(&agents);
    let log = Log::of(&mut agents[0]);
    for user in 0..12 {
        let user = format!("u{user}");
        let mut admitted = 0;
        for call in 0..60 {
            let body = serde_json::json!({ "descriptors": { "user": user, "route": format!("r{}", call % 5) } });
            let answer = agents[call % 2].client().post(&body.to_string()).json();
            assert!(answer["source"] == "store" || answer["source"] == "local", "{answer}");
            if answer["allowed"] == true {
                admitted += 1;
                let mut release = body.clone();
                release["id"] = answer["id"].clone();
                let mut client = agents[call % 2].client();
                // A release waits 50 ms for the store; a caller repeats it, as the answer says.
                let released = wait_for("a release", || {
                    client.send("POST", "/release", &[], &release.to_string());
                    Some(client.receive()).filter(|released| released.status != 503)
                });
                assert_eq!(released.status, 200, "{}", released.text());
            }
        }
        assert_eq!(admitted, 40, "{user}");
    }
    drop(agents);
    let told = log.rest();
    assert!(!told.iter().any(|line| line.contains("clock")), "{told:?}");
}

/// D8: a node of a cluster behind a plain address, a plain Redis behind the address of a cluster, and slots that nobody has: each is named
/// with a remedy that works.
#[test]
fn faults_of_clusters_are_named_with_remedies() {
    let node = Redis::start_with(&["--cluster-enabled", "yes", "--cluster-port", &free_port().to_string()]);
    let at = format!("127.0.0.1:{}", node.port());
    let url = format!("redis+cluster://{at}");
    let mut of_cluster = agent(&url, &[]);
    let told = Log::of(&mut of_cluster).line("no slot is assigned");
    assert!(told.contains("redis-cli --cluster create"), "{told}");
    assert_eq!(node.command("CLUSTER ADDSLOTSRANGE 0 16383"), "+OK");
    wait_for_store(&of_cluster);

    let other = RedisCluster::start_with(2, 0, &[]);
    let mut plain = agent(&other.nodes[0].url(), &[]);
    let mut log = Log::of(&mut plain);
    for key in 0..20 {
        plain.client().check(&format!("sk_{key}"));
    }
    let told = log.line("is a node of a cluster");
    assert!(told.contains("redis+cluster://host,host"), "{told}");
    wait_for_store(&agent(&other.url(), &[]));

    let redis = Redis::start();
    let told = Log::of(&mut agent(&format!("redis+cluster://127.0.0.1:{}", redis.port()), &[])).line("cluster support");
    assert!(told.contains("write redis://host"), "{told}");

    for (args, said) in [
        (["--redis", &*url, "--redis-slots", "multi"], "leave it out"),
        (["--redis", &*url, "--redis-prefix", "a{b}:"], "write another --redis-prefix"),
    ] {
        let refused = finish(tollgate(&["agent", "--limit", "9/min per api_key"]).args(args));
        assert!(refused.exit != 0 && refused.err.contains(said), "{}", refused.err);
    }
}
