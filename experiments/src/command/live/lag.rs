//! `tollgate-lab live lag`.

use std::num::NonZeroU32;

use clap::Args;
use tollgate_command::command_line;
use tollgate_command::exit::{Exit, Usage};
use tollgate_command::output::{Format, progress_bar, say_as};
use tollgate_command::servers::{KafkaArgs, RedisArgs};

use super::progress::CALLS_BAR;
use super::servers::servers;
use crate::live::lag::{self, LagPlan};

const ABOUT_LAG: &str = "\
Every call is measured from the instant at which it was due. All agents and the
aggregator run in this process, each with its own connections. Each run has its
own names on the servers: `lag-` and a number after --kafka-prefix and
--redis-prefix. It deletes its topics at the end. Its keys in Redis expire
within two hours. Up to 10 s of the same calls at simulated agents are printed
beside the measurement.";

/// Measures the time from a call at one agent to its signal at others
#[derive(Args)]
#[command(after_help = ABOUT_LAG)]
pub(crate) struct LagArgs {
    #[command(flatten)]
    redis: RedisArgs,
    #[command(flatten)]
    kafka: KafkaArgs,
    /// Number of agents; one run for each number
    #[arg(long, value_name = "N", value_delimiter = ',', default_value = "2,20", value_parser = command_line::positive)]
    agents: Vec<NonZeroU32>,
    /// Calls per second, of all agents together
    #[arg(long, value_name = "N", default_value = "5000", value_parser = command_line::positive)]
    rate: NonZeroU32,
    /// Seconds of each measurement
    #[arg(long, value_name = "N", default_value_t = 20)]
    seconds: u32,
    /// Seconds of warm-up before it
    #[arg(long, value_name = "N", default_value_t = 3)]
    warm_up: u32,
    /// Form of the report
    #[arg(long, value_enum, default_value = "text", env = "TOLLGATE_FORMAT")]
    format: Format,
}

pub(super) async fn run(args: &LagArgs) -> anyhow::Result<Exit> {
    let (redis, kafka) = servers(&args.redis, &args.kafka)?;
    let plan = |agents: &NonZeroU32| LagPlan {
        agents: *agents,
        rate: args.rate,
        seconds: args.seconds,
        warm_up_seconds: args.warm_up,
    };
    let plans: Vec<LagPlan> = args.agents.iter().map(plan).collect();
    for plan in &plans {
        plan.check().map_err(|error| Usage(error.to_string()))?;
    }
    let mut runs = Vec::new();
    for plan in &plans {
        let bar = progress_bar(CALLS_BAR)?;
        let run = lag::run(&redis, &kafka, plan, &bar).await;
        bar.finish_and_clear();
        runs.push(run?);
    }
    let report = lag::LagReport::new(runs);
    say_as(args.format, &report, report.json())?;
    Ok(Exit::Done)
}
