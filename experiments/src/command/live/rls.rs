//! `tollgate-lab live rls`.

use std::num::NonZeroU32;
use std::path::PathBuf;

use clap::Args;
use tollgate_command::command_line;
use tollgate_command::exit::Exit;
use tollgate_command::output::{Format, progress_bar, say_as};

use super::progress::STATES_BAR;
use super::servers::program_tollgate;
use crate::live::rls::{self, RlsPlan};

const ABOUT_RLS: &str = "\
The service is the one that Envoy's rate limit filter asks over gRPC. Redis and
the agent run in processes of their own, and end with this process. An echo in
this process gets the same calls. The command exits with 1 if a call gets no
answer, or the 99.9th percentile exceeds that of the echo by more than the
deadline of the rules and 2 ms. Measure on a machine without other work.";

/// Measures the latency of Envoy's rate limit service while Redis runs, stops and dies
#[derive(Args)]
#[command(after_help = ABOUT_RLS)]
pub(crate) struct RlsArgs {
    /// Calls per second
    #[arg(long, value_name = "N", default_value = "2000", value_parser = command_line::positive)]
    rate: NonZeroU32,
    /// Seconds in each state of Redis
    #[arg(long, value_name = "N", default_value = "20", value_parser = command_line::positive)]
    seconds: NonZeroU32,
    /// Program of Redis
    #[arg(long, value_name = "PROGRAM", default_value = "redis-server")]
    redis_server: String,
    /// Program of the agent [default: `tollgate` beside this program]
    #[arg(long, value_name = "PROGRAM")]
    tollgate: Option<PathBuf>,
    /// Form of the report
    #[arg(long, value_enum, default_value = "text", env = "TOLLGATE_FORMAT")]
    format: Format,
}

pub(super) async fn run(args: &RlsArgs) -> anyhow::Result<Exit> {
    let tollgate = program_tollgate(args.tollgate.as_deref())?;
    let plan = RlsPlan { rate: args.rate, seconds: args.seconds };
    let bar = progress_bar(STATES_BAR)?;
    let report = rls::run(&args.redis_server, &tollgate, plan, &bar).await;
    bar.finish_and_clear();
    let report = report?;
    say_as(args.format, &report, report.json())?;
    Ok(if report.is_kept() { Exit::Done } else { Exit::Failed })
}
