//! Lag of signals: the time from a call at one agent to its signal at another agent, over real Redis and Kafka.
//!
//! Every call is measured from the instant at which it was due, so calls that a stall delays count as late (no coordinated
//! omission). The mapping from signals to calls is exact: the calls of a counter are made sequentially by one agent, nothing
//! is denied and nothing leaves the window, so a signal of n units proves the n-th call of its counter. The threshold is 0,
//! so every counter is signalled.
//!
//! All agents and the aggregator run in this process, each with its own connections. They share the machine's processors
//! with each other and with the servers. The same calls at simulated agents, which wait for no processor, are the prediction.

mod plan;
mod calls;
mod rules;
mod call_lags;
mod signal_listener;
mod load;
mod predicted;
mod report;

use std::sync::Arc;
use std::time::Duration;

use indicatif::ProgressBar;
use rustix::time::{ClockId, clock_gettime};
use tollgate::Agent;
use tollgate::store::RedisSettings;
use tollgate_aggregator::{Aggregator, WorkerSettings};
use tollgate_bus::kafka::KafkaSettings;
use tollgate_command::shared_servers::{RunName, connect_kafka, connect_redis};
use tollgate_core::clock::{Clock, Stopwatch, SystemClock};
use tollgate_sim::figures::as_us;

use crate::error::ExperimentError;
use crate::live::live_fleet::LiveFleet;
use calls::Calls;
use plan::THRESHOLD_PERMILLE;
use rules::rules;
use signal_listener::SignalListener;

pub use call_lags::{CallLags, Lag, LegReport, Quantiles};
pub use plan::LagPlan;
pub use report::{LagReport, LagRun};

/// Time in which all agents must receive signals after the start.
const SIGNALS_WAIT: Duration = Duration::from_secs(30);
const LAST_SIGNALS_WAIT: Duration = Duration::from_secs(5);
const PROGRESS_INTERVAL: Duration = Duration::from_millis(20);

/// Runs the measurement inside a tokio runtime.
///
/// # Errors
/// If a server does not answer or a part does not start.
pub async fn run(
    redis: &RedisSettings,
    kafka: &KafkaSettings,
    plan: &LagPlan,
    progress: &ProgressBar,
) -> Result<LagRun, ExperimentError> {
    plan.check()?;
    let name = RunName::new("lag");
    let (redis, kafka) = (name.redis(redis), name.kafka(kafka));
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::start());
    connect_redis(&redis, clock.clone()).await?;
    let calls = Arc::new(Calls::new(plan, clock.now()));
    progress.set_length(plan.calls());
    progress.set_message(format!("{} agents start", plan.agents));
    let fleet = start(&redis, kafka.clone(), plan, &clock, &calls)?;
    let measured = measure(&fleet, plan, &calls, progress).await;
    fleet.stop().await;
    let (sent, cpu) = measured?;
    progress.set_message("simulation");
    let simulated = (*plan, kafka.partitions);
    let simulated = tokio::task::spawn_blocking(move || predicted::calls(simulated.0, simulated.1)).await;
    let simulated = CallLags::of(&simulated.map_err(std::io::Error::other)?);
    progress.set_message("");
    Ok(report::of(plan, &calls, simulated, &sent, cpu))
}

async fn measure(
    fleet: &LiveFleet,
    plan: &LagPlan,
    calls: &Arc<Calls>,
    progress: &ProgressBar,
) -> Result<(load::SentCalls, Option<Duration>), ExperimentError> {
    let waited = Stopwatch::start();
    while !fleet.agents.iter().all(|agent| agent.engine().has_read_signals()) {
        if waited.elapsed() >= SIGNALS_WAIT {
            return Err(ExperimentError::Silence);
        }
        tokio::time::sleep(PROGRESS_INTERVAL).await;
    }
    progress.set_message(format!("{} agents", plan.agents));
    let load = load::start(&fleet.agents, calls)?;
    let mut cpu_before = None;
    while !load.is_done() {
        progress.set_position(calls.made());
        if cpu_before.is_none() && calls.made() >= plan.warm_up_calls() {
            cpu_before = cpu_used();
        }
        tokio::time::sleep(PROGRESS_INTERVAL).await;
    }
    let cpu = cpu_used().zip(cpu_before).map(|(after, before)| after.saturating_sub(before));
    let sent = load.end().await;
    let waited = Stopwatch::start();
    while !calls.are_all_known() && waited.elapsed() < LAST_SIGNALS_WAIT {
        tokio::time::sleep(PROGRESS_INTERVAL).await;
    }
    Ok((sent, cpu))
}

/// Starts agents whose signals are recorded, and their aggregator.
fn start(
    redis: &RedisSettings,
    kafka: KafkaSettings,
    plan: &LagPlan,
    clock: &Arc<dyn Clock>,
    calls: &Arc<Calls>,
) -> Result<LiveFleet, ExperimentError> {
    let bus = connect_kafka(&kafka)?;
    let rules = rules(calls);
    let settings = WorkerSettings {
        epoch: clock.now(),
        // As in production, it waits for the heartbeats of others before partitions are assigned.
        shares: true,
        threshold_permille: THRESHOLD_PERMILLE,
        // The fleet has no topics for them, and nobody asks.
        analytics: None,
        ..WorkerSettings::new("aggregator")
    };
    settings.replay_window.cover(&rules);
    let aggregator = Aggregator::start(&bus, settings, None, clock.clone())?;
    let mut fleet = LiveFleet { kafka: (bus, kafka), aggregator, agents: Vec::new() };
    for number in 0..plan.agents.get() {
        let (mut listener, received_by) = (SignalListener::new(number, calls.clone()), calls.clone());
        let builder = Agent::builder().node(format!("agent-{number}")).clock(clock.clone()).rules(rules.clone());
        let builder = builder.redis(redis.clone()).bus(connect_kafka(&fleet.kafka.1)?).agents_expected(plan.agents);
        let builder = builder.observe_signals(move |batch, appended| {
            listener.receive(batch, appended, as_us(received_by.now()));
        });
        fleet.agents.push(builder.start()?);
    }
    Ok(fleet)
}

/// Returns the processor time used by all threads of this process.
fn cpu_used() -> Option<Duration> {
    clock_gettime(ClockId::ProcessCPUTime).try_into().ok()
}
