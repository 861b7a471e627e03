//! Sentinel: the primary is found through it, also after a fail-over under load, and an old primary is left once it is replaced.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use tollgate_core::clock::Stopwatch;
use tollgate_servers::{Certificates, Redis, Sentinel, SentinelGroup, wait_for};

use super::{Log, RULES, agent, check, fleet_agent, wait_for_store};
use crate::support::{Up, file};

/// Maximum time from the end of an election to the next decision of Redis.
const BACK_WITHIN: Duration = Duration::from_secs(5);

/// Returns the port of the primary that this Sentinel names.
fn primary(sentinel: &Sentinel) -> u16 {
    let answer = sentinel.command("SENTINEL GET-MASTER-ADDR-BY-NAME main");
    answer.lines().nth(4).and_then(|port| port.trim().parse().ok()).expect("a port")
}

/// Asks for units of many callers until told to end, every third time with a request id; returns the number of answers that Redis did
/// not decide.
fn load(agent: &Up, is_over: &AtomicBool) -> usize {
    let (mut calls, mut elsewhere) = (0, 0);
    while !is_over.load(Ordering::Relaxed) {
        let id = format!("{agent:p}-{calls}");
        let (user, route) = (format!("u{}", calls % 100), format!("r{}", calls % 5));
        let (_, source) = check(agent, &user, &route, (calls % 3 == 0).then_some(&*id));
        elsewhere += usize::from(source != "store" && source != "local");
        calls += 1;
    }
    elsewhere
}

/// D6: the primary dies under load of three agents, with two rules, one in shadow, and request ids. Calls are decided throughout, and
/// Redis decides again at each agent within 5 s of the election.
#[test]
fn a_fail_over_under_load_ends_within_five_seconds_of_the_election() {
    let mut group = SentinelGroup::start();
    let mut agents = ["a", "b", "c"].map(|node| fleet_agent(&group.url(), node, "sentinel", RULES));
    let mut log = Log::of(&mut agents[0]);
    // A caller of its own for each look: no earlier answer is repeated.
    let looks = AtomicUsize::new(0);
    let decides = |agent: &Up| {
        let look = looks.fetch_add(1, Ordering::Relaxed);
        check(agent, &format!("look-{look}"), "r1", None).1 == "store"
    };
    for agent in &agents {
        wait_for("decisions of Redis", || decides(agent).then_some(()));
    }
    let (old, is_over) = (group.servers[0].port(), AtomicBool::new(false));
    std::thread::scope(|scope| {
        let loading = agents.each_ref().map(|agent| scope.spawn(|| load(agent, &is_over)));
        group.servers[0].kill();
        wait_for("the election", || (primary(&group.sentinels[0]) != old).then_some(()));
        let elected = Stopwatch::start();
        for agent in &agents {
            wait_for("decisions of the new primary", || decides(agent).then_some(()));
        }
        let back = elected.elapsed();
        is_over.store(true, Ordering::Relaxed);
        let elsewhere = loading.map(|loading| loading.join().expect("the load ends"));
        assert!(elsewhere.iter().all(|calls| *calls > 0), "without the primary, others decide: {elsewhere:?}");
        assert!(back < BACK_WITHIN, "{back:?}");
    });
    let node = format!("node=\"127.0.0.1:{}\"", primary(&group.sentinels[0]));
    log.line(&node);
}

/// D6: Sentinel replaces a primary that still runs and keeps its connections. The agent leaves it, and charges it no more.
#[test]
fn an_old_primary_is_not_charged_once_sentinel_has_replaced_it() {
    let group = SentinelGroup::start();
    let mut agent = agent(&group.url(), &[]);
    let mut log = Log::of(&mut agent);
    wait_for_store(&agent);
    // The old primary is not told at once, as one that Sentinel cannot reach.
    let old = &group.servers[0];
    assert_eq!(group.sentinels[0].command("SENTINEL FAILOVER main"), "+OK");
    let told = log.line("Sentinel has replaced the primary");
    assert!(told.contains(&format!("127.0.0.1:{}", old.port())), "{told}");
    wait_for_store(&agent);
    let charged = log.line("connected to Redis");
    let is_new = |server: &&Redis| charged.contains(&format!("127.0.0.1:{}", server.port()));
    let new = group.servers[1..].iter().find(is_new).expect("another server");
    let scripts_run = || (old.scripts_run(), new.scripts_run());
    let (of_old, of_new) = scripts_run();
    for key in 0..20 {
        agent.client().check(&format!("sk_new_{key}"));
    }
    assert_eq!(old.command("SET still primary"), "+OK", "it takes writes");
    let (of_old_now, of_new_now) = scripts_run();
    assert_eq!(of_old_now, of_old, "the old primary is not charged");
    assert!(of_new_now >= of_new + 20, "the new one is");
}

/// N8: Sentinels and servers speak TLS, with the agent and with one another. The agent follows a fail-over, and names what is wrong with
/// the certificate of the Sentinels, or with a port that has none.
#[test]
fn a_primary_is_found_through_sentinels_with_tls_also_after_a_fail_over() {
    let certificates = Certificates::of("own");
    let mut group = SentinelGroup::start_with_tls(&certificates);
    let ca = certificates.text("ca.pem");
    let of_group = agent(&group.url(), &["--redis-ca", &ca]);
    wait_for_store(&of_group);
    let plain = group.sentinels[0].port();
    let at_plain = agent(&format!("rediss+sentinel://127.0.0.1:{plain}/main"), &["--redis-ca", &ca]);
    let other = Certificates::of("other").issuer_pem();
    certificates.write("other.pem", &other);
    let untrusting = agent(&group.url(), &["--redis-ca", &certificates.text("other.pem")]);
    for (mut agent, said) in [(untrusting, "UnknownIssuer"), (at_plain, "Sentinel 127.0.0.1")] {
        let told = Log::of(&mut agent).line(said);
        assert!(told.contains("Sentinel 127.0.0.1:"), "{told}");
    }
    let old = primary(&group.sentinels[0]);
    group.servers[0].kill();
    wait_for("the election", || (primary(&group.sentinels[0]) != old).then_some(()));
    wait_for("decisions of the new primary", || {
        let call = of_group.client().check("sk_after").json();
        (call["source"] == "store").then_some(())
    });
}

/// A wrong name, a Redis in place of a Sentinel, the reverse, and a Sentinel with a password: each has a remedy that works.
#[test]
fn faults_of_sentinels_are_named_with_remedies() {
    let redis = Redis::start();
    let sentinel = Sentinel::watching(redis.port(), 1, &[]);
    let (at_sentinel, at_redis) = (format!("127.0.0.1:{}", sentinel.port()), format!("127.0.0.1:{}", redis.port()));
    for (url, said, remedy) in [
        (format!("redis+sentinel://{at_sentinel}/other"), "no primary of the name other", "SENTINEL MASTERS shows it"),
        (
            format!("redis+sentinel://{at_redis}/main"),
            "answer=Sentinel",
            "give the addresses of the Sentinels (port 26379)",
        ),
        (format!("redis://{at_sentinel}"), "is a Sentinel", "write redis+sentinel://"),
    ] {
        let told = Log::of(&mut agent(&url, &[])).line(said);
        assert!(told.contains(remedy), "{told}");
    }
    wait_for_store(&agent(&format!("redis+sentinel://{at_sentinel}/main"), &[]));

    let guarded = Sentinel::watching(redis.port(), 1, &["requirepass watch"]);
    let url = format!("redis+sentinel://127.0.0.1:{}/main", guarded.port());
    let told = Log::of(&mut agent(&url, &[])).line("NOAUTH");
    assert!(told.contains("--redis-sentinel-password-file FILE"), "{told}");
    let password_file = file("sentinel-password", "watch").display().to_string();
    wait_for_store(&agent(&url, &["--redis-sentinel-password-file", &password_file]));
}
