//! `tollgate experiment`: measurements on existing servers.

use std::num::NonZeroU32;

use anyhow::bail;
use clap::{Args, Subcommand};
use tollgate_experiments::live::lag::{self, LagPlan};

use crate::exit::{Exit, Usage};
use crate::output::{Format, progress_bar, say_as};
use crate::serve;
use crate::servers::{KafkaArgs, RedisArgs};

const ABOUT_LAG: &str = "\
Every call is measured, from the instant at which it was due. All agents and the aggregator run in
this process, each with its own connections. On the servers each run has names of its own (after
--kafka-prefix and --redis-prefix `lag-` and a number): it deletes its topics in the end, its keys
in Redis expire within two hours.";

/// Measures Tollgate on real servers
#[derive(Subcommand)]
pub(crate) enum ExperimentCommand {
    /// On real servers, in wall time
    #[command(subcommand)]
    Live(LiveCommand),
}

#[derive(Subcommand)]
pub(crate) enum LiveCommand {
    Lag(LagArgs),
}

/// Time from a call at one agent to its signal at others
#[derive(Args)]
#[command(after_help = ABOUT_LAG)]
pub(crate) struct LagArgs {
    #[command(flatten)]
    redis: RedisArgs,
    #[command(flatten)]
    kafka: KafkaArgs,
    /// Number of agents; one run for each number
    #[arg(long, value_name = "N", value_delimiter = ',', default_value = "2,20", value_parser = serve::positive)]
    agents: Vec<NonZeroU32>,
    /// Calls per second, of all agents together
    #[arg(long, value_name = "N", default_value = "5000", value_parser = serve::positive)]
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

pub(crate) fn run(command: &ExperimentCommand) -> anyhow::Result<Exit> {
    let ExperimentCommand::Live(LiveCommand::Lag(args)) = command;
    serve::block_on(lag(args))
}

async fn lag(args: &LagArgs) -> anyhow::Result<Exit> {
    let (Some(redis), Some(kafka)) = (args.redis.settings(), args.kafka.settings()) else {
        bail!(Usage("the lag is measured on real servers: name them with --redis URL and --kafka BROKERS".to_owned()));
    };
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
        let bar = progress_bar("{msg:18} {bar:40} {human_pos} of {human_len} calls")?;
        let run = lag::run(&redis, &kafka, plan, &bar).await;
        bar.finish_and_clear();
        runs.push(run?);
    }
    let report = lag::LagReport::new(runs);
    say_as(args.format, &report, serde_json::to_string(&report)?)?;
    Ok(Exit::Done)
}
