//! `tollgate up`: agent and aggregator in one process, in memory or over the named servers, or several regions in memory.

use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use tokio::task::spawn_blocking;
use tollgate::Agent;
use tollgate_aggregator::api::analytics_router;
use tollgate_aggregator::{Aggregator, RulesReader, WorkerSettings};
use tollgate_bus::Bus;
use tollgate_bus::embedded::EmbeddedBus;
use tollgate_command::exit::Exit;
use tollgate_command::threads;
use tollgate_core::clock::{Clock, SystemClock};
use tollgate_core::rules::show_duration_ms;
use tollgate_listen::Tls;

use crate::agent::{AgentArgs, announce, log_totals, start_export};
use crate::decision_log::DecisionLog;
use crate::limits::{LIMIT_DEFAULT, Limits};
use crate::otlp::{PreparedExport, RunningExport};
use crate::process_metrics;
use crate::sample;
use crate::serve;
use crate::surfaces::Surfaces;
use crate::up_regions;

const PARTITIONS: u32 = 4;
/// Longest time of one way between a region and the ledger, in ms: no link between two data centres is as slow.
const LINK_DELAY_MS_MAX: u64 = 10_000;
/// Flags of one agent, which regions in one process do not have.
const LOST_BY_REGIONS: [&str; 13] = [
    "admin",
    "decision_log",
    "otlp",
    "redis",
    "kafka",
    "region",
    "node",
    "shadow",
    "state_dir",
    "agents_expected",
    "counters_max",
    "sketch_bytes",
    "digest_key_file",
];

/// Starts a limiter: agent and aggregator in one process
///
/// In memory by itself; with --redis and --kafka it is one agent and one aggregator of a fleet. With --regions it is several
/// regions that share quotas.
#[derive(clap::Args)]
pub(crate) struct UpArgs {
    #[command(flatten)]
    pub(crate) agent: AgentArgs,
    /// Number of regions in this process that share the quotas, each in memory, with HTTP 100 ports after the one before
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(2..=8), conflicts_with_all = LOST_BY_REGIONS)]
    regions: Option<u8>,
    /// Time of one way between a region and the ledger, which is in the first one; with --regions
    #[arg(long, value_name = "DURATION", default_value = "40ms", value_parser = link_delay, requires = "regions")]
    link_delay: Duration,
}

/// Parts of the process.
struct Started {
    agent: Agent,
    aggregator: Aggregator,
    decision_log: Option<DecisionLog>,
    export: Option<PreparedExport>,
}

pub(crate) fn run(args: UpArgs) -> anyhow::Result<Exit> {
    threads::block_on(async {
        match args.regions {
            Some(count) => up_regions::run(&args.agent, count, args.link_delay).await,
            None => up(args.agent).await,
        }
    })
}

fn link_delay(text: &str) -> Result<Duration, String> {
    let delay = serve::duration(text).ok().filter(|delay| delay.as_millis() <= LINK_DELAY_MS_MAX.into());
    delay.ok_or_else(|| format!("write a duration, such as 40ms, up to {}", show_duration_ms(LINK_DELAY_MS_MAX)))
}

async fn up(args: AgentArgs) -> anyhow::Result<Exit> {
    let (stopping, hang_ups) = (serve::stop_requested()?, serve::hang_ups()?);
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::start());
    let group = args.listen.group()?;
    let tls = group.tls().cloned();
    let Started { agent, mut aggregator, decision_log, export } = match args.kafka.connect()? {
        Some(kafka) => start(&args, &clock, (&kafka, args.kafka.connect_analytics()?.as_ref()), tls)?,
        None => start(&args, &clock, (&EmbeddedBus::new(clock.clone(), PARTITIONS), None), tls)?,
    };
    let sockets = args.bind(&group).await?;
    let addresses = sockets.addresses()?;
    if args.redis.settings().is_none() && args.kafka.settings().is_none() {
        tracing::warn!(
            "counters are in memory, so limits are per process and are lost when it stops; share them with --redis URL and --kafka BROKERS"
        );
    }
    announce(&agent, &addresses, &args);
    let curl = agent.engine().with_rules(|rules| sample::curl(rules, &addresses));
    args.log.announce_hint(format_args!("try: {curl}"));
    serve::reload_at(hang_ups, vec![agent.clone()]);
    let export = start_export(export, &agent)?;
    let mut surfaces = Surfaces::new();
    let id = agent.node().into();
    let is_fleet = args.kafka.settings().is_some();
    let of_rules = agent.clone();
    let rules = RulesReader::by(move |read| of_rules.engine().with_rules(|rules| read(rules)));
    let analytics = aggregator.analytics().digested_by(&agent.engine().settings().digest_key).with_rules(rules);
    let page = analytics_router(id, is_fleet, aggregator.queries(), analytics, None);
    surfaces.serve_agent(sockets, &args.http_settings(&group)?, agent.clone(), Some(page));
    let served = surfaces.run_until(stopping, args.drain).await;
    agent.shutdown().await;
    spawn_blocking(move || {
        aggregator.stop();
        decision_log.into_iter().for_each(DecisionLog::stop);
        export.into_iter().for_each(RunningExport::stop);
    })
    .await?;
    served?;
    log_totals(&[agent]);
    Ok(Exit::Done)
}

fn start<B: Bus>(
    args: &AgentArgs,
    clock: &Arc<dyn Clock>,
    buses: (&B, Option<&B>),
    tls: Option<Tls>,
) -> anyhow::Result<Started> {
    // The embedded bus has one agent and one aggregator.
    let shares = args.kafka.settings().is_some();
    let builder = Agent::builder().clock(clock.clone()).bus(buses.0.clone());
    let builder = if shares { builder } else { builder.agents_expected(NonZeroU32::MIN) };
    let limits = match &args.limits {
        Limits::Unset => {
            tracing::info!("no --rules and no --limit: {LIMIT_DEFAULT} is enforced");
            &Limits::Short(vec![LIMIT_DEFAULT.to_owned()])
        }
        given => given,
    };
    let builder = limits.apply(args.apply(builder)?, &**clock)?;
    let (builder, export) = args.otlp.observe(builder, &args.redis)?;
    let (mut builder, decision_log) = args.decision_log.start(builder, &args.kafka)?;
    if let Some(redis) = args.redis.settings() {
        builder = builder.redis(redis);
    }
    // Aggregators of the same name would take each other's partitions, so its name is derived from the agent's.
    let id = args.node.as_ref().map_or_else(serve::random_aggregator, |node| format!("aggregator-{node}"));
    let (epoch, region) = (clock.now(), args.region.as_str().into());
    let settings = WorkerSettings { epoch, region, shares, ..WorkerSettings::new(&id) };
    let replay_window = settings.replay_window.clone();
    let aggregator = Aggregator::start_with(buses, settings, None, None, clock.clone())?;
    let of_process = move || process_metrics::encode(tls.as_ref());
    let agent = builder.metrics_from(aggregator.metrics()).metrics_from(of_process).start()?;
    agent.engine().with_rules(|rules| replay_window.cover(rules));
    Ok(Started { agent, aggregator, decision_log, export })
}
