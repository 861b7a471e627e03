//! `tollgate-lab live`: measurements on real servers, in real time.

use std::num::NonZeroU32;
use std::path::{Path, PathBuf};

use anyhow::bail;
use clap::{Args, Subcommand};
use tollgate::KafkaSettings;
use tollgate::store::RedisSettings;
use tollgate_command::exit::{Exit, Usage};
use tollgate_command::output::{Format, progress_bar, say_as};
use tollgate_command::servers::{KafkaArgs, RedisArgs};
use tollgate_command::{command_line, threads};

use crate::live::accuracy::{self, AccuracyPlan};
use crate::live::failure::{self, Programs, ServerFault};
use crate::live::lag::{self, LagPlan};
use crate::report::LiveMeasurements;

/// Folder in which `scripts/servers` installs Kafka.
const KAFKA_DIR: &str = "target/servers/kafka";
const CALLS_BAR: &str = "{msg:18} {bar:40} {human_pos} of {human_len} calls";
const FAULTS_BAR: &str = "{msg:18} {bar:40} {human_pos} of {human_len} faults";
/// Size of the measurements for the report.
const REPORTED_AGENTS: NonZeroU32 = NonZeroU32::new(3).unwrap();
const REPORTED_SECONDS: u32 = 60;
const REPORTED_RATE: NonZeroU32 = NonZeroU32::new(5_000).unwrap();

const ABOUT_LAG: &str = "\
Every call is measured from the instant at which it was due. All agents and the
aggregator run in this process, each with its own connections. Each run has its
own names on the servers: `lag-` and a number after --kafka-prefix and
--redis-prefix. It deletes its topics at the end. Its keys in Redis expire
within two hours. Up to 10 s of the same calls at simulated agents are printed
beside the measurement.";

const ABOUT_ACCURACY: &str = "\
The same 2,000 calls per second arrive at simulated agents and at real ones:
callers below, at and above their quota, under each consistency. Answers are
judged by an exact list of each caller's admissions. All agents and the
aggregator run in this process. Each run has its own names on the servers:
`accuracy-` and a number after --kafka-prefix and --redis-prefix. It deletes its
topics at the end. Its keys in Redis expire.";

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

#[derive(Subcommand)]
pub(crate) enum LiveCommand {
    Lag(LagArgs),
    Accuracy(AccuracyArgs),
    Failure(FailureArgs),
}

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

pub(super) fn run(command: &LiveCommand) -> anyhow::Result<Exit> {
    match command {
        LiveCommand::Lag(args) => threads::block_on(lag(args)),
        LiveCommand::Accuracy(args) => threads::block_on(accuracy(args)),
        LiveCommand::Failure(args) => threads::block_on(failure(args)),
    }
}

/// Measures all that the report shows of real servers.
pub(super) fn measurements(redis: &RedisSettings, kafka: &KafkaSettings) -> anyhow::Result<LiveMeasurements> {
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
            let report = failure::run(&programs, ServerFault::all(), false, &bar).await?;
            bar.finish_and_clear();
            Some(report)
        } else {
            None
        };
        Ok(LiveMeasurements { accuracy, lag: lag::LagReport::new(runs), failure })
    })
}

async fn lag(args: &LagArgs) -> anyhow::Result<Exit> {
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

async fn accuracy(args: &AccuracyArgs) -> anyhow::Result<Exit> {
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

async fn failure(args: &FailureArgs) -> anyhow::Result<Exit> {
    let programs = programs(&args.redis_server, &args.kafka_dir, args.tollgate.as_deref())?;
    let all = if args.faults.is_empty() { ServerFault::all() } else { &args.faults };
    let bar = progress_bar(FAULTS_BAR)?;
    let report = failure::run(&programs, all, args.tenant, &bar).await;
    bar.finish_and_clear();
    let report = report?;
    say_as(args.format, &report, report.json())?;
    Ok(if report.broken.is_empty() { Exit::Done } else { Exit::Failed })
}

pub(super) fn servers(redis: &RedisArgs, kafka: &KafkaArgs) -> anyhow::Result<(RedisSettings, KafkaSettings)> {
    let Some(settings) = redis.settings().zip(kafka.settings()) else {
        bail!(Usage("this is measured on real servers: name them with --redis URL and --kafka BROKERS".to_owned()));
    };
    Ok(settings)
}

fn programs(redis_server: &str, kafka: &Path, tollgate: Option<&Path>) -> anyhow::Result<Programs> {
    let tollgate = match tollgate {
        Some(tollgate) => tollgate.to_owned(),
        None => std::env::current_exe()?.with_file_name("tollgate"),
    };
    if !tollgate.is_file() {
        let path = tollgate.display();
        bail!(Usage(format!(
            "there is no program {path}, which runs as aggregator; build it with `cargo build --release`, or name it with --tollgate"
        )));
    }
    Ok(Programs { redis_server: redis_server.to_owned(), kafka: kafka.to_owned(), tollgate })
}

fn fault(name: &str) -> Result<ServerFault, String> {
    let names = || ServerFault::all().iter().map(|fault| fault.name()).collect::<Vec<_>>().join(", ");
    name.parse().map_err(|_| format!("the faults are {}", names()))
}
