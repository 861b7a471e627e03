//! `tollgate up`: agent and aggregator in one process, in memory or over the named servers.

use std::net::SocketAddr;
use std::num::NonZeroU32;
use std::sync::Arc;

use anyhow::Context;
use prometheus_client::registry::Registry;
use tokio::task::spawn_blocking;
use tollgate::Agent;
use tollgate_aggregator::Aggregator;
use tollgate_bus::Bus;
use tollgate_bus::embedded::EmbeddedBus;
use tollgate_core::clock::{Clock, SystemClock};

use crate::agent::Identity;
use crate::decision_totals::DecisionTotals;
use crate::exit::Exit;
use crate::limits::Limits;
use crate::serve::{self, StopSignals};
use crate::servers::{self, KafkaArgs, RedisArgs};
use crate::tokens::TokenArgs;
use crate::{output, sample};

const LIMIT_DEFAULT: &str = "100/min per api_key";
const PARTITIONS: u32 = 4;

/// Starts a limiter: agent and aggregator in one process
///
/// In memory by itself; with --redis and --kafka it is one agent and one aggregator of a fleet.
#[derive(clap::Args)]
pub(crate) struct UpArgs {
    #[command(flatten)]
    limits: Limits,
    /// Address to listen on; port 0 takes any free port
    #[arg(long, value_name = "ADDR", env = "TOLLGATE_HTTP", hide_env_values = true, default_value = "127.0.0.1:8080", value_parser = serve::address)]
    http: SocketAddr,
    #[command(flatten)]
    redis: RedisArgs,
    #[command(flatten)]
    kafka: KafkaArgs,
    #[command(flatten)]
    identity: Identity,
    #[command(flatten)]
    tokens: TokenArgs,
}

pub(crate) fn run(args: UpArgs) -> anyhow::Result<Exit> {
    servers::check_together(&args.redis, &args.kafka)?;
    let runtime = tokio::runtime::Runtime::new().context("cannot start threads")?;
    runtime.block_on(up(args))
}

async fn up(args: UpArgs) -> anyhow::Result<Exit> {
    let stopping = StopSignals::listen()?;
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::start());
    let (agent, mut aggregator) = match args.kafka.connect()? {
        Some(kafka) => start(&args, &clock, &kafka, true)?,
        None => start(&args, &clock, &EmbeddedBus::new(clock.clone(), PARTITIONS), false)?,
    };
    let listener = serve::listen(args.http).await?;
    let address = listener.local_addr()?;
    for warning in agent.engine().with_rules(|rules| rules.warnings.clone()) {
        tracing::warn!("{warning}");
    }
    if args.redis.settings().is_none() {
        tracing::warn!("counters are in memory, so limits are per process and are lost when it stops");
    }
    output::say(format_args!("listening on http://{address}"))?;
    output::say(format_args!("try: {}", agent.engine().with_rules(|rules| sample::curl(rules, address))))?;
    tollgate_http::serve(listener, tollgate_http::router(agent.clone()), stopping.requested()).await?;
    agent.stop().await;
    let totals = DecisionTotals::of(&agent.metrics());
    spawn_blocking(move || aggregator.stop()).await?;
    totals.log();
    Ok(Exit::Done)
}

fn start<B: Bus>(args: &UpArgs, clock: &Arc<dyn Clock>, bus: &B, shares: bool) -> anyhow::Result<(Agent, Aggregator)> {
    let builder = Agent::builder().clock(clock.clone()).bus(bus.clone());
    let builder = if shares { builder } else { builder.agents_expected(NonZeroU32::MIN) };
    let limits = match &args.limits {
        Limits::Unset => {
            tracing::info!("no --rules and no --limit: {LIMIT_DEFAULT} is enforced");
            &Limits::Limit(LIMIT_DEFAULT.to_owned())
        }
        given => given,
    };
    let mut builder = limits.apply(args.tokens.apply(args.identity.apply(builder, args.http)?)?, &**clock)?;
    if let Some(redis) = args.redis.settings() {
        builder = builder.redis(redis);
    }
    let mut settings = args.identity.aggregator();
    (settings.worker.epoch, settings.worker.shares) = (clock.now(), shares);
    let mut registry = Registry::default();
    let aggregator = Aggregator::start(bus, &settings, clock.clone(), &mut registry)?;
    let agent = builder.registry(registry).start()?;
    agent.engine().with_rules(|rules| settings.worker.replay_window.cover(rules));
    Ok((agent, aggregator))
}
