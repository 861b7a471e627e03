//! Lag of signals: the time from a call at one agent to its signal at another agent, over real Redis and Kafka.
//!
//! Every call is measured from the instant at which it was due, so calls that a stall delays count as late (no coordinated
//! omission). The mapping from signals to calls is exact: the calls of a counter are made sequentially by one agent, nothing
//! is denied and nothing leaves the window, so a signal of n units proves the n-th call of its counter. The threshold is 0,
//! so every counter is signalled.
//!
//! All agents and the aggregator run in this process, each with its own connections. They share the machine's processors
//! with each other and with the servers. The same calls at simulated agents, which wait for no processor, are the prediction.

mod calls;
mod call_lags;
mod signal_listener;
mod load;
mod predicted;
mod report;

use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use indicatif::ProgressBar;
use rustix::time::{ClockId, clock_gettime};
use tollgate::store::RedisSettings;
use tollgate::{Agent, Quota, Rule, RuleSet};
use tollgate_aggregator::{Aggregator, WorkerSettings};
use tollgate_bus::kafka::KafkaSettings;
use tollgate_core::clock::{Clock, Stopwatch, SystemClock};

use crate::error::ExperimentError;
use crate::live::live_fleet::LiveFleet;
use calls::Calls;
use signal_listener::SignalListener;
use tollgate_command::shared_servers::{RunName, connect_kafka, connect_redis};
use tollgate_sim::figures::as_us;

pub use call_lags::{CallLags, Lag, LegReport, Quantiles};
pub use report::{LagReport, LagRun};

/// Most calls of one run; the instants of each are kept in memory.
const CALLS_MAX: u64 = 20_000_000;
/// Width that no unit leaves during a run.
const WIDTH_MS: u64 = 3_600_000;
/// Quota of a counter as a multiple of its calls.
const QUOTA_FACTOR: u64 = 4;
const DESCRIPTOR: &str = "key";
const RULE: &str = "per-key";
/// Part of its quota from which on a counter is signalled: any.
const THRESHOLD_PERMILLE: u32 = 0;
/// Time in which all agents must receive signals after the start.
const SIGNALS_WAIT: Duration = Duration::from_secs(30);
const LAST_SIGNALS_WAIT: Duration = Duration::from_secs(5);
const PROGRESS_INTERVAL: Duration = Duration::from_millis(20);

/// Parameters of a run.
#[derive(Clone, Copy, Debug)]
pub struct LagPlan {
    /// Number of agents.
    pub agents: NonZeroU32,
    /// Calls per second, of all agents together.
    pub rate: NonZeroU32,
    /// Duration of the measurement, in seconds.
    pub seconds: u32,
    /// Duration of the warm-up before it, in seconds.
    pub warm_up_seconds: u32,
}

impl LagPlan {
    /// Checks the parameters.
    ///
    /// # Errors
    /// If they are not valid, with the remedy.
    pub fn check(&self) -> Result<(), ExperimentError> {
        if self.agents.get() < 2 {
            return Err(ExperimentError::Plan("a call is measured at another agent: give at least 2 agents"));
        }
        if self.seconds == 0 {
            return Err(ExperimentError::Plan("0 seconds measure nothing: give at least 1"));
        }
        if self.calls() > CALLS_MAX {
            return Err(ExperimentError::Plan("a run has at most 20 million calls: lower the rate or the seconds"));
        }
        Ok(())
    }

    fn calls(&self) -> u64 {
        u64::from(self.rate.get()) * (u64::from(self.seconds) + u64::from(self.warm_up_seconds))
    }

    fn warm_up_calls(&self) -> u64 {
        u64::from(self.rate.get()) * u64::from(self.warm_up_seconds)
    }
}

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

/// Returns the rules, by which no call is denied.
fn rules(calls: &Calls) -> RuleSet {
    let quota = Quota::new(calls.per_key() * QUOTA_FACTOR, WIDTH_MS).expect("neither is zero");
    RuleSet::new(1, [Rule::per(RULE, &[DESCRIPTOR], quota).strict()])
}

/// Returns the processor time used by all threads of this process.
fn cpu_used() -> Option<Duration> {
    clock_gettime(ClockId::ProcessCPUTime).try_into().ok()
}
