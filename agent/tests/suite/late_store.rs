//! A late Redis: paused, suspended under load, or with connections that are lost. Its answers count however late they come.

use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};
use std::time::Duration;

use tollgate::rules::Algorithm;
use tollgate::{Agent, Call, Rule};
use tollgate_core::clock::Stopwatch;
use tollgate_servers::Redis;

const QUOTA: u64 = 100;
/// Quota that no test exhausts.
const PLENTY: u64 = 1_000_000;
const TIMEOUT: Duration = Duration::from_secs(30);

async fn agent(redis: &Redis, rule: Rule) -> Agent {
    let agent = Agent::builder().rule(rule).redis(redis.url().as_str()).start().expect("a rule and an address");
    while !agent.missing_parts().await.is_empty() {
        tokio::task::yield_now().await;
    }
    agent
}

/// A rule whose units in the store are those of calls.
fn rule(quota: u64) -> Rule {
    let rule = Rule::per("per-key", &["api_key"], format!("{quota}/h").parse().expect("a quota"));
    rule.with(|policy| policy.leases = false)
}

async fn counted(redis: &Redis, key: &str) -> u64 {
    let agent = agent(redis, rule(PLENTY).with(|policy| policy.deadline = Duration::from_secs(5))).await;
    let call = Call::new().with("api_key", key.to_owned()).costing(0);
    let decision = agent.check(&call).await.expect("a call that costs nothing").decision;
    PLENTY - decision.status.expect("a rule").remaining
}

/// Waits until the units that the store has counted for a key are as expected, and returns them.
async fn counted_once(redis: &Redis, key: &str, is_expected: impl Fn(u64) -> bool) -> u64 {
    let waited = Stopwatch::start();
    loop {
        let counted = counted(redis, key).await;
        if is_expected(counted) {
            return counted;
        }
        assert!(waited.elapsed() < TIMEOUT, "{counted} units are counted");
    }
}

/// never-over, I12: under `strict`, a Redis that pauses before every fifth call admits no more than the quota, and the
/// calls in between pass.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_redis_that_pauses_adds_no_excess() {
    let redis = Arc::new(Redis::start());
    let agent = agent(&redis, rule(QUOTA).strict()).await;
    let call = Call::new().with("api_key", "k");
    let mut admitted = 0;
    for number in 0..300 {
        if number % 5 == 0 {
            redis.pause();
            let (redis, pause_ms) = (redis.clone(), [8, 40, 90][number / 5 % 3]);
            tokio::task::spawn_blocking(move || {
                std::thread::sleep(Duration::from_millis(pause_ms));
                redis.resume();
            });
        }
        admitted += u64::from(agent.check(&call).await.is_ok());
    }
    println!("{admitted} of {QUOTA} admitted");
    assert!((60..=QUOTA).contains(&admitted), "{admitted} of {QUOTA}");
}

/// D9, I12: Redis is suspended under load and continues. Then it counts every admitted unit, once. The experiment on
/// failures measures that a second is enough.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_unit_is_in_a_suspended_redis_after_it_continues() {
    let redis = Redis::start();
    let agent = agent(&redis, rule(PLENTY)).await;
    let admitted = under_load(&agent, || {
        redis.pause();
        std::thread::sleep(Duration::from_millis(300));
        redis.resume();
    })
    .await;
    let counted = counted_once(&redis, "k", |counted| counted >= admitted).await;
    println!("{counted} counted of {admitted} admitted");
    assert_eq!(counted, admitted);
}

/// D9, I12: connections are lost before answers. Then Redis counts every admitted unit at least once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_unit_is_in_redis_after_connections_were_lost() {
    let redis = Redis::start();
    let agent = agent(&redis, rule(PLENTY)).await;
    let admitted = under_load(&agent, || {
        for _ in 0..5 {
            assert!(redis.command("CLIENT KILL TYPE normal SKIPME yes").starts_with(':'), "connections were killed");
            std::thread::sleep(Duration::from_millis(60));
        }
    })
    .await;
    let counted = counted_once(&redis, "k", |counted| counted >= admitted).await;
    println!("{counted} counted of {admitted} admitted, connections lost");
    assert!(counted >= admitted && counted <= admitted + 200, "{counted} counted of {admitted} admitted");
}

/// A permit and its token: a gateway that gives up while Redis is late leaves no slot taken, and no unit charged.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_check_that_is_cancelled_keeps_nothing() {
    let redis = Redis::start();
    let patient = |rule: Rule| rule.with(|policy| policy.deadline = Duration::from_secs(10));
    let slots = Rule::per("slots", &["api_key"], "2/10min".parse().expect("a quota"));
    let agent = Agent::builder()
        .rule(patient(slots.counted_by(Algorithm::Concurrency)))
        .rule(patient(rule(QUOTA)))
        .redis(redis.url().as_str());
    let agent = agent.start().expect("rules and an address");
    while !agent.missing_parts().await.is_empty() {
        tokio::task::yield_now().await;
    }
    let call = Call::new().with("api_key", "k");
    redis.pause();
    assert!(poll_once(pin!(agent.check(&call))).is_pending());
    assert!(poll_once(pin!(agent.decide(&call))).is_pending());
    redis.resume();
    let refunded = || agent.engine().metrics().late_answers().any(|late| late == ("refunded", 2));
    // Maintenance sends the refunds soon after the late answers, and each slot becomes free with its own refund.
    let free_slot = async || {
        let admission = tokio::time::timeout(Duration::from_secs(20), async {
            loop {
                if let (true, Ok(admission)) = (refunded(), agent.check(&call).await) {
                    break admission;
                }
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        });
        admission.await.expect("the answers to both requests are used, and the slots are refunded")
    };
    let admissions = [free_slot().await, free_slot().await];
    let remaining = |admission: &tollgate::Admission| admission.decision.status.as_ref().map(|status| status.remaining);
    assert_eq!(remaining(&admissions[1]), Some(0));
    assert!(agent.check(&call).await.is_err(), "both slots are taken");
    // The refund of a unit may follow that of its slot.
    let counted = counted_once(&redis, "k", |counted| counted <= 2).await;
    assert_eq!(counted, 2, "units of the calls that passed");
}

fn poll_once<F: Future>(future: Pin<&mut F>) -> Poll<F::Output> {
    future.poll(&mut Context::from_waker(Waker::noop()))
}

/// A check works wherever its future is polled: here on a thread without tokio, with a Redis that answers and one that
/// does not.
#[test]
fn a_check_needs_no_runtime_of_its_own() {
    let redis = Redis::start();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
    let runtime = runtime.expect("a runtime");
    let agent = runtime.block_on(agent(&redis, rule(QUOTA)));
    let call = Call::new().with("api_key", "k");
    assert!(wait(agent.check(&call)).is_ok());
    redis.pause();
    let decision = wait(agent.decide(&call));
    assert!(decision.source == tollgate::Source::Fallback && !decision.allowed, "{decision:?}");
    redis.resume();
    assert!(wait(agent.missing_parts()).is_empty());
    wait(agent.shutdown());
}

/// Waits for a future on this thread.
fn wait<F: Future>(future: F) -> F::Output {
    struct Unpark(Thread);
    impl Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    let mut future = pin!(future);
    loop {
        match future.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(output) => return output,
            Poll::Pending => thread::park(),
        }
    }
}

/// Runs calls on one key until `fault` has passed and for a while longer. Returns the number of admitted ones.
async fn under_load(agent: &Agent, fault: impl FnOnce()) -> u64 {
    let done = Arc::new(AtomicBool::new(false));
    let callers: Vec<_> = (0..16)
        .map(|_| {
            let (agent, done) = (agent.clone(), done.clone());
            tokio::spawn(async move {
                let (call, mut admitted) = (Call::new().with("api_key", "k"), 0);
                while !done.load(Ordering::Relaxed) {
                    admitted += u64::from(agent.check(&call).await.is_ok());
                    tokio::time::sleep(Duration::from_millis(2)).await;
                }
                admitted
            })
        })
        .collect();
    let while_running = |ms| tokio::time::sleep(Duration::from_millis(ms));
    while_running(100).await;
    tokio::task::block_in_place(fault);
    while_running(300).await;
    done.store(true, Ordering::Relaxed);
    let mut admitted = 0;
    for caller in callers {
        admitted += caller.await.expect("a caller ends");
    }
    admitted
}
