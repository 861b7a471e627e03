//! The load: five hundred well-behaved callers with a few calls per second each, and one abuser.

use std::sync::Arc;
use std::time::Duration;

use fastrand::Rng;
use parking_lot::Mutex;
use tokio::task::JoinSet;
use tollgate::Agent;
use tollgate::store::ChargeStore;
use tollgate_core::clock::Stopwatch;

use super::settings::{ABUSER_PERIOD_MS, CALLERS, LENGTH};
use crate::demo::load::DemoCaller;
use crate::demo::record::DemoRecord;

/// Pause of a well-behaved caller between two calls, in ms.
const WAIT_MS: std::ops::Range<u64> = 100..400;
const ABUSER_PERIOD: Duration = Duration::from_millis(ABUSER_PERIOD_MS);
/// The number of the abuser among the callers.
pub(super) const ABUSER: u32 = 0;

/// Starts the callers, which call until the run ends. Each caller's calls go to the agents in turn.
pub(super) fn start<S: ChargeStore>(
    agents: &[Agent<S>],
    record: &Arc<Mutex<DemoRecord>>,
    since: Stopwatch,
) -> JoinSet<()> {
    let mut tasks = JoinSet::new();
    let caller =
        |number| DemoCaller { origin: number, key: key(number), record: record.clone(), since, length: LENGTH };
    for number in 1..=CALLERS {
        let (agents, caller) = (agents.to_vec(), caller(number));
        tasks.spawn(async move {
            let mut rng = Rng::with_seed(number.into());
            for agent in agents.iter().cycle().skip(number as usize % agents.len()) {
                tokio::time::sleep(Duration::from_millis(rng.u64(WAIT_MS))).await;
                if caller.has_ended() {
                    break;
                }
                caller.call(agent).await;
            }
        });
    }
    let (agents, abuser) = (agents.to_vec(), caller(ABUSER));
    tasks.spawn(async move {
        let mut period = tokio::time::interval(ABUSER_PERIOD);
        let mut calls = JoinSet::new();
        for agent in agents.iter().cycle() {
            period.tick().await;
            if abuser.has_ended() {
                break;
            }
            // The abuser does not wait for answers.
            let (agent, abuser) = (agent.clone(), abuser.clone());
            calls.spawn(async move { abuser.call(&agent).await });
            while calls.try_join_next().is_some() {}
        }
        calls.join_all().await;
    });
    tasks
}

pub(super) fn key(caller: u32) -> String {
    if caller == ABUSER { "abuser".to_owned() } else { format!("caller-{caller:03}") }
}
