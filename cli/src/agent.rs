//! `tollgate agent`: one agent of a fleet, beside its gateway. `tollgate up` takes the same flags.

use std::num::NonZeroU32;
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::bail;
use tokio::task::spawn_blocking;
use tollgate::store::ChargeStore;
use tollgate::{Agent, Builder};
use tollgate_command::exit::{Exit, Usage};
use tollgate_command::logging::LogArgs;
use tollgate_command::servers::{KafkaArgs, RedisArgs};
use tollgate_command::{command_line, threads};
use tollgate_core::clock::SystemClock;
use tollgate_engine::{COUNTERS_MAX_RANGE, FLEET_EXPECTED_DEFAULT, SKETCH_BYTES_RANGE};
use tollgate_http::{BODY_BYTES_MAX_DEFAULT, Gateway, HttpSettings};
use tollgate_listen::{Address, ListenGroup};

use crate::decision_log::{DecisionLog, DecisionLogArgs};
use crate::digest_key::digest_key;
use crate::limited_calls;
use crate::limits::Limits;
use crate::listen::ListenArgs;
use crate::operator_token;
use crate::otlp::{self, OtlpArgs, PreparedExport, RunningExport};
use crate::process_metrics;
use crate::serve;
use crate::surfaces::{Addresses, GrpcAddress, Sockets, Surfaces};
use crate::tokens::TokenArgs;

/// Starts an agent: limits over Redis, publishes to Kafka, listens on HTTP
///
/// Without --rules it follows the rules that `tollgate rules publish` publishes. Without --kafka it limits by Redis alone;
/// without --redis, signals alone limit, and all rules must be `consistency: eventual`.
#[derive(clap::Args)]
pub(crate) struct AgentArgs {
    #[command(flatten)]
    pub(crate) limits: Limits,
    #[command(flatten)]
    pub(crate) redis: RedisArgs,
    #[command(flatten)]
    pub(crate) kafka: KafkaArgs,
    /// Name of the agent in answers and logs, different for each agent of a fleet, because agents of one name count as one
    /// [default: agent-RANDOM]
    #[arg(long, value_name = "NAME", value_parser = serve::node)]
    pub(crate) node: Option<String>,
    /// Region of the agent; one of those under `regions` if a rule has `scope: global`
    #[arg(long, value_name = "NAME", default_value = "default", value_parser = serve::node)]
    pub(crate) region: String,
    /// Counts calls under all rules and denies none, except while the emergency switch is on; /metrics has the denials by rules
    /// that there would have been
    #[arg(long)]
    shadow: bool,
    /// Folder for the last good rules and the agents of the fleet, with which the agent starts while no server can be
    /// reached
    #[arg(long, value_name = "DIR")]
    state_dir: Option<PathBuf>,
    #[arg(long, value_name = "N", value_parser = command_line::positive, help = format!(
        "Number of agents in the fleet to assume until heartbeats arrive [default: {FLEET_EXPECTED_DEFAULT}; 1 for `up` without --kafka]"
    ))]
    agents_expected: Option<NonZeroU32>,
    /// Cap on the counters of this agent; callers past the cap are limited by a sketch
    #[arg(long, value_name = "N", default_value_t = tollgate_engine::COUNTERS_MAX_DEFAULT as u64, value_parser = counters_max)]
    counters_max: u64,
    /// Memory of the sketch in bytes, which is taken only while the counters are at their cap
    #[arg(long, value_name = "N", default_value_t = tollgate_engine::SKETCH_BYTES_DEFAULT as u64, value_parser = sketch_bytes)]
    sketch_bytes: u64,
    /// File with the key of all digests, 32 hexadecimal digits, the same for all agents [default: a public key]
    #[arg(long, value_name = "FILE")]
    digest_key_file: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) tokens: TokenArgs,
    #[command(flatten)]
    pub(crate) log: LogArgs,
    /// Address to listen on, HOST:PORT or unix:PATH; port 0 takes any free port
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:8080", value_parser = Address::parse)]
    pub(crate) http: Address,
    /// Address of the gRPC services for Envoy's rate limit filter and `ext_authz`, or `off` [default: the port after that of --http]
    #[arg(long, value_name = "ADDR", value_parser = GrpcAddress::parse)]
    pub(crate) grpc: Option<GrpcAddress>,
    /// Gateway that asks the agent; only its headers tell method and path of a client's request: nginx,
    /// ingress-nginx, envoy, traefik, caddy, haproxy or any
    #[arg(long, value_name = "NAME", default_value = "any")]
    pub(crate) gateway: Gateway,
    /// Address of the routes of operators, HOST:PORT or unix:PATH, such as metrics, health, settle and emergency
    /// [default: that of --http]
    #[arg(long, value_name = "ADDR", value_parser = Address::parse)]
    pub(crate) admin: Option<Address>,
    #[command(flatten)]
    pub(crate) listen: ListenArgs,
    /// Maximum length of the body of a request in bytes
    #[arg(long, value_name = "N", default_value_t = BODY_BYTES_MAX_DEFAULT, value_parser = clap::value_parser!(u32).range(1 << 10..=16 << 20))]
    body_bytes_max: u32,
    /// Time between a stop signal and the end, in which the agent is not ready and still answers, so that gateways leave it
    /// [default: it ends at once]
    #[arg(long, value_name = "DURATION", value_parser = serve::duration)]
    pub(crate) drain: Option<Duration>,
    #[command(flatten)]
    pub(crate) decision_log: DecisionLogArgs,
    #[command(flatten)]
    pub(crate) otlp: OtlpArgs,
    /// File with the token with which requests from other machines may settle, release, reset callers and switch the emergency; it is
    /// read again when it changes
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,
}

pub(crate) fn run(args: AgentArgs) -> anyhow::Result<Exit> {
    if args.limits == Limits::Unset && args.redis.settings().is_none() && args.kafka.settings().is_none() {
        bail!(Usage(
            "no limits are given: add --rules FILE or --limit \"100/min per api_key\", or follow published rules with --redis URL or --kafka BROKERS"
                .to_owned()
        ));
    }
    threads::block_on(agent(args))
}

async fn agent(args: AgentArgs) -> anyhow::Result<Exit> {
    let (stopping, hang_ups) = (serve::stop_requested()?, serve::hang_ups()?);
    let clock = SystemClock::start();
    let mut builder = args.apply(Agent::builder())?;
    if let Some(redis) = args.redis.settings() {
        builder = builder.redis(redis).published_rules();
    } else if args.kafka.settings().is_none() {
        tracing::warn!("no --redis: counters are in memory, so limits are per process and are lost when it stops");
    }
    if let Some(kafka) = args.kafka.connect()? {
        builder = builder.bus(kafka).published_rules();
    }
    let (builder, export) = args.otlp.observe(args.limits.apply(builder, &clock)?, &args.redis)?;
    let (builder, decision_log) = args.decision_log.start(builder, &args.kafka)?;
    let group = args.listen.group()?;
    let sockets = args.bind(&group).await?;
    let (settings, tls) = (args.http_settings(&group)?, group.tls().cloned());
    let agent = builder.metrics_from(move || process_metrics::encode(tls.as_ref())).start()?;
    let export = start_export(export, &agent)?;
    announce(&agent, &sockets.addresses()?, &args);
    serve::reload_at(hang_ups, vec![agent.clone()]);
    let mut surfaces = Surfaces::new();
    surfaces.serve_agent(sockets, &settings, agent.clone(), None);
    let served = surfaces.run_until(stopping, args.drain).await;
    agent.shutdown().await;
    spawn_blocking(move || {
        decision_log.into_iter().for_each(DecisionLog::stop);
        export.into_iter().for_each(RunningExport::stop);
    })
    .await?;
    served?;
    log_totals(&[agent]);
    Ok(Exit::Done)
}

/// Starts the export of an agent, if there is one.
pub(crate) fn start_export(export: Option<PreparedExport>, agent: &Agent) -> anyhow::Result<Option<RunningExport>> {
    let metrics = agent.clone();
    export.map(|export| export.start(otlp::AGENT, agent.node(), move || metrics.metrics())).transpose()
}

/// Reports the warnings of the rules, the calls that no rule limits, and the process: its version, addresses, servers and rules.
pub(crate) fn announce<S: ChargeStore>(agent: &Agent<S>, addresses: &Addresses, args: &AgentArgs) {
    for warning in agent.engine().with_rules(|rules| rules.warnings.clone()) {
        tracing::warn!("{warning}");
    }
    if let Some(notice) = agent.engine().with_rules(limited_calls::notice) {
        tracing::info!("{notice}");
    }
    if let Some(grpc) = &addresses.grpc {
        tracing::info!("gRPC for Envoy is on {grpc}");
    }
    if let Some(admin) = &addresses.admin {
        tracing::info!("routes of operators are on {}", addresses.url_of(admin));
    }
    let (rules, generation) = agent.engine().with_rules(|rules| (rules.rules.len(), rules.generation));
    tracing::info!(
        version = env!("CARGO_PKG_VERSION"),
        node = agent.node(),
        http = addresses.url(),
        redis = args.redis.shown(),
        kafka = args.kafka.shown(),
        rules,
        generation,
        "the agent is started"
    );
    args.log.announce_address(addresses.url());
}

pub(crate) fn log_totals<S: ChargeStore>(agents: &[Agent<S>]) {
    let rules: Vec<_> = agents.iter().flat_map(|agent| agent.engine().metrics().rules()).collect();
    let sum = |outcome: usize| -> u64 {
        rules.iter().flat_map(|(_, counts)| counts.decisions()).map(|totals| totals[outcome]).sum()
    };
    tracing::info!("stopped; calls allowed: {}, denied: {}", sum(1), sum(0));
}

impl AgentArgs {
    /// Applies all flags to an agent, except for its limits and servers.
    pub(crate) fn apply(&self, builder: Builder) -> anyhow::Result<Builder> {
        let (counters_max, sketch_bytes) = (usize::try_from(self.counters_max)?, usize::try_from(self.sketch_bytes)?);
        let mut builder = builder.region(&*self.region).counters_max(counters_max).sketch_bytes(sketch_bytes);
        if let Some(node) = &self.node {
            builder = builder.node(node);
        }
        if self.shadow {
            builder = builder.shadow();
        }
        if let Some(folder) = &self.state_dir {
            builder = builder.state_dir(folder);
        }
        if let Some(agents) = self.agents_expected {
            builder = builder.agents_expected(agents);
        }
        match &self.digest_key_file {
            Some(path) => builder = builder.digest_key(digest_key(path)?),
            None if !self.http.is_local() => tracing::warn!(
                "counters are named by digests under a public key, so a reader of Redis or Kafka can guess callers; give all agents the same --digest-key-file"
            ),
            None => {}
        }
        Ok(self.tokens.apply(builder)?)
    }

    /// Binds the sockets of the agent.
    pub(crate) async fn bind(&self, group: &ListenGroup) -> anyhow::Result<Sockets> {
        Sockets::bind(group, &self.http, self.grpc.as_ref(), self.admin.as_ref()).await
    }

    /// Returns the settings of the HTTP routes. The token is read again when its file changes.
    pub(crate) fn http_settings(&self, group: &ListenGroup) -> anyhow::Result<HttpSettings> {
        let mut settings = HttpSettings::behind(self.gateway);
        settings.tls = group.tls().cloned();
        settings.body_bytes_max = self.body_bytes_max;
        if let Some(path) = &self.token_file {
            settings.token = Some(operator_token::load(path)?);
        } else if !self.listen.tls.asks_for_certificates()
            && let Some(open) = self.open_address()
        {
            tracing::warn!(
                "{open} has neither TLS with client certificates nor a token: everyone who reaches it can spend quotas; restrict the network or use --tls-client-ca, and operate from this machine or with --token-file"
            );
        }
        Ok(settings)
    }

    /// Returns an address that other machines can reach.
    fn open_address(&self) -> Option<&Address> {
        let grpc = self.grpc.as_ref().and_then(GrpcAddress::address);
        [Some(&self.http), grpc, self.admin.as_ref()].into_iter().flatten().find(|address| !address.is_local())
    }
}

fn counters_max(text: &str) -> Result<u64, String> {
    within(text, &COUNTERS_MAX_RANGE).ok_or_else(|| {
        format!("write a number of counters from {} to {}", COUNTERS_MAX_RANGE.start(), COUNTERS_MAX_RANGE.end())
    })
}

fn sketch_bytes(text: &str) -> Result<u64, String> {
    let (min, max) = SKETCH_BYTES_RANGE.into_inner();
    within(text, &SKETCH_BYTES_RANGE)
        .ok_or_else(|| format!("write a number of bytes from {min} ({} KiB) to {max} ({} GiB)", min >> 10, max >> 30))
}

fn within(text: &str, range: &RangeInclusive<u64>) -> Option<u64> {
    text.parse().ok().filter(|number| range.contains(number))
}
