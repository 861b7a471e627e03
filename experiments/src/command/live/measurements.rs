//! Measurements at real servers that a report shows.

use std::num::NonZeroU32;
use std::path::Path;

use tollgate::KafkaSettings;
use tollgate::store::RedisSettings;
use tollgate_command::output::progress_bar;
use tollgate_command::threads;

use super::progress::{CALLS_BAR, FAULTS_BAR};
use super::servers::{KAFKA_DIR, programs};
use crate::live::accuracy::{self, AccuracyPlan};
use crate::live::failure::{self, FailurePlan, ServerFault};
use crate::live::lag::{self, LagPlan};
use crate::report::LiveMeasurements;

/// Size of the measurements.
const REPORTED_AGENTS: NonZeroU32 = NonZeroU32::new(3).unwrap();
const REPORTED_SECONDS: u32 = 60;
const REPORTED_RATE: NonZeroU32 = NonZeroU32::new(5_000).unwrap();
const FAILURE_RATE: NonZeroU32 = NonZeroU32::new(1_000).unwrap();

/// Measures all that the report shows of real servers.
pub(in crate::command) fn measurements(
    redis: &RedisSettings,
    kafka: &KafkaSettings,
) -> anyhow::Result<LiveMeasurements> {
    let programs = programs("redis-server", Path::new(KAFKA_DIR), None)?;
    threads::block_on(async {
        let bar = progress_bar(CALLS_BAR)?;
        let plan = AccuracyPlan { agents: REPORTED_AGENTS, seconds: REPORTED_SECONDS, has_tenant: false };
        let accuracy = accuracy::run(redis, kafka, plan, &bar).await?;
        let mut runs = Vec::new();
        for agents in [NonZeroU32::new(2).expect("above 0"), REPORTED_AGENTS] {
            let plan = LagPlan { agents, rate: REPORTED_RATE, seconds: REPORTED_SECONDS, warm_up_seconds: 3 };
            runs.push(lag::run(redis, kafka, &plan, &bar).await?);
        }
        bar.finish_and_clear();
        let failure = if programs.kafka.exists() {
            let bar = progress_bar(FAULTS_BAR)?;
            let faults = ServerFault::all().to_vec();
            let plan = FailurePlan { programs, faults, rate: FAILURE_RATE, has_tenant: false };
            let report = failure::run(&plan, &bar).await?;
            bar.finish_and_clear();
            Some(report)
        } else {
            None
        };
        Ok(LiveMeasurements { accuracy, lag: lag::LagReport::new(runs), failure })
    })
}
