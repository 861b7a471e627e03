//! How long it takes from a call at one agent until another agent knows of it, over real Redis and Kafka.
//!
//! Every call is measured, and from the instant at which it should have been made: when something stalls, the calls that
//! come late for it count as late (no coordinated omission). Which signal proves which call is exact: a counter's calls
//! are made one after the other by one agent, nothing is denied and nothing leaves the window, so a signal of n units
//! proves the n-th call of its counter. The threshold is 0, so that every counter is signalled.
//!
//! All agents and the aggregator run in this process, each with connections of its own, as they would alone. They share
//! its processors with each other and with whatever else runs there, servers included.

mod calls;
mod ear;
mod load;
mod report;

use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use indicatif::ProgressBar;
use prometheus_client::registry::Registry;
use tollgate::store::RedisSettings;
use tollgate::{Agent, Quota, Rule, RuleSet, StartError};
use tollgate_aggregator::{Aggregator, AggregatorSettings};
use tollgate_bus::kafka::{Kafka, KafkaSettings};
use tollgate_core::clock::{Clock, Stopwatch, SystemClock};

use super::cpu;
use crate::servers::{RunName, ServerError, clear_kafka, reach_kafka, reach_redis};
use calls::Calls;
use ear::Ear;

pub use report::{Quantiles, Report, Run};

/// The most calls of one run: each is remembered.
const CALLS_MAX: u64 = 20_000_000;
/// How wide the window is: nothing leaves it while this runs.
const WIDTH_MS: u64 = 3_600_000;
/// A counter's quota is so many times what it gets.
const QUOTA_FACTOR: u64 = 4;
/// What a call is counted by.
const DESCRIPTOR: &str = "key";
const RULE: &str = "per-key";
/// How long agents may take to hear signals, and calls to be signalled after the last one.
const HEARING_WAIT: Duration = Duration::from_secs(30);
const PATIENCE: Duration = Duration::from_secs(5);
const GLANCE: Duration = Duration::from_millis(20);

/// What to run.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// How many agents there are.
    pub agents: NonZeroU32,
    /// Calls per second, of all agents together.
    pub rate: NonZeroU32,
    /// How long calls are measured.
    pub seconds: u32,
    /// How long calls are made before that.
    pub warm_up_seconds: u32,
}

/// Why there is nothing to report.
#[derive(Debug, thiserror::Error)]
pub enum LagError {
    /// It makes no sense.
    #[error("{0}")]
    Plan(&'static str),
    /// A server is away.
    #[error(transparent)]
    Server(#[from] ServerError),
    /// An agent does not start.
    #[error(transparent)]
    Agent(#[from] StartError),
    /// The agents hear nothing.
    #[error("no signals came within 30 s; set TOLLGATE_LOG=info to see what the agents and the aggregator say")]
    Silence,
    /// The system gave it no thread.
    #[error("cannot start a thread: {0}")]
    Thread(#[from] std::io::Error),
}

/// Agents and an aggregator at work.
struct Fleet {
    kafka: (Kafka, KafkaSettings),
    aggregator: Aggregator,
    agents: Vec<Agent>,
}

impl Plan {
    /// Whether it can be run.
    ///
    /// # Errors
    /// When it cannot.
    pub fn check(&self) -> Result<(), LagError> {
        if self.agents.get() < 2 {
            return Err(LagError::Plan("a call is to be heard of by another agent: give at least 2"));
        }
        if self.seconds == 0 {
            return Err(LagError::Plan("nothing is measured in 0 seconds"));
        }
        if self.calls() > CALLS_MAX {
            return Err(LagError::Plan("these are more than 20 million calls; lower the rate or the seconds"));
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

/// Runs it inside a tokio runtime.
///
/// # Errors
/// When a server does not answer, or a part does not start.
pub async fn run(
    redis: &RedisSettings,
    kafka: &KafkaSettings,
    plan: &Plan,
    progress: &ProgressBar,
) -> Result<Run, LagError> {
    plan.check()?;
    let name = RunName::new("lag");
    let (redis, kafka) = (name.redis(redis), name.kafka(kafka));
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::start());
    reach_redis(&redis, clock.clone()).await?;
    let calls = Arc::new(Calls::new(plan, clock.now()));
    progress.set_length(plan.calls());
    progress.set_message(format!("{} agents start", plan.agents));
    let fleet = Fleet::start(&redis, kafka, plan, &clock, &calls)?;
    let measured = measure(&fleet, plan, &calls, progress).await;
    fleet.stop().await;
    progress.set_message("");
    let (sent, cpu) = measured?;
    Ok(report::of(plan, &calls, &sent, cpu))
}

async fn measure(
    fleet: &Fleet,
    plan: &Plan,
    calls: &Arc<Calls>,
    progress: &ProgressBar,
) -> Result<(load::Sent, Option<Duration>), LagError> {
    let waited = Stopwatch::start();
    while !fleet.agents.iter().all(|agent| agent.engine().has_read_signals()) {
        if waited.elapsed() >= HEARING_WAIT {
            return Err(LagError::Silence);
        }
        tokio::time::sleep(GLANCE).await;
    }
    progress.set_message(format!("{} agents", plan.agents));
    let load = load::start(&fleet.agents, calls)?;
    let mut cpu_before = None;
    while !load.is_done() {
        progress.set_position(calls.made());
        if cpu_before.is_none() && calls.made() >= plan.warm_up_calls() {
            cpu_before = cpu::used();
        }
        tokio::time::sleep(GLANCE).await;
    }
    let cpu = cpu::used().zip(cpu_before).map(|(after, before)| after.saturating_sub(before));
    let sent = load.end().await;
    let waited = Stopwatch::start();
    while !calls.are_all_known() && waited.elapsed() < PATIENCE {
        tokio::time::sleep(GLANCE).await;
    }
    Ok((sent, cpu))
}

impl Fleet {
    fn start(
        redis: &RedisSettings,
        kafka: KafkaSettings,
        plan: &Plan,
        clock: &Arc<dyn Clock>,
        calls: &Arc<Calls>,
    ) -> Result<Self, LagError> {
        let bus = reach_kafka(&kafka)?;
        let quota = Quota::new(calls.per_key() * QUOTA_FACTOR, WIDTH_MS).expect("neither is zero");
        let rules = RuleSet::new(1, [Rule::per(RULE, &[DESCRIPTOR], quota).strict()]);
        let mut settings = AggregatorSettings::new("aggregator");
        settings.worker.epoch = clock.now();
        // As in production, it waits for the heartbeats of others before partitions are assigned.
        settings.worker.shares = true;
        settings.worker.threshold_permille = 0;
        settings.worker.replay_window.cover(&rules);
        let aggregator = Aggregator::start(&bus, &settings, clock.clone(), &mut Registry::default())?;
        let mut fleet = Self { kafka: (bus, kafka), aggregator, agents: Vec::new() };
        for number in 0..plan.agents.get() {
            let mut ear = Ear::new(number, calls.clone());
            let builder = Agent::builder().node(format!("agent-{number}")).clock(clock.clone()).rules(rules.clone());
            let builder = builder.redis(redis.clone()).bus(reach_kafka(&fleet.kafka.1)?).agents_expected(plan.agents);
            let builder = builder.observe_signals(move |batch, appended| ear.hear(batch, appended));
            fleet.agents.push(builder.start()?);
        }
        Ok(fleet)
    }

    async fn stop(mut self) {
        for agent in &self.agents {
            agent.stop().await;
        }
        let clear = move || {
            self.aggregator.stop();
            clear_kafka(&self.kafka.0, &self.kafka.1);
        };
        if tokio::task::spawn_blocking(clear).await.is_err() {
            tracing::error!("the aggregator could not be stopped");
        }
    }
}
