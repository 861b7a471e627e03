//! Agents and a Redis whose requests or responses are delayed.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::{Arc, Condvar, LazyLock, Mutex};
use std::time::Duration;

use tokio::runtime::Runtime;
use tollgate::{Agent, Call, Decision, Rule, Source};
use tollgate_core::clock::Stopwatch;
use tollgate_core::rules::OnFailure;
use tollgate_servers::{Redis, wait_for};

const QUOTA: u64 = 10_000;
const DEADLINE: Duration = Duration::from_millis(50);
/// Delay after which every request sent at its beginning has expired.
const EXPIRY_WAIT: Duration = Duration::from_secs(1);

static RUNTIME: LazyLock<Runtime> = LazyLock::new(|| Runtime::new().expect("a runtime"));

/// Barrier that holds back data while it is closed.
#[derive(Clone, Default)]
struct Gate(Arc<(Mutex<bool>, Condvar)>);

impl Gate {
    fn set(&self, closed: bool) {
        *self.0.0.lock().expect("no thread panicked") = closed;
        self.0.1.notify_all();
    }

    fn pass(&self) {
        let shut = self.0.0.lock().expect("no thread panicked");
        drop(self.0.1.wait_while(shut, |shut| *shut).expect("no thread panicked"));
    }
}

/// Proxy in front of Redis with a gate for each direction.
struct Proxy {
    url: String,
    requests: Gate,
    responses: Gate,
}

impl Proxy {
    fn before(redis: &Redis) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let url = format!("redis://{}", listener.local_addr().expect("the listener is bound"));
        let proxy = Self { url, requests: Gate::default(), responses: Gate::default() };
        let (port, requests, responses) = (redis.port(), proxy.requests.clone(), proxy.responses.clone());
        std::thread::spawn(move || {
            for client in listener.incoming().flatten() {
                let Ok(server) = TcpStream::connect(("127.0.0.1", port)) else { return };
                let back = (
                    server.try_clone().expect("the socket is cloned"),
                    client.try_clone().expect("the socket is cloned"),
                );
                let (requests, responses) = (requests.clone(), responses.clone());
                std::thread::spawn(move || forward(client, server, &requests));
                std::thread::spawn(move || forward(back.0, back.1, &responses));
            }
        });
        proxy
    }
}

fn forward(mut from: TcpStream, mut to: TcpStream, gate: &Gate) {
    let mut bytes = [0; 4096];
    while let Ok(len @ 1..) = from.read(&mut bytes) {
        gate.pass();
        if to.write_all(&bytes[..len]).is_err() {
            break;
        }
    }
    let _ = to.shutdown(Shutdown::Both);
}

fn agent(url: &str, deadline: Duration) -> Agent {
    let _guard = RUNTIME.enter();
    let rule = Rule::per("per-key", &["api_key"], format!("{QUOTA}/h").parse().expect("a quota")).strict();
    let rule = rule.with(|policy| {
        (policy.on_failure, policy.deadline) = (OnFailure::Open, deadline);
        // The units in Redis are those of calls.
        policy.leases = false;
    });
    let agent = Agent::builder().rule(rule).redis(url);
    let agent = agent.start().expect("the agent starts");
    wait_for("readiness", || RUNTIME.block_on(agent.missing_parts()).is_empty().then_some(()));
    agent
}

/// Checks several calls concurrently.
fn check(agent: &Agent, calls: u64) -> Vec<Decision> {
    let call = |agent: Agent| async move { agent.decide(&Call::new().with("api_key", "k")).await };
    let calls: Vec<_> = (0..calls).map(|_| RUNTIME.spawn(call(agent.clone()))).collect();
    calls.into_iter().map(|call| RUNTIME.block_on(call).expect("a call ends")).collect()
}

/// Waits until the store has counted so many units, read by an agent that bypasses the proxy. Late answers come on the
/// old connection, which a new one may have replaced.
fn wait_until_charged(redis: &Redis, admitted: u64) {
    let agent = agent(&redis.url(), Duration::from_secs(5));
    let call = Call::new().with("api_key", "k").costing(0);
    wait_for("each admitted call to be charged", || {
        let decision = RUNTIME.block_on(agent.decide(&call));
        let charged = QUOTA - decision.status.as_ref().expect("a rule").remaining;
        assert!(charged <= admitted, "{charged} units are charged for {admitted} admitted calls");
        (charged == admitted).then_some(())
    });
}

/// Checks calls before, during and after an outage. Some are decided by the store, some time out while a gate is
/// closed, and some are decided without a request, until the backfill is complete. Returns the agent, which waits for
/// late answers, and the number of admitted calls.
fn through_an_outage(proxy: &Proxy, gate: &Gate) -> (Agent, u64) {
    let agent = agent(&proxy.url, DEADLINE);
    let mut passed = check(&agent, 10);
    // On a busy machine, answers to the first calls may have been late.
    wait_for("the store to decide", || (!agent.engine().needs_store()).then_some(()));
    gate.set(true);
    let shut = Stopwatch::start();
    let mut undecided = check(&agent, 20);
    assert!(shut.elapsed() + Duration::from_millis(1) >= DEADLINE, "the calls waited until their deadline");
    wait_for("the agent to detect the outage", || {
        undecided.extend(check(&agent, 1));
        agent.engine().is_degraded().then_some(())
    });
    undecided.extend(check(&agent, 30));
    assert!(undecided.iter().all(|decision| decision.source == Source::Fallback), "{undecided:?}");
    wait_for("all requests to expire", || (shut.elapsed() > EXPIRY_WAIT).then_some(()));
    gate.set(false);
    wait_for("the store to recover and the backfill to complete", || (!agent.engine().needs_store()).then_some(()));
    passed.extend(undecided);
    assert!(passed.iter().all(|decision| decision.allowed), "{passed:?}");
    (agent, passed.len() as u64)
}

/// The store charges calls whose responses arrive too late and that `on_failure: open` admits; each is charged once.
#[test]
fn a_call_with_a_late_response_is_charged_once() {
    let redis = Redis::start();
    let proxy = Proxy::before(&redis);
    let (_agent, admitted) = through_an_outage(&proxy, &proxy.responses);
    wait_until_charged(&redis, admitted);
}

/// Requests that reach the store too late are not charged then, and their calls are backfilled: each is charged once.
#[test]
fn a_call_with_a_late_request_is_charged_once() {
    let redis = Redis::start();
    let proxy = Proxy::before(&redis);
    let (_agent, admitted) = through_an_outage(&proxy, &proxy.requests);
    wait_until_charged(&redis, admitted);
}
