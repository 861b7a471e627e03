//! A machine with more work than cores: eight busy loops beside the threads of an agent, which are pre-empted for many ms.

use std::num::NonZeroU32;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use tollgate::store::MemoryStore;
use tollgate::{Agent, Builder, Call, Decision, Rule, Source};
use tollgate_core::clock::{Stopwatch, SystemClock};
use tollgate_servers::Redis;

const LOOPS: usize = 8;
/// Time for which two threads charge one counter.
const LASTS: Duration = Duration::from_secs(3);
const QUOTA: u64 = 100;
/// Deadline below the time slice of a thread.
const SHORT: Duration = Duration::from_millis(1);

/// Busy loops, which end when this is dropped.
struct Load {
    done: Arc<AtomicBool>,
    loops: Vec<JoinHandle<()>>,
}

impl Load {
    fn start() -> Self {
        let done = Arc::new(AtomicBool::new(false));
        let spin = |done: Arc<AtomicBool>| move || while !done.load(Ordering::Relaxed) {};
        let loops = (0..LOOPS).map(|_| std::thread::spawn(spin(done.clone()))).collect();
        Self { done, loops }
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        self.done.store(true, Ordering::Relaxed);
        self.loops.drain(..).for_each(|busy| busy.join().expect("a loop ends"));
    }
}

fn rule(quota: &str) -> Rule {
    Rule::per("per-key", &["api_key"], quota.parse().expect("a quota"))
}

/// Returns the decisions of one thread that are not by its store, until the time is up, and the number of all.
fn undecided(decide: impl Fn(&Call<'_>) -> Decision) -> (Vec<Decision>, u64) {
    let (call, running) = (Call::new().with("api_key", "hot"), Stopwatch::start());
    let (mut undecided, mut made) = (Vec::new(), 0);
    while running.elapsed() < LASTS {
        let decision = decide(&call);
        made += 1;
        if !matches!(decision.source, Source::Store | Source::Local) {
            undecided.push(decision);
        }
    }
    (undecided, made)
}

/// Two agents with counts in one memory, or one agent with its own: two threads charge one counter, and each is
/// pre-empted by the busy loops and by the other one. No request expires, and no call is decided without its counter.
#[test]
fn counts_in_memory_decide_every_call_on_a_busy_machine() {
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let _inside = runtime.enter();
    let store = Arc::new(MemoryStore::new(Arc::new(SystemClock::start())));
    let short = || rule("1000000/min").with(|policy| policy.deadline = SHORT);
    let sharing = [(); 2].map(|()| {
        let agent = Agent::builder().rule(short()).store(store.clone());
        agent.start_with_store().expect("the agent starts")
    });
    let own = Agent::builder().rule(short()).start().expect("the agent starts");
    let _load = Load::start();
    std::thread::scope(|scope| {
        let shared =
            sharing.each_ref().map(|agent| scope.spawn(|| undecided(|call| runtime.block_on(agent.decide(call)))));
        let owned = [(); 2].map(|()| scope.spawn(|| undecided(|call| runtime.block_on(own.decide(call)))));
        for thread in shared.into_iter().chain(owned) {
            let (undecided, made) = thread.join().expect("a thread ends");
            println!("{made} decisions of one thread, {} without its counter", undecided.len());
            assert!(made > 0 && undecided.is_empty(), "{} of {made}, the first: {:?}", undecided.len(), undecided[0]);
        }
    });
    for agent in &sharing {
        let errors: Vec<_> = agent.engine().metrics().store_errors().filter(|(_, count)| *count > 0).collect();
        assert_eq!(errors, []);
    }
}

/// A machine with more work than cores: under `bounded`, less than 1% of legitimate calls are denied, from the first
/// second of an agent on.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_busy_machine_denies_no_legitimate_calls() {
    let redis = Redis::start();
    let agent: Builder = Agent::builder().agents_expected(NonZeroU32::MIN).rule(rule(&format!("{QUOTA}/h")));
    let agent = agent.redis(redis.url().as_str()).start().expect("a rule and an address");
    while !agent.missing_parts().await.is_empty() {
        tokio::task::yield_now().await;
    }
    let _load = Load::start();
    let (mut denied, mut late) = (0, 0);
    for key in 0..10 {
        let call = Call::new().with("api_key", key.to_string());
        for _ in 0..QUOTA {
            let decision = agent.decide(&call).await;
            late += u64::from(decision.source == Source::Fallback);
            denied += u64::from(!decision.allowed);
        }
    }
    println!("{denied} of 1,000 denied on a busy machine, {late} decided without the store");
    assert!(denied < 10, "{denied} of 1,000");
}
