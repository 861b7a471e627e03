//! The load: five hundred well-behaved callers with a few calls per second each, and one abuser.

use std::sync::Arc;
use std::time::Duration;

use fastrand::Rng;
use parking_lot::Mutex;
use tokio::task::JoinSet;
use tollgate::store::ChargeStore;
use tollgate::{Agent, Call};
use tollgate_core::clock::Stopwatch;

use super::record::Recorder;
use super::{CALLERS, LENGTH};

/// Pause of a well-behaved caller between two calls, in ms.
const WAIT_MS: std::ops::Range<u64> = 100..400;
const ABUSER_PERIOD: Duration = Duration::from_millis(2);
/// The number of the abuser among the callers.
pub(super) const ABUSER: u32 = 0;

/// Starts the callers, which call until the run ends. Each caller's calls go to the agents in turn.
pub(super) fn start<S: ChargeStore>(
    agents: &[Agent<S>],
    recorder: &Arc<Mutex<Recorder>>,
    since: Stopwatch,
) -> JoinSet<()> {
    let mut tasks = JoinSet::new();
    for caller in 1..=CALLERS {
        let (agents, recorder) = (agents.to_vec(), recorder.clone());
        tasks.spawn(async move {
            let mut rng = Rng::with_seed(caller.into());
            for agent in agents.iter().cycle().skip(caller as usize % agents.len()) {
                tokio::time::sleep(Duration::from_millis(rng.u64(WAIT_MS))).await;
                if since.elapsed() >= LENGTH {
                    break;
                }
                call(agent, caller, &recorder).await;
            }
        });
    }
    let (agents, recorder) = (agents.to_vec(), recorder.clone());
    tasks.spawn(async move {
        let mut period = tokio::time::interval(ABUSER_PERIOD);
        let mut calls = JoinSet::new();
        for agent in agents.iter().cycle() {
            period.tick().await;
            if since.elapsed() >= LENGTH {
                break;
            }
            // The abuser does not wait for answers.
            let (agent, recorder) = (agent.clone(), recorder.clone());
            calls.spawn(async move { call(&agent, ABUSER, &recorder).await });
            while calls.try_join_next().is_some() {}
        }
        calls.join_all().await;
    });
    tasks
}

pub(super) fn key(caller: u32) -> String {
    if caller == ABUSER { "abuser".to_owned() } else { format!("caller-{caller:03}") }
}

async fn call<S: ChargeStore>(agent: &Agent<S>, caller: u32, recorder: &Mutex<Recorder>) {
    let call = Call::new().with("api_key", key(caller));
    let took = Stopwatch::start();
    let decision = agent.decide(&call).await;
    recorder.lock().decisions.push((caller, decision, took.elapsed()));
}
