//! Addresses of Redis: Unix sockets, IPv6, databases, and several servers of which one is the primary.

use tollgate_servers::{Redis, wait_for};

use super::{Log, agent, wait_for_store};
use crate::support::Up;

/// Returns the servers of `/healthz`, as "NODE connected" or "NODE away".
fn nodes(agent: &Up) -> Vec<String> {
    let health = agent.client().get("/healthz", &[]).json();
    let nodes = health["redis"].as_array().expect("servers").iter();
    nodes
        .map(|node| {
            let state = if node["connected"] == true { "connected" } else { "away" };
            format!("{} {state}", node["node"].as_str().expect("a name"))
        })
        .collect()
}

fn replica_of(primary: &Redis) -> Redis {
    let replica = Redis::start_with(&["--replicaof", &format!("127.0.0.1 {}", primary.port())]);
    wait_for("replication", || replica.command("INFO replication").contains("master_link_status:up").then_some(()));
    replica
}

/// D7: a Unix socket, an IPv6 address, and a database.
#[test]
fn each_form_of_an_address_reaches_the_server() {
    let folder = tempfile::tempdir().expect("a folder");
    let socket = folder.path().join("redis.sock").display().to_string();
    let redis = Redis::start_with(&["--bind", "127.0.0.1 ::1", "--unixsocket", &socket]);
    let port = redis.port();
    for (url, node) in [
        (format!("redis+unix://{socket}"), socket.clone()),
        (format!("redis://[::1]:{port}"), format!("[::1]:{port}")),
        (format!("redis://localhost:{port}/3"), format!("localhost:{port}")),
    ] {
        let agent = agent(&url, &[]);
        wait_for_store(&agent);
        assert_eq!(nodes(&agent), [format!("{node} connected")], "{url}");
    }
    let in_use = redis.command("INFO keyspace");
    assert!(in_use.contains("db0:") && in_use.contains("db3:"), "{in_use}");
}

/// The primary of several servers is found by its role, whatever their order, and again after their roles have changed.
#[test]
fn the_primary_of_several_servers_is_found_by_its_role() {
    let first = Redis::start();
    let second = replica_of(&first);
    let hosts = [&second, &first].map(|redis| format!("127.0.0.1:{}", redis.port()));
    let mut agent = agent(&format!("redis://{}", hosts.join(",")), &[]);
    let mut log = Log::of(&mut agent);
    wait_for_store(&agent);
    assert_eq!(nodes(&agent), [format!("{} connected", hosts[1])]);
    assert_eq!(second.command("REPLICAOF NO ONE"), "+OK");
    assert_eq!(first.command(&format!("REPLICAOF 127.0.0.1 {}", second.port())), "+OK");
    wait_for("the new primary", || {
        // A call makes the old primary answer that it is none.
        agent.client().check("sk_a");
        (nodes(&agent) == [format!("{} connected", hosts[0])]).then_some(())
    });
    wait_for_store(&agent);
    log.line("ReadOnly");
}

/// A replica alone is named with its primary, and the address of that is the remedy.
#[test]
fn a_replica_is_named_with_its_primary() {
    let primary = Redis::start();
    let replica = replica_of(&primary);
    let mut at_replica = agent(&replica.url(), &[]);
    let told = Log::of(&mut at_replica).line("is a replica");
    assert!(told.contains(&replica.url()) && told.contains(&format!("127.0.0.1:{}", primary.port())), "{told}");
    assert!(told.contains("give the address of the primary, or those of all servers: redis://host,host"), "{told}");
    assert_eq!(nodes(&at_replica), [format!("{} away", replica.url())]);
    let both = format!("{},127.0.0.1:{}", replica.url(), primary.port());
    wait_for_store(&agent(&both, &[]));
}

/// A server that may evict counters is warned of, and its remedy ends the warning.
#[test]
fn a_server_that_evicts_is_warned_of() {
    let redis = Redis::start_with(&["--maxmemory", "100mb", "--maxmemory-policy", "allkeys-lru"]);
    let mut warned = agent(&redis.url(), &[]);
    let told = Log::of(&mut warned).line("this Redis evicts keys when full");
    assert!(told.contains(&redis.url()) && told.contains("maxmemory-policy noeviction"), "{told}");
    assert_eq!(redis.command("CONFIG SET maxmemory-policy noeviction"), "+OK");
    let mut quiet = agent(&redis.url(), &[]);
    wait_for_store(&quiet);
    let log = Log::of(&mut quiet);
    quiet.signal("TERM");
    assert!(!log.rest().iter().any(|line| line.contains("evicts")));
}

/// A full Redis answers pings and refuses charges: the health names it while calls are refused, and the printed remedy ends it.
#[test]
fn a_full_redis_is_a_problem_while_it_refuses_charges() {
    let redis = Redis::start_with(&["--maxmemory-policy", "noeviction"]);
    let agent = agent(&redis.url(), &[]);
    wait_for_store(&agent);
    assert_eq!(redis.command("CONFIG SET maxmemory 1"), "+OK");
    let health = || agent.client().get("/healthz", &[]).json();
    for number in 0..10 {
        agent.client().check(&format!("sk_{number}"));
        let health = health();
        let why = health["problems"][0]["why"].as_str().unwrap_or_default();
        assert!(health["status"] == "degraded" && why.contains("maxmemory"), "{health}");
    }
    assert_eq!(redis.command("CONFIG SET maxmemory 0"), "+OK");
    wait_for("health", || {
        agent.client().check("sk_later");
        (health()["status"] == "ok").then_some(())
    });
}
