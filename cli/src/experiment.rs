//! `tollgate experiment`: measures what Tollgate does, on servers that are there.

use std::io::{IsTerminal, stderr};
use std::num::NonZeroU32;

use anyhow::{Context, bail};
use clap::{Args, Subcommand};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use tollgate_experiments::live::lag::{self, LagError, LagPlan};

use crate::exit::{Exit, Usage};
use crate::number;
use crate::output::{Format, say};
use crate::servers::{KafkaArgs, RedisArgs};

const ABOUT_LAG: &str = "\
Every call is measured, from the instant at which it was due. All agents and the aggregator run in
this process, each with its own connections. On the servers each run has names of its own (after
--kafka-prefix and --redis-prefix `lag-` and a number): it deletes its topics in the end, its keys
in Redis expire within two hours.";

/// Measures what Tollgate does
#[derive(Subcommand)]
pub(crate) enum Command {
    /// On real servers, in wall time
    #[command(subcommand)]
    Live(Live),
}

#[derive(Subcommand)]
pub(crate) enum Live {
    Lag(LagArgs),
}

/// How long it takes from a call at one agent until others know of it
#[derive(Args)]
#[command(after_help = ABOUT_LAG)]
pub(crate) struct LagArgs {
    #[command(flatten)]
    redis: RedisArgs,
    #[command(flatten)]
    kafka: KafkaArgs,
    /// How many agents; one run for each number
    #[arg(
        long,
        value_name = "N",
        value_delimiter = ',',
        default_value = "2,20",
        env = "TOLLGATE_AGENTS",
        hide_env_values = true,
        value_parser = number::positive
    )]
    agents: Vec<NonZeroU32>,
    /// Calls per second, of all agents together
    #[arg(long, value_name = "N", default_value = "5000", env = "TOLLGATE_RATE", hide_env_values = true, value_parser = number::positive)]
    rate: NonZeroU32,
    /// How long each run is measured
    #[arg(long, value_name = "N", default_value_t = 20, env = "TOLLGATE_SECONDS", hide_env_values = true)]
    seconds: u32,
    /// How many seconds of calls go before that
    #[arg(long, value_name = "N", default_value_t = 3, env = "TOLLGATE_WARM_UP", hide_env_values = true)]
    warm_up: u32,
    /// How to print the report
    #[arg(long, value_enum, default_value = "text", env = "TOLLGATE_FORMAT")]
    format: Format,
}

pub(crate) fn run(command: &Command) -> anyhow::Result<Exit> {
    let Command::Live(Live::Lag(args)) = command;
    let runtime = tokio::runtime::Runtime::new().context("cannot start threads")?;
    runtime.block_on(lag(args))
}

async fn lag(args: &LagArgs) -> anyhow::Result<Exit> {
    let (Some(redis), Some(kafka)) = (args.redis.settings(), args.kafka.settings()) else {
        bail!(Usage("this is measured on real servers: name them with --redis URL and --kafka BROKERS".to_owned()));
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
        let bar = bar()?;
        let run = lag::run(&redis, &kafka, plan, &bar).await;
        bar.finish_and_clear();
        runs.push(run.map_err(|error: LagError| anyhow::Error::new(error))?);
    }
    let report = lag::LagReport::new(runs);
    match args.format {
        Format::Text => say(&report)?,
        Format::Json => say(serde_json::to_string(&report)?)?,
    }
    Ok(Exit::Done)
}

/// A progress bar on a terminal, nothing elsewhere.
fn bar() -> anyhow::Result<ProgressBar> {
    let target = if stderr().is_terminal() { ProgressDrawTarget::stderr() } else { ProgressDrawTarget::hidden() };
    let bar = ProgressBar::with_draw_target(Some(0), target);
    bar.set_style(ProgressStyle::with_template("{msg:18} {bar:40} {human_pos} of {human_len} calls")?);
    Ok(bar)
}
