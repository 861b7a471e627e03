//! CPU time of a check over TLS and on Redis Clusters, beside one of a single Redis on plain TCP in the same run.
//!
//! N8: the CPU time of Redis for a check of one rule on two and three primaries is at most 1.1 times that on a cluster of one. The
//! program exits with 1 if it is more. A call of several rules takes one step on a single Redis, and one for each rule in a cluster.
//!
//! 64 callers for each primary make checks as fast as they can, through one agent without leases: fewer callers would send fewer
//! requests at once to each of several primaries, which costs more for each. The least of several rounds counts, in which all ways take
//! turns, because other processes use the machine, too.
//!
//! Run: `cargo bench -p tollgate --features redis-tls --bench redis_ways`; the server comes from `apt-get install redis-server`.

#![expect(clippy::cast_precision_loss, reason = "times and ratios of small numbers")]

use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};
use tokio::task::JoinSet;
use tollgate::Agent;
use tollgate::store::{RedisSettings, RedisTlsFiles};
use tollgate_core::call::Call;
use tollgate_core::decision::Source;
use tollgate_core::rules::{Rule, RuleSet};
use tollgate_servers::{Certificates, Redis, RedisCluster, free_port};

/// Number of callers for each primary.
const CALLERS: u64 = 64;
const CHECKS: u64 = 64_000;
const KEYS: u64 = 10_000;
const ROUNDS: usize = 4;
const DESCRIPTORS: [&str; 4] = ["api_key", "ip", "user", "route"];
/// Numbers of rules of a call.
const RULES: [usize; 3] = [1, 2, 4];
/// Largest CPU time of a check on several primaries, in checks on a cluster of one.
const SEVERAL_MAX: f64 = 1.1;
/// Largest part of the checks that may be decided without Redis.
const DEGRADED_MAX: f64 = 0.001;

/// Servers with an agent for each number of rules.
struct Way {
    name: &'static str,
    servers: Servers,
    callers: u64,
    agents: Vec<Agent>,
}

enum Servers {
    One(Redis),
    Cluster(RedisCluster),
}

/// CPU time of a check, in us.
#[derive(Clone, Copy)]
struct Cost {
    redis_us: f64,
    agent_us: f64,
}

impl Servers {
    fn count(&self) -> u64 {
        match self {
            Self::One(_) => 1,
            Self::Cluster(cluster) => cluster.nodes.len() as u64,
        }
    }

    fn cpu_us(&self) -> f64 {
        match self {
            Self::One(redis) => redis.cpu_us(),
            Self::Cluster(cluster) => cluster.nodes.iter().map(Redis::cpu_us).sum(),
        }
    }
}

impl Way {
    async fn start(name: &'static str, servers: Servers, url: String, certificates: &Certificates) -> Self {
        let mut agents = Vec::new();
        for rules in RULES {
            let rule = |descriptor: &&str| {
                let rule = Rule::per(descriptor, &[*descriptor], "1000000/h".parse().expect("a quota"));
                rule.with(|policy| (policy.leases, policy.deadline) = (false, Duration::from_secs(1)))
            };
            let set = RuleSet::new(1, DESCRIPTORS[..rules].iter().map(rule).collect::<Vec<_>>());
            let mut settings = RedisSettings::new(&url).prefixed(format!("of{rules}:"));
            if url.starts_with("rediss") {
                settings.tls = RedisTlsFiles { ca: Some(certificates.path("ca.pem")), ..RedisTlsFiles::default() };
            }
            let agent = Agent::builder().rules(set).redis(settings).start().expect("it starts");
            while !agent.missing_parts().await.is_empty() {
                tokio::task::yield_now().await;
            }
            agents.push(agent);
        }
        let callers = CALLERS * servers.count();
        Self { name, servers, callers, agents }
    }

    /// Makes checks of the agent at a place; returns their cost.
    async fn measure(&self, place: usize, degraded: &Arc<AtomicU64>) -> Cost {
        let (redis_before, agent_before) = (self.servers.cpu_us(), own_cpu_us());
        let mut callers = JoinSet::new();
        let step = usize::try_from(self.callers).expect("a few");
        for caller in 0..self.callers {
            let (agent, degraded) = (self.agents[place].clone(), degraded.clone());
            callers.spawn(async move {
                for number in (caller..CHECKS).step_by(step) {
                    let key = format!("k{}", number * 7_919 % KEYS);
                    let call = DESCRIPTORS.iter().fold(Call::new(), |call, descriptor| call.with(*descriptor, &*key));
                    let decision = agent.decide(&call).await;
                    assert!(decision.allowed);
                    degraded.fetch_add((decision.source == Source::Fallback).into(), Ordering::Relaxed);
                }
            });
        }
        callers.join_all().await;
        let of_check = |before: f64, after: f64| (after - before) / CHECKS as f64;
        Cost { redis_us: of_check(redis_before, self.servers.cpu_us()), agent_us: of_check(agent_before, own_cpu_us()) }
    }
}

/// Returns the CPU time of this process, in us.
fn own_cpu_us() -> f64 {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    time.tv_sec as f64 * 1e6 + time.tv_nsec as f64 / 1e3
}

fn redis_with_tls(certificates: &Certificates) -> (Servers, String) {
    let port = free_port().to_string();
    let [cert, key, ca] = ["server.pem", "server.key", "ca.pem"].map(|name| certificates.text(name));
    let settings = ["--tls-port", &port, "--tls-cert-file", &cert, "--tls-key-file", &key, "--tls-ca-cert-file", &ca];
    let redis = Redis::start_with(&settings.into_iter().chain(["--tls-auth-clients", "no"]).collect::<Vec<_>>());
    (Servers::One(redis), format!("rediss://127.0.0.1:{port}"))
}

#[tokio::main]
async fn main() -> ExitCode {
    let certificates = Certificates::of("own");
    let plain = Redis::start();
    let plain_url = plain.url();
    let (with_tls, tls_url) = redis_with_tls(&certificates);
    let cluster = |cluster: RedisCluster| {
        let url = cluster.url();
        (Servers::Cluster(cluster), url)
    };
    let servers = [
        ("plain TCP", (Servers::One(plain), plain_url)),
        ("TLS", (with_tls, tls_url)),
        ("cluster of 1", cluster(RedisCluster::start_with(1, 0, &[]))),
        ("cluster of 2", cluster(RedisCluster::start_with(2, 0, &[]))),
        ("cluster of 3", cluster(RedisCluster::start_with(3, 0, &[]))),
        ("cluster of 3, TLS", cluster(RedisCluster::start_with_tls(&certificates))),
    ];
    let mut ways = Vec::new();
    for (name, (servers, url)) in servers {
        ways.push(Way::start(name, servers, url, &certificates).await);
    }
    println!("CPU time of a check in us, and in checks on plain TCP; {CALLERS} callers for each primary, no leases\n");
    println!("{:<18} {:>5} {:>14} {:>14}", "way", "rules", "Redis", "agent");
    let (degraded, mut is_missed) = (Arc::<AtomicU64>::default(), false);
    for (place, rules) in RULES.into_iter().enumerate() {
        let mut best = vec![Cost { redis_us: f64::INFINITY, agent_us: f64::INFINITY }; ways.len()];
        for _ in 0..ROUNDS {
            for (way, best) in ways.iter().zip(&mut best) {
                let Cost { redis_us, agent_us } = way.measure(place, &degraded).await;
                *best = Cost { redis_us: best.redis_us.min(redis_us), agent_us: best.agent_us.min(agent_us) };
            }
        }
        for (way, cost) in ways.iter().zip(&best) {
            let of = |us: f64, plain_us: f64| format!("{us:.1} ({:.2} x)", us / plain_us);
            let (redis, agent) = (of(cost.redis_us, best[0].redis_us), of(cost.agent_us, best[0].agent_us));
            println!("{:<18} {rules:>5} {redis:>14} {agent:>14}", way.name);
        }
        if rules == 1 {
            let worst = best[3].redis_us.max(best[4].redis_us) / best[2].redis_us;
            is_missed = worst > SEVERAL_MAX;
            println!("  several primaries, in checks on a cluster of 1: {worst:.2} (< {SEVERAL_MAX})");
        }
    }
    let checks = ROUNDS as u64 * CHECKS * (ways.len() * RULES.len()) as u64;
    let part = degraded.load(Ordering::Relaxed) as f64 / checks as f64;
    println!("\ndecided without Redis: {:.3}% (< {:.1}%)", 100.0 * part, 100.0 * DEGRADED_MAX);
    if is_missed || part > DEGRADED_MAX { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}
