//! `tollgate-lab live failure`.

use std::path::PathBuf;

use clap::Args;
use tollgate_command::exit::Exit;
use tollgate_command::output::{Format, progress_bar, say_as};

use super::progress::FAULTS_BAR;
use super::servers::{KAFKA_DIR, programs};
use crate::live::failure::{self, ServerFault};

const ABOUT_FAILURE: &str = "\
Redis, Kafka and two aggregators run in processes of their own, on free ports
and in temporary folders. Two fleets of two agents run in this process, one with
Kafka and one without. All of them end with this process. The experiment needs
Java. It takes about 9 seconds for each fault and 4 minutes for all. It exits
with 1 if a bound is not kept. Measure on a machine without other work. The same
callers at simulated agents, whose servers fail at the same instants, are
printed beside the measurement.

Faults:
  none
  pause, pause-8s                          Redis is stopped, and goes on
  kill, empty-restart                      Redis ends, and restarts
  oom, read-only, auth, loading, busy      Redis refuses requests
  black-hole, lost-answers                 the network to Redis loses data
  late-4ms, late-20ms, late-200ms          the network to Redis is late
  broker-pause, broker-kill, broker-restart, aggregator-kill, aggregator-pause

Bounds:
  * No call takes longer than its deadline and the greatest lateness of a timer.
  * While Redis answers, `strict` admits at most its quota in any window.
  * Across an outage of Redis, a rule admits at most 5% more (10% without
    Kafka), and never more than `tollgate rules validate` prints.
  * Of each rule, at most 10 honest calls are denied each time an agent loses
    Redis. Each of them passes when it is repeated after `retry_after_ms`.
    Another agent may deny it once more, because an agent notices the loss by
    its own requests.
  * Agents use Redis a second after its return.";

/// Measures latency, excess, false denials and recovery while servers fail
#[derive(Args)]
#[command(after_help = ABOUT_FAILURE)]
pub(crate) struct FailureArgs {
    /// Faults to make, such as `kill,black-hole` [default: all]
    #[arg(long = "fault", value_name = "NAME", value_delimiter = ',', value_parser = fault)]
    faults: Vec<ServerFault>,
    /// Program of Redis
    #[arg(long, value_name = "PROGRAM", default_value = "redis-server")]
    redis_server: String,
    /// Folder of Apache Kafka, with its jars in `libs`; `scripts/servers` installs the default
    #[arg(long, value_name = "DIR", default_value = KAFKA_DIR)]
    kafka_dir: PathBuf,
    /// Program of the aggregators [default: `tollgate` beside this program]
    #[arg(long, value_name = "PROGRAM")]
    tollgate: Option<PathBuf>,
    /// Counts each call under a rule of its tenant, too
    #[arg(long)]
    tenant: bool,
    /// Form of the report
    #[arg(long, value_enum, default_value = "text", env = "TOLLGATE_FORMAT")]
    format: Format,
}

pub(super) async fn run(args: &FailureArgs) -> anyhow::Result<Exit> {
    let programs = programs(&args.redis_server, &args.kafka_dir, args.tollgate.as_deref())?;
    let all = if args.faults.is_empty() { ServerFault::all() } else { &args.faults };
    let bar = progress_bar(FAULTS_BAR)?;
    let report = failure::run(&programs, all, args.tenant, &bar).await;
    bar.finish_and_clear();
    let report = report?;
    say_as(args.format, &report, report.json())?;
    Ok(if report.broken.is_empty() { Exit::Done } else { Exit::Failed })
}

fn fault(name: &str) -> Result<ServerFault, String> {
    let names = || ServerFault::all().iter().map(|fault| fault.name()).collect::<Vec<_>>().join(", ");
    name.parse().map_err(|_| format!("the faults are {}", names()))
}
