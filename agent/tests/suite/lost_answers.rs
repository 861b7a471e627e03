//! A connection to Redis that is cut after Redis has charged a call, in place of the answer: the units in Redis are counted, of one
//! Redis, of a cluster, and of a primary behind Sentinel.

use std::time::Duration;

use tokio::runtime::Runtime;
use tollgate::{Agent, Call, Decision, Rule, Source};
use tollgate_core::counter::{CounterId, DigestKey, HashSlotId};
use tollgate_core::rules::OnFailure;
use tollgate_servers::{Proxy, Redis, RedisCluster, Sentinel, wait_for};

const QUOTA: u64 = 1_000;
/// Deadline that a busy machine does not miss.
const DEADLINE: Duration = Duration::from_secs(10);
/// Rules of a call, each with a counter of its own.
const RULES: [&str; 2] = ["user", "route"];

/// Redis behind proxies, one before each node, and an agent.
struct ProxiedRedis {
    runtime: Runtime,
    agent: Agent,
    /// Nodes with their proxies.
    nodes: Vec<(Redis, Proxy)>,
    /// Kept until the end.
    _sentinel: Option<Sentinel>,
}

/// Units of a call in Redis, by rule: the one whose answer was lost, and the other one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Charged {
    lost: u64,
    other: u64,
}

fn proxied(node: Redis) -> (Redis, Proxy) {
    let proxy = Proxy::start();
    proxy.forward_to(node.port());
    (node, proxy)
}

impl ProxiedRedis {
    fn single() -> Self {
        let node = proxied(Redis::start());
        Self::with(&format!("redis://127.0.0.1:{}", node.1.port()), vec![node], None)
    }

    fn sentinel() -> Self {
        let node = proxied(Redis::start());
        let sentinel = Sentinel::watching(node.1.port(), 1, &[]);
        Self::with(&format!("redis+sentinel://127.0.0.1:{}/main", sentinel.port()), vec![node], Some(sentinel))
    }

    fn cluster() -> Self {
        let nodes: Vec<_> = RedisCluster::start_with(3, 0, &[]).nodes.into_iter().map(proxied).collect();
        for (node, proxy) in &nodes {
            assert_eq!(node.command(&format!("CONFIG SET cluster-announce-port {}", proxy.port())), "+OK");
        }
        for (node, _) in &nodes {
            let names = |slots: &str, proxy: &Proxy| slots.contains(&format!(":{}\r", proxy.port()));
            let slots = || node.command("CLUSTER SLOTS");
            wait_for("proxies", || nodes.iter().all(|(_, proxy)| names(&slots(), proxy)).then_some(()));
        }
        Self::with(&format!("redis+cluster://127.0.0.1:{}", nodes[0].1.port()), nodes, None)
    }

    fn with(url: &str, nodes: Vec<(Redis, Proxy)>, sentinel: Option<Sentinel>) -> Self {
        let runtime = Runtime::new().expect("a runtime");
        let guard = runtime.enter();
        let rule = |name| {
            Rule::per(name, &[name], format!("{QUOTA}/h").parse().expect("a quota")).strict().with(|policy| {
                (policy.on_failure, policy.deadline) = (OnFailure::Open, DEADLINE);
                // The units in Redis are those of calls.
                policy.leases = false;
            })
        };
        let builder = Agent::builder().rule(rule(RULES[0])).rule(rule(RULES[1]));
        let agent = builder.redis(url).start().expect("rules and an address");
        drop(guard);
        wait_for("readiness", || runtime.block_on(agent.missing_parts()).is_empty().then_some(()));
        Self { runtime, agent, nodes, _sentinel: sentinel }
    }

    /// Returns the node of a counter.
    fn node(&self, counter: CounterId) -> usize {
        usize::from(HashSlotId::of(counter).cluster_slot()) * self.nodes.len() / (1 << 14)
    }

    /// Returns values of the rules whose counters lie on different nodes, if there are several.
    fn values(&self, case: &str) -> [String; 2] {
        let counter = |rule, value: &String| DigestKey::default().counter(rule, [value.as_str()]);
        let user = format!("user-{case}");
        let node = self.node(counter(RULES[0], &user));
        let mut routes = (0..).map(|number| format!("route-{case}-{number}"));
        let is_elsewhere = |route: &String| self.nodes.len() == 1 || self.node(counter(RULES[1], route)) != node;
        let route = routes.find(is_elsewhere).expect("there are enough numbers");
        [user, route]
    }

    fn check(&self, call: &Call<'_>) -> Decision {
        self.runtime.block_on(self.agent.decide(call))
    }

    /// Returns the units that Redis has counted under a rule.
    fn charged(&self, rule: &'static str, value: &str) -> u64 {
        let decision = self.check(&Call::new().with(rule, value.to_owned()).costing(0));
        assert_eq!(decision.source, Source::Store, "{decision:?}");
        QUOTA - decision.status.expect("a rule").remaining
    }

    /// Makes a call whose answer is lost, and once more if it has an id. Returns its units once nothing is left to be charged.
    fn call_without_answer(&self, case: &str, id: Option<&str>, refuses: bool) -> Charged {
        let [user, route] = self.values(case);
        let counter = DigestKey::default().counter(RULES[0], [user.as_str()]);
        let (redis, proxy) = &self.nodes[self.node(counter)];
        let call = Call::new().with(RULES[0], user.clone()).with(RULES[1], route.clone());
        let call = if let Some(id) = id { call.identified(id.to_owned()) } else { call };
        let run_before = redis.scripts_run();
        proxy.lose_answer(&format!("{{{counter}}}"), refuses);
        let decision = self.check(&call);
        assert!(decision.allowed && proxy.has_lost_answer(), "{case}: {decision:?}");
        wait_for("the script", || (redis.scripts_run() > run_before).then_some(()));
        proxy.accept();
        wait_for("all units in Redis", || (!self.agent.engine().needs_store()).then_some(()));
        if id.is_some() {
            let retry = self.check(&call);
            assert!(retry.allowed && retry.source == Source::Store, "{case}: {retry:?}");
        }
        Charged { lost: self.charged(RULES[0], &user), other: self.charged(RULES[1], &route) }
    }

    /// Loses the answers of calls with and without an id, while Redis can be reached again at once, and while it cannot.
    fn lose_answers(&self, without_id: Charged) {
        for refuses in [false, true] {
            let once = Charged { lost: 1, other: 1 };
            let with_id = self.call_without_answer(&format!("id-{refuses}"), Some("id"), refuses);
            assert_eq!(with_id, once, "with an id; refuses: {refuses}");
            let charged = self.call_without_answer(&format!("none-{refuses}"), None, refuses);
            assert_eq!(charged, without_id, "without an id; refuses: {refuses}");
        }
    }
}

/// A2, D9: Redis has charged a call and its answer is lost. With an id, the call is charged once. Without, Redis cannot tell the
/// repetition from another call: each of its counters in the lost request counts it twice, and never less than once.
#[test]
fn a_call_whose_answer_is_lost_is_charged_once_under_its_id() {
    ProxiedRedis::single().lose_answers(Charged { lost: 2, other: 2 });
}

/// Sentinel names the proxy, and the same holds behind it.
#[test]
fn a_call_whose_answer_is_lost_behind_sentinel_is_charged_once_under_its_id() {
    ProxiedRedis::sentinel().lose_answers(Charged { lost: 2, other: 2 });
}

/// In a cluster, the counters of a call are charged by one request each, and the answer to one of them is lost: the other one is charged
/// once in any case.
#[test]
fn a_call_of_which_one_answer_of_a_cluster_is_lost_is_charged_once_under_its_id() {
    ProxiedRedis::cluster().lose_answers(Charged { lost: 2, other: 1 });
}
