//! Whole agents and a Redis whose answers, or whose questions, come late.

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
/// More than enough that a question which was sent at its beginning has expired at its end.
const PAST_EXPIRY: Duration = Duration::from_secs(1);

static RUNTIME: LazyLock<Runtime> = LazyLock::new(|| Runtime::new().expect("a runtime"));

/// Holds up bytes on their way while it is shut.
#[derive(Clone, Default)]
struct Gate(Arc<(Mutex<bool>, Condvar)>);

impl Gate {
    fn set(&self, shut: bool) {
        *self.0.0.lock().expect("nobody died") = shut;
        self.0.1.notify_all();
    }

    fn pass(&self) {
        let shut = self.0.0.lock().expect("nobody died");
        drop(self.0.1.wait_while(shut, |shut| *shut).expect("nobody died"));
    }
}

/// A proxy before a Redis, with a gate for each direction.
struct Proxy {
    url: String,
    questions: Gate,
    answers: Gate,
}

impl Proxy {
    fn before(redis: &Redis) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let url = format!("redis://{}", listener.local_addr().expect("it is bound"));
        let proxy = Self { url, questions: Gate::default(), answers: Gate::default() };
        let (port, questions, answers) = (redis.port(), proxy.questions.clone(), proxy.answers.clone());
        std::thread::spawn(move || {
            for client in listener.incoming().flatten() {
                let Ok(server) = TcpStream::connect(("127.0.0.1", port)) else { return };
                let back = (server.try_clone().expect("a copy"), client.try_clone().expect("a copy"));
                let (questions, answers) = (questions.clone(), answers.clone());
                std::thread::spawn(move || pass(client, server, &questions));
                std::thread::spawn(move || pass(back.0, back.1, &answers));
            }
        });
        proxy
    }
}

fn pass(mut from: TcpStream, mut to: TcpStream, gate: &Gate) {
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
    let _inside = RUNTIME.enter();
    let rule = Rule::per("per-key", &["api_key"], format!("{QUOTA}/h").parse().expect("a quota")).strict();
    let agent = Agent::builder()
        .rule(rule.with(|policy| (policy.on_failure, policy.deadline) = (OnFailure::Open, deadline)))
        .redis(url);
    let agent = agent.start().expect("it starts");
    wait_for("readiness", || RUNTIME.block_on(agent.readiness()).missing.is_empty().then_some(()));
    agent
}

/// So many calls at once.
fn check(agent: &Agent, calls: u64) -> Vec<Decision> {
    let call = |agent: Agent| async move { agent.check(&Call::new().with("api_key", "k")).await };
    let calls: Vec<_> = (0..calls).map(|_| RUNTIME.spawn(call(agent.clone()))).collect();
    calls.into_iter().map(|call| RUNTIME.block_on(call).expect("a call ends")).collect()
}

/// How many units the store counts, by an agent that is beside the proxy.
fn charged(redis: &Redis) -> u64 {
    let decision = &check(&agent(&redis.url(), Duration::from_secs(5)), 1)[0];
    assert_eq!(decision.source, Source::Store);
    QUOTA - decision.status.as_ref().expect("a rule").remaining - 1
}

/// Calls of which some are answered by the store, some wait in vain for it while a gate is shut, and some pass without being
/// asked for, until the store is back and was told what it is owed: how many were admitted, and how many of them waited in
/// vain at most.
fn through_an_outage(proxy: &Proxy, gate: &Gate) -> (u64, u64) {
    let agent = agent(&proxy.url, DEADLINE);
    let mut passed = check(&agent, 10);
    gate.set(true);
    let shut = Stopwatch::start();
    let mut unanswered = check(&agent, 20);
    assert!(shut.elapsed() + Duration::from_millis(1) >= DEADLINE, "they waited");
    wait_for("the store to be given up", || {
        unanswered.extend(check(&agent, 1));
        agent.engine().is_degraded().then_some(())
    });
    let vain = unanswered.len() as u64;
    unanswered.extend(check(&agent, 30));
    assert!(unanswered.iter().all(|decision| decision.source == Source::Fallback), "{unanswered:?}");
    wait_for("all questions to expire", || (shut.elapsed() > PAST_EXPIRY).then_some(()));
    gate.set(false);
    wait_for("the store to be back and told", || (!agent.engine().needs_store()).then_some(()));
    passed.extend(unanswered);
    assert!(passed.iter().all(|decision| decision.allowed), "{passed:?}");
    (passed.len() as u64, vain)
}

/// The store charged calls whose answers came too late, and they passed by `on_failure: open`: each is charged once.
#[test]
fn a_call_whose_answer_comes_too_late_is_charged_once() {
    let redis = Redis::start();
    let proxy = Proxy::before(&redis);
    let (admitted, vain) = through_an_outage(&proxy, &proxy.answers);
    assert_eq!(charged(&redis), admitted, "of {admitted} admitted calls {vain} were answered too late");
}

/// The questions themselves come too late: the store charges none of them, nor is it told of them later.
#[test]
fn a_call_whose_question_comes_too_late_is_charged_at_most_once() {
    let redis = Redis::start();
    let proxy = Proxy::before(&redis);
    let (admitted, vain) = through_an_outage(&proxy, &proxy.questions);
    let charged = charged(&redis);
    assert!(charged <= admitted, "{charged} units are charged for {admitted} admitted calls");
    assert!(charged >= admitted - vain, "{charged} of {admitted} calls, {vain} of which waited in vain");
}
