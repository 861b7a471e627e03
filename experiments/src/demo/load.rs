//! The load: five hundred well-behaved callers with a few calls per second each, and one abuser.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use fastrand::Rng;
use parking_lot::Mutex;
use tokio::task::JoinSet;
use tollgate::store::ChargeStore;
use tollgate::{Agent, Call};
use tollgate_core::clock::Stopwatch;

use super::record::Recorder;

/// Pause of a well-behaved caller between two calls, in ms.
const WAIT_MS: std::ops::Range<u64> = 100..400;
/// Time between two calls of the abuser.
const ABUSER_PERIOD: Duration = Duration::from_millis(2);
/// The number of the abuser among the callers.
pub(super) const ABUSER: u32 = 0;

/// Running callers.
pub(super) struct DemoLoad {
    stop: Arc<AtomicBool>,
    tasks: JoinSet<()>,
}

/// Starts the callers. Each caller's calls go to the agents in turn.
pub(super) fn start<S: ChargeStore>(agents: &[Agent<S>], callers: u32, recorder: &Arc<Mutex<Recorder>>) -> DemoLoad {
    let stop = Arc::new(AtomicBool::new(false));
    let mut tasks = JoinSet::new();
    for caller in 1..=callers {
        let (agents, recorder, stop) = (agents.to_vec(), recorder.clone(), stop.clone());
        tasks.spawn(async move {
            let mut rng = Rng::with_seed(caller.into());
            let mut next = caller as usize;
            while !stop.load(Ordering::Relaxed) {
                tokio::time::sleep(Duration::from_millis(rng.u64(WAIT_MS))).await;
                next += 1;
                call(&agents[next % agents.len()], caller, &recorder).await;
            }
        });
    }
    let (agents, recorder, stopped) = (agents.to_vec(), recorder.clone(), stop.clone());
    tasks.spawn(async move {
        let mut period = tokio::time::interval(ABUSER_PERIOD);
        let mut calls = JoinSet::new();
        let mut next = 0;
        while !stopped.load(Ordering::Relaxed) {
            period.tick().await;
            next += 1;
            // The abuser does not wait for answers.
            let (agent, recorder) = (agents[next % agents.len()].clone(), recorder.clone());
            calls.spawn(async move { call(&agent, ABUSER, &recorder).await });
            while calls.try_join_next().is_some() {}
        }
        calls.join_all().await;
    });
    DemoLoad { stop, tasks }
}

impl DemoLoad {
    /// Stops the callers and waits until every call in flight is answered.
    pub(super) async fn stop(self) {
        self.stop.store(true, Ordering::Relaxed);
        self.tasks.join_all().await;
    }
}

/// Returns the key of a caller.
pub(super) fn key(caller: u32) -> String {
    if caller == ABUSER { "abuser".to_owned() } else { format!("caller-{caller:03}") }
}

async fn call<S: ChargeStore>(agent: &Agent<S>, caller: u32, recorder: &Mutex<Recorder>) {
    let call = Call::new().with("api_key", key(caller));
    let took = Stopwatch::start();
    let decision = agent.check(&call).await;
    let took = took.elapsed();
    recorder.lock().decided(caller, &decision, took);
}
