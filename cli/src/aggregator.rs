//! `tollgate aggregator`: starts an aggregator over Kafka, with its HTTP and the mirror of the rules.

use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::str::FromStr;
use std::sync::Arc;

use anyhow::{Context, bail};
use prometheus_client::registry::Registry;
use tokio::task::spawn_blocking;
use tollgate::read_rules;
use tollgate_aggregator::rule_mirror::RuleCopier;
use tollgate_aggregator::{Aggregator, AggregatorSettings, THRESHOLD_PERMILLE_DEFAULT, WorkerSettings, api};
use tollgate_core::clock::{Clock, SystemClock};
use tollgate_redis::RuleMirror;

use crate::exit::{Exit, Usage};
use crate::output;
use crate::serve::{self, Stopping};
use crate::servers::{KafkaArgs, RedisArgs};

/// Starts an aggregator: counts the calls of all agents in Kafka and signals them
///
/// Start as many as you like: they share the partitions, and take over from one that dies within seconds.
#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    kafka: KafkaArgs,
    #[command(flatten)]
    redis: RedisArgs,
    /// The rules that agents enforce, if they are not published: their widest window says how far back it reads at its start
    #[arg(long, value_name = "FILE", env = "TOLLGATE_RULES", hide_env_values = true)]
    rules: Option<PathBuf>,
    /// Where to listen; port 0 takes any that is free
    #[arg(long, value_name = "ADDR", env = "TOLLGATE_HTTP", hide_env_values = true, default_value = "127.0.0.1:8090", value_parser = serve::address)]
    http: SocketAddr,
    /// Where the other aggregators find it, to show the counts of all [default: where it listens]
    #[arg(long, value_name = "HOST:PORT", env = "TOLLGATE_ADVERTISE", hide_env_values = true, value_parser = serve::node)]
    advertise: Option<String>,
    /// The name by which it is told apart [default: aggregator-RANDOM]
    #[arg(long, value_name = "NAME", env = "TOLLGATE_NODE", hide_env_values = true, value_parser = serve::node)]
    node: Option<String>,
    /// Where it is
    #[arg(long, value_name = "NAME", env = "TOLLGATE_REGION", hide_env_values = true, default_value = "default", value_parser = serve::node)]
    region: String,
    /// Where it writes records that it cannot read
    #[arg(long, value_name = "DIR", env = "TOLLGATE_STATE_DIR", hide_env_values = true)]
    state_dir: Option<PathBuf>,
    /// From which part of its quota on a counter is signalled
    #[arg(long, value_name = "PERCENT", env = "TOLLGATE_THRESHOLD", hide_env_values = true, default_value_t = Percent(THRESHOLD_PERMILLE_DEFAULT / 10))]
    threshold: Percent,
}

/// 0 to 100.
#[derive(Clone, Copy, Debug)]
struct Percent(u32);

impl fmt::Display for Percent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}%", self.0)
    }
}

impl FromStr for Percent {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let number = text.trim_end_matches('%').parse().ok();
        number.filter(|percent| *percent <= 100).map(Self).ok_or("write 0% to 100%")
    }
}

pub(crate) fn run(args: Args) -> anyhow::Result<Exit> {
    let runtime = tokio::runtime::Runtime::new().context("cannot start threads")?;
    runtime.block_on(aggregator(args))
}

async fn aggregator(args: Args) -> anyhow::Result<Exit> {
    let stopping = Stopping::listen()?;
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::start());
    let Some(kafka) = args.kafka.connect()? else { bail!(Usage("an aggregator needs --kafka BROKERS".to_owned())) };
    let listener = serve::listen(args.http).await?;
    let settings = args.settings(&*clock, listener.local_addr()?);
    let pinned = args.rules.as_ref().map(|path| read_rules(path, clock.now())).transpose()?;
    let mirror = args.redis.settings().map(|redis| RuleMirror::new(&redis, clock.clone())).transpose()?;
    let copier = RuleCopier::start(&kafka, pinned.as_ref(), mirror, &settings.worker.replay_window)?;
    let mut registry = Registry::default();
    let mut aggregator = Aggregator::start(&kafka, &settings, clock, &mut registry)?;
    output::say(format_args!("listening on http://{}", listener.local_addr()?))?;
    tollgate_http::serve(listener, api::router(settings.worker.id, aggregator.queries(), registry), stopping.asked())
        .await?;
    spawn_blocking(move || aggregator.stop()).await?;
    copier.stop();
    tracing::info!("stopped");
    Ok(Exit::Done)
}

impl Args {
    fn settings(&self, clock: &dyn Clock, listens_on: SocketAddr) -> AggregatorSettings {
        let id = self.node.clone().unwrap_or_else(serve::random_aggregator);
        // A wildcard address cannot be reached from elsewhere; the name of a container can.
        let host = std::env::var("HOSTNAME").ok().filter(|_| listens_on.ip().is_unspecified());
        let address = host.map_or_else(|| listens_on.to_string(), |host| format!("{host}:{}", listens_on.port()));
        let worker = WorkerSettings {
            http: self.advertise.clone().unwrap_or(address).into(),
            epoch: clock.now(),
            region: self.region.as_str().into(),
            threshold_permille: self.threshold.0 * 10,
            shares: true,
            ..WorkerSettings::new(&id)
        };
        AggregatorSettings { worker, dead_letters: self.state_dir.as_ref().map(|folder| folder.join("dead-letters")) }
    }
}
