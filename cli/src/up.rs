//! `tollgate up`: agent and aggregator in one process, over a bus in memory. What it lacks of a fleet it says at start.

use std::io::ErrorKind;
use std::net::{SocketAddr, ToSocketAddrs};
use std::num::NonZeroU32;
use std::sync::Arc;

use anyhow::{Context, anyhow};
use prometheus_client::registry::Registry;
use tokio::net::TcpListener;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::task::spawn_blocking;
use tollgate::{Agent, RuleSet};
use tollgate_aggregator::pump::{Pump, Settings};
use tollgate_common::bus::embedded::Embedded;
use tollgate_common::call::NAME_LEN_MAX;
use tollgate_common::clock::{Clock, SystemClock};

use crate::exit::Exit;
use crate::limits::Limits;
use crate::{output, sample};

const LIMIT_DEFAULT: &str = "100/min per api_key";
const PARTITIONS: u32 = 4;

/// Starts a limiter: agent and aggregator in one process
#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    limits: Limits,
    /// Where to listen; port 0 takes any that is free
    #[arg(long, value_name = "ADDR", env = "TOLLGATE_HTTP", hide_env_values = true, default_value = "127.0.0.1:8080", value_parser = address)]
    http: SocketAddr,
    /// The name in answers and logs [default: agent-PID]
    #[arg(long, value_name = "NAME", env = "TOLLGATE_NODE", hide_env_values = true, value_parser = node)]
    node: Option<String>,
}

/// What there is to say at the end.
struct Tally {
    allowed: u64,
    denied: u64,
}

pub(crate) fn run(args: Args) -> anyhow::Result<Exit> {
    let runtime = tokio::runtime::Runtime::new().context("cannot start threads")?;
    runtime.block_on(up(args))
}

async fn up(args: Args) -> anyhow::Result<Exit> {
    let signals = (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?);
    let (agent, mut pump) = start(&args)?;
    let listener = TcpListener::bind(args.http).await.map_err(|error| cannot_listen(args.http, error))?;
    let address = listener.local_addr()?;
    for warning in agent.limiter().with_rules(|rules| rules.warnings.clone()) {
        tracing::warn!("{warning}");
    }
    tracing::warn!("counters are in memory: limits are per process, and start anew with it");
    output::say(format_args!("listening on http://{address}"))?;
    output::say(format_args!("try: {}", agent.limiter().with_rules(|rules| sample::curl(rules, address))))?;
    tollgate_sidecar::serve(listener, tollgate_sidecar::router(agent.clone()), asked_to_stop(signals)).await?;
    agent.stop().await;
    let tally = Tally::of(&agent.metrics());
    spawn_blocking(move || pump.stop()).await?;
    tracing::info!("stopped; calls allowed: {}, denied: {}", tally.allowed, tally.denied);
    Ok(Exit::Done)
}

fn start(args: &Args) -> anyhow::Result<(Agent, Pump)> {
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::start());
    let bus = Embedded::new(clock.clone(), PARTITIONS);
    let mut registry = Registry::default();
    let mut builder = Agent::builder().clock(clock.clone()).agents_expected(NonZeroU32::MIN).bus(bus.clone());
    if let Some(node) = &args.node {
        builder = builder.node(node);
    }
    builder = match &args.limits {
        Limits::File(path) => builder.rules_file(path),
        Limits::Limit(limit) => builder.rules(RuleSet::from_shorthand(limit, clock.now().as_ms())?),
        Limits::Unsaid => {
            tracing::info!("no --rules and no --limit: {LIMIT_DEFAULT} is enforced");
            builder.rules(RuleSet::from_shorthand(LIMIT_DEFAULT, clock.now().as_ms())?)
        }
    };
    let pump = Pump::start(&bus, &Settings::new("aggregator"), clock, &mut registry)?;
    Ok((builder.registry(registry).start()?, pump))
}

/// Waits for the first signal to stop; the second one ends everything at once.
async fn asked_to_stop((mut interrupt, mut terminate): (Signal, Signal)) {
    first_of(&mut interrupt, &mut terminate).await;
    tracing::info!("stopping once open requests are answered; Ctrl-C again stops at once");
    tokio::spawn(async move {
        first_of(&mut interrupt, &mut terminate).await;
        std::process::exit(Exit::Failed as i32);
    });
}

async fn first_of(interrupt: &mut Signal, terminate: &mut Signal) {
    tokio::select! {
        _ = interrupt.recv() => {}
        _ = terminate.recv() => {}
    }
}

fn cannot_listen(address: SocketAddr, error: std::io::Error) -> anyhow::Error {
    match error.kind() {
        ErrorKind::AddrInUse => {
            anyhow!("{address} is taken; stop who listens there, or take any free port with --http {}:0", address.ip())
        }
        ErrorKind::PermissionDenied => {
            anyhow!("{address} may not be used; take a port from 1024 on, such as --http {}:8080", address.ip())
        }
        ErrorKind::AddrNotAvailable => {
            anyhow!("{address} is no address of this machine; listen on 127.0.0.1 or 0.0.0.0")
        }
        _ => anyhow::Error::new(error).context(format!("cannot listen on {address}")),
    }
}

fn address(text: &str) -> Result<SocketAddr, String> {
    let found = text.to_socket_addrs().ok().and_then(|mut addresses| addresses.next());
    found.ok_or_else(|| "write HOST:PORT, such as 127.0.0.1:8080".to_owned())
}

/// A name that fits in a header.
fn node(text: &str) -> Result<String, String> {
    let fits = (1..=NAME_LEN_MAX).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_graphic());
    fits.then(|| text.to_owned())
        .ok_or_else(|| format!("write 1 to {NAME_LEN_MAX} letters, digits or signs, without spaces"))
}

impl Tally {
    /// Adds up the decisions in a text of metrics.
    fn of(metrics: &str) -> Self {
        let sum = |outcome: &str| {
            let decisions =
                metrics.lines().filter(|line| line.starts_with("tollgate_decisions_total{") && line.contains(outcome));
            decisions.filter_map(|line| line.rsplit(' ').next()?.parse::<u64>().ok()).sum()
        };
        Self { allowed: sum(r#",outcome="allowed","#), denied: sum(r#",outcome="denied","#) }
    }
}
