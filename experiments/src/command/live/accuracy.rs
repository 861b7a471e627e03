//! `tollgate-lab live accuracy`.

use std::num::NonZeroU32;

use clap::Args;
use tollgate_command::command_line;
use tollgate_command::exit::{Exit, Usage};
use tollgate_command::output::{Format, progress_bar, say_as};
use tollgate_command::servers::{KafkaArgs, RedisArgs};

use super::progress::CALLS_BAR;
use super::servers::servers;
use crate::live::accuracy::{self, AccuracyPlan};

const ABOUT_ACCURACY: &str = "\
The same 2,000 calls per second arrive at simulated agents and at real ones:
callers below, at and above their quota, under each consistency. Answers are
judged by an exact list of each caller's admissions. All agents and the
aggregator run in this process. Each run has its own names on the servers:
`accuracy-` and a number after --kafka-prefix and --redis-prefix. It deletes its
topics at the end. Its keys in Redis expire.";

/// Measures excess and false denials, beside the simulation's prediction
#[derive(Args)]
#[command(after_help = ABOUT_ACCURACY)]
pub(crate) struct AccuracyArgs {
    #[command(flatten)]
    redis: RedisArgs,
    #[command(flatten)]
    kafka: KafkaArgs,
    /// Number of agents
    #[arg(long, value_name = "N", default_value = "3", value_parser = command_line::positive)]
    agents: NonZeroU32,
    /// Seconds of the measurement, after 20 that are not measured
    #[arg(long, value_name = "N", default_value_t = 30)]
    seconds: u32,
    /// Counts each call under a rule of its tenant, too
    #[arg(long)]
    tenant: bool,
    /// Form of the report
    #[arg(long, value_enum, default_value = "text", env = "TOLLGATE_FORMAT")]
    format: Format,
}

pub(super) async fn run(args: &AccuracyArgs) -> anyhow::Result<Exit> {
    let (redis, kafka) = servers(&args.redis, &args.kafka)?;
    let plan = AccuracyPlan { agents: args.agents, seconds: args.seconds, has_tenant: args.tenant };
    plan.check().map_err(|error| Usage(error.to_string()))?;
    let bar = progress_bar(CALLS_BAR)?;
    let report = accuracy::run(&redis, &kafka, plan, &bar).await;
    bar.finish_and_clear();
    let report = report?;
    say_as(args.format, &report, report.json())?;
    Ok(Exit::Done)
}
