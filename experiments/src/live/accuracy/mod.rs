//! Accuracy over real servers beside the simulation's prediction: the same calls arrive at agents on a real Redis and Kafka, and
//! at simulated ones.
//!
//! Both answer the same planned calls: callers below, at and above their quota, spread over all agents, under each consistency.
//! An exact list of each caller's admissions, by the instants of the answers that the callers saw, judges both. The
//! simulation runs with several seeds of its delays. Its smallest and largest number are the prediction.

mod plan;
mod planned_arrivals;
mod tally;
mod predicted;
mod waits;
mod measured;
mod report;

use std::sync::Arc;

use indicatif::ProgressBar;
use tollgate::store::RedisSettings;
use tollgate_bus::kafka::KafkaSettings;
use tollgate_command::shared_servers::{RunName, connect_redis};
use tollgate_core::clock::{Clock, SystemClock};

use crate::error::ExperimentError;
use crate::live::simulated::SEEDS;
use planned_arrivals::PlannedArrivals;

pub use plan::AccuracyPlan;
pub use report::{AccuracyReport, AccuracyRow};

/// Predicts and measures inside a tokio runtime.
///
/// # Errors
/// If a server does not answer or a part does not start.
pub async fn run(
    redis: &RedisSettings,
    kafka: &KafkaSettings,
    plan: AccuracyPlan,
    progress: &ProgressBar,
) -> Result<AccuracyReport, ExperimentError> {
    plan.check()?;
    let name = RunName::new("accuracy");
    let (redis, kafka) = (name.redis(redis), name.kafka(kafka));
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::start());
    connect_redis(&redis, clock.clone()).await?;
    let calls = Arc::new(PlannedArrivals::new(plan));
    progress.set_length(calls.all.len() as u64 * (SEEDS + 1));
    progress.set_message("simulation");
    let (planned, agents, bar) = (calls.clone(), plan.agents, progress.clone());
    let predicted = tokio::task::spawn_blocking(move || predicted::tallies(&planned, agents, &bar)).await;
    let predicted = predicted.map_err(std::io::Error::other)?;
    progress.set_message("real servers");
    let measured = measured::run(&redis, kafka, plan, &clock, &calls, progress).await?;
    progress.set_message("");
    Ok(AccuracyReport::new(plan, &predicted, &measured))
}
