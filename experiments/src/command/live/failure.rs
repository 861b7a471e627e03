//! `tollgate-lab live failure`.

use std::num::NonZeroU32;
use std::path::PathBuf;

use anyhow::bail;
use clap::Args;
use indicatif::ProgressBar;
use tollgate_command::command_line;
use tollgate_command::exit::{Exit, Usage};
use tollgate_command::output::{Format, progress_bar, say_as};

use super::progress::FAULTS_BAR;
use super::servers::{KAFKA_DIR, programs};
use crate::error::ExperimentError;
use crate::live::failure::{self, FailurePlan, FailureResults, RedisDeployment, ServerFault};

const ABOUT_FAILURE: &str = "\
Redis, Kafka and two aggregators run in processes of their own, on free ports
and in temporary folders. Two fleets of three agents run in this process, one
with Kafka and one without. All of them end with this process. The experiment
needs Java. It takes about 9 seconds for each fault, 4 minutes for all at one
Redis, and a minute each at a cluster and at Sentinels. It exits with 1 if a
bound is not kept. Measure on a machine without other work. Beside the numbers
of one Redis, those of the same callers at simulated agents are printed, whose
servers fail at the same instants.

Kinds of Redis:
  single     one server behind a proxy
  cluster    3 primaries with a replica each, node time-out 1 s, TLS
  sentinel   a primary, 2 replicas and 3 Sentinels, TLS to all of them
At a cluster and at Sentinels, each call counts under two rules and one in
shadow, and one of four has an id.

Faults of each kind of Redis:
  none
  pause, kill                              a replica takes over, if there is one
Faults of a cluster and of Sentinels:
  replica-kill                             a replica ends, and restarts
Faults of one Redis:
  pause-8s                                 Redis is stopped, and goes on
  empty-restart                            Redis ends, and restarts empty
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
  * Agents use Redis a second after its return.
  * If a replica takes over, a window may hold one quota more, as REDIS FAILS
    OVER of `tollgate rules validate` says. Agents use Redis, and callers get
    its decisions, within 5 s of the election.";

/// Measures latency, excess, false denials and recovery while servers fail
#[derive(Args)]
#[command(after_help = ABOUT_FAILURE)]
pub(crate) struct FailureArgs {
    /// Kinds of Redis to measure at, such as `cluster` [default: all]
    #[arg(long = "redis", value_name = "KIND", value_delimiter = ',', value_parser = deployment)]
    deployments: Vec<RedisDeployment>,
    /// Calls per second of both fleets
    #[arg(long, value_name = "N", default_value = "1000", value_parser = command_line::positive)]
    rate: NonZeroU32,
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
    /// Counts each call at one Redis under a rule of its tenant, too
    #[arg(long)]
    tenant: bool,
    /// Form of the report
    #[arg(long, value_enum, default_value = "text", env = "TOLLGATE_FORMAT")]
    format: Format,
}

pub(super) async fn run(args: &FailureArgs) -> anyhow::Result<Exit> {
    let programs = programs(&args.redis_server, &args.kafka_dir, args.tollgate.as_deref())?;
    let faults = if args.faults.is_empty() { ServerFault::all() } else { &args.faults };
    let deployments = if args.deployments.is_empty() { RedisDeployment::all() } else { &args.deployments };
    let has_faults = |deployment: &RedisDeployment| faults.iter().any(|fault| fault.is_of(*deployment));
    let deployments: Vec<_> = deployments.iter().copied().filter(has_faults).collect();
    if deployments.is_empty() {
        bail!(Usage("this kind of Redis has none of these faults; --help lists the faults of each".to_owned()));
    }
    let plan = FailurePlan { programs, faults: faults.to_vec(), rate: args.rate, has_tenant: args.tenant };
    let bar = progress_bar(FAULTS_BAR)?;
    let results = measured(&plan, &deployments, &bar).await;
    bar.finish_and_clear();
    let results = results?;
    say_as(args.format, &results, results.json())?;
    Ok(if results.are_kept() { Exit::Done } else { Exit::Failed })
}

async fn measured(
    plan: &FailurePlan,
    deployments: &[RedisDeployment],
    bar: &ProgressBar,
) -> Result<FailureResults, ExperimentError> {
    let mut results = FailureResults::default();
    for deployment in deployments {
        match deployment {
            RedisDeployment::Single => results.single = Some(failure::run(plan, bar).await?),
            RedisDeployment::Cluster => results.fail_overs.push(failure::run_cluster(plan, bar).await?),
            RedisDeployment::Sentinel => results.fail_overs.push(failure::run_sentinel(plan, bar).await?),
        }
    }
    Ok(results)
}

fn deployment(name: &str) -> Result<RedisDeployment, String> {
    name.parse().map_err(|_| "the kinds are single, cluster, sentinel".to_owned())
}

fn fault(name: &str) -> Result<ServerFault, String> {
    let names = || ServerFault::all().iter().map(|fault| fault.name()).collect::<Vec<_>>().join(", ");
    name.parse().map_err(|_| format!("the faults are {}", names()))
}
