//! `tollgate aggregator`: starts an aggregator over Kafka, with its HTTP and the mirror of the rules.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use anyhow::bail;
use tokio::signal::unix::Signal;
use tokio::task::spawn_blocking;
use tollgate::{RuleSet, RulesFileError, read_rules};
use tollgate_aggregator::regions::{GlobalRules, RegionFeed, RegionRole, RegionRoleSettings};
use tollgate_aggregator::rule_mirror::RuleCopier;
use tollgate_aggregator::{
    Aggregator, AnalyticsSettings, NewestRules, ReplayWindow, THRESHOLD_PERMILLE_DEFAULT, WorkerSettings, api,
};
use tollgate_command::exit::{Exit, Usage};
use tollgate_command::logging::LogArgs;
use tollgate_command::servers::{KafkaArgs, RedisArgs};
use tollgate_command::threads;
use tollgate_core::clock::{Clock, SystemClock};
use tollgate_metrics::{build_info, join};
use tollgate_redis::RuleMirror;

use crate::digest_key::digest_key;
use crate::ledger::{LedgerArgs, region_settings};
use crate::listen::{ListenArgs, bind};
use crate::otlp::{self, CollectorArgs, RunningExport};
use crate::process_metrics;
use crate::serve;

/// Starts an aggregator: counts the calls of all agents in Kafka and signals them
///
/// Any number of aggregators may run: they share the partitions, and take over those of a failed one within seconds.
#[derive(clap::Args)]
pub(crate) struct AggregatorArgs {
    #[command(flatten)]
    kafka: KafkaArgs,
    #[command(flatten)]
    redis: RedisArgs,
    #[command(flatten)]
    ledger: LedgerArgs,
    /// File with the key of all digests, the same as that of the agents; for --ledger and /api/v1/usage [default: a public key]
    #[arg(long, value_name = "FILE")]
    digest_key_file: Option<PathBuf>,
    /// Rules that the agents enforce, if they are not published: a file, or a folder with *.yaml files, once or several
    /// times; their widest window decides how much of the log a restore reads
    #[arg(long, value_name = "FILE", value_delimiter = ';')]
    rules: Vec<PathBuf>,
    /// Address to listen on; port 0 takes any free port
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:8090", value_parser = serve::address)]
    http: SocketAddr,
    /// Address at which other aggregators reach this one, to show all counters [default: the address it listens on]
    #[arg(long, value_name = "HOST:PORT", value_parser = serve::node)]
    advertise: Option<String>,
    /// Name of this aggregator, unique in the fleet [default: aggregator-RANDOM]
    #[arg(long, value_name = "NAME", value_parser = serve::node)]
    node: Option<String>,
    /// Name of the region
    #[arg(long, value_name = "NAME", default_value = "default", value_parser = serve::node)]
    region: String,
    /// Folder in which undecodable records are kept
    #[arg(long, value_name = "DIR")]
    state_dir: Option<PathBuf>,
    /// Part of its quota at which a counter is signalled
    #[arg(long, value_name = "PERCENT", default_value = format!("{}%", THRESHOLD_PERMILLE_DEFAULT / 10), value_parser = percent)]
    threshold: u32,
    /// Callers of a rule that the analytics sum exactly in one minute of one partition of calls; past them, the callers with few
    /// calls share one sum, and the number of callers is an estimate
    #[arg(long, value_name = "N", default_value_t = AnalyticsSettings::CALLERS_MAX_DEFAULT as u64, value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    analytics_callers: u64,
    #[command(flatten)]
    listen: ListenArgs,
    #[command(flatten)]
    otlp: CollectorArgs,
    #[command(flatten)]
    pub(crate) log: LogArgs,
}

pub(crate) fn run(args: AggregatorArgs) -> anyhow::Result<Exit> {
    threads::block_on(aggregator(args))
}

async fn aggregator(args: AggregatorArgs) -> anyhow::Result<Exit> {
    let (stopping, hang_ups) = (serve::stop_requested()?, serve::hang_ups()?);
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::start());
    let Some(kafka) = args.kafka.connect()? else { bail!(Usage("an aggregator needs --kafka BROKERS".to_owned())) };
    let export = args.otlp.prepare()?;
    let group = args.listen.group()?;
    let listener = bind(&group, &args.http.into(), "--http").await?;
    let listens_on = listener.address()?.tcp().unwrap_or(args.http);
    let settings = args.settings(&*clock, listens_on);
    let pinned = read_pinned(&args.rules, &*clock).transpose()?;
    let mirror = args.redis.settings().map(|redis| RuleMirror::new(&redis, clock.clone())).transpose()?;
    let key = args.digest_key_file.as_deref().map(digest_key).transpose()?.unwrap_or_default();
    let limits = args.ledger.limits_in(&args.redis)?.map(|redis| redis.with_digest_key(&key));
    let global_rules = limits.as_ref().map(|_| GlobalRules::new(&key, &settings.region));
    let (replay_window, shown) = (settings.replay_window.clone(), NewestRules::default());
    let copier = RuleCopier::start(&kafka, pinned.as_ref(), mirror, &replay_window, global_rules.as_ref(), &shown)?;
    let known = shown.known();
    reload_at(hang_ups, args.rules.clone(), replay_window, global_rules.clone(), shown, clock.clone());
    let id = settings.id.clone();
    let dead_letters = args.state_dir.as_ref().map(|folder| folder.join("dead-letters"));
    let part = RegionRoleSettings { dead_letters: dead_letters.clone(), ..region_settings(&settings, &*clock) };
    let feed = global_rules.as_ref().map(|_| RegionFeed::default());
    let of_analytics = args.kafka.connect_analytics()?;
    let buses = (&kafka, of_analytics.as_ref());
    let mut aggregator = Aggregator::start_with(buses, settings, dead_letters, feed.clone(), clock.clone())?;
    let mut role = None;
    if let (Some(rules), Some(feed), Some(limits)) = (global_rules, feed, &limits) {
        role = Some(args.ledger.start((&args.kafka, limits), part, rules, (feed, &aggregator), clock)?);
    }
    let url = format!("{}://{listens_on}", listener.scheme());
    tracing::info!(
        version = env!("CARGO_PKG_VERSION"),
        aggregator = &*id,
        http = url,
        redis = args.redis.shown(),
        kafka = args.kafka.shown(),
        rules = pinned.as_ref().map(|rules| &*rules.origin),
        "the aggregator is started"
    );
    args.log.announce_address(url);
    let (metrics, of_regions) = (aggregator.metrics(), role.as_ref().map(RegionRole::metrics));
    let of_regions = move || of_regions.as_ref().map_or_else(String::new, |metrics| metrics());
    let tls = group.tls().cloned();
    let metrics: Arc<dyn Fn() -> String + Send + Sync> =
        Arc::new(move || join([metrics(), of_regions(), process_metrics::encode(tls.as_ref())]));
    let exported = metrics.clone();
    let export = export
        .map(|export| export.start(otlp::AGGREGATOR, &id, move || join([build_info(), exported()])))
        .transpose()?;
    let analytics = aggregator.analytics().digested_by(&key).with_rules(known);
    let router = api::router(
        id,
        (aggregator.queries(), analytics),
        role.as_ref().map(RegionRole::queries),
        move || metrics(),
        group.tls().cloned(),
    );
    tollgate_listen::serve(listener, router, stopping).await;
    spawn_blocking(move || {
        drop(role);
        aggregator.stop();
        export.into_iter().for_each(RunningExport::stop);
    })
    .await?;
    drop(copier);
    tracing::info!("stopped");
    Ok(Exit::Done)
}

impl AggregatorArgs {
    fn settings(&self, clock: &dyn Clock, listens_on: SocketAddr) -> WorkerSettings {
        let id = self.node.clone().unwrap_or_else(serve::random_aggregator);
        // A wildcard address cannot be reached from elsewhere; the name of a container can.
        let host = std::env::var("HOSTNAME").ok().filter(|_| listens_on.ip().is_unspecified());
        let address = host.map_or_else(|| listens_on.to_string(), |host| format!("{host}:{}", listens_on.port()));
        let callers_max = usize::try_from(self.analytics_callers).unwrap_or(usize::MAX);
        WorkerSettings {
            http: self.advertise.clone().unwrap_or(address).into(),
            epoch: clock.now(),
            region: self.region.as_str().into(),
            threshold_permille: self.threshold * 10,
            shares: true,
            coordinates: self.ledger.coordinates(&self.kafka),
            analytics: Some(AnalyticsSettings::with_callers_max(callers_max)),
            ..WorkerSettings::new(&id)
        }
    }
}

/// Reads the rules of the command, if there are any.
fn read_pinned(paths: &[PathBuf], clock: &dyn Clock) -> Option<Result<RuleSet, RulesFileError>> {
    (!paths.is_empty()).then(|| read_rules(paths, clock.now()))
}

/// Reads the files with rules again at each SIGHUP; its windows decide how much of the log the next restore reads.
fn reload_at(
    mut hang_ups: Signal,
    rules: Vec<PathBuf>,
    replay_window: ReplayWindow,
    global_rules: Option<GlobalRules>,
    shown: NewestRules,
    clock: Arc<dyn Clock>,
) {
    tokio::spawn(async move {
        while hang_ups.recv().await.is_some() {
            match read_pinned(&rules, &*clock) {
                Some(Ok(rules)) => {
                    replay_window.cover(&rules);
                    if let Some(global) = &global_rules {
                        global.set(&rules);
                    }
                    shown.set(rules);
                    tracing::info!("SIGHUP: the rules are read again");
                }
                Some(Err(error)) => {
                    tracing::error!(
                        "SIGHUP: the rules stay as they were; correct the file and send SIGHUP again: {error}"
                    );
                }
                None => tracing::info!("SIGHUP: nothing to read again; published rules are followed without it"),
            }
        }
    });
}

fn percent(text: &str) -> Result<u32, &'static str> {
    let number = text.trim_end_matches('%').parse().ok();
    number.filter(|percent| *percent <= 100).ok_or("write 0% to 100%")
}
