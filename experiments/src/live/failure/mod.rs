//! Behaviour under faults: latency, admissions in the fullest window, false denials and recovery, over real servers that the
//! experiment starts, stops and breaks itself.
//!
//! Two fleets of three agents each run in this process over one Redis, behind a proxy, or over a cluster or Sentinels, with TLS: one with
//! Kafka and aggregators, one without. Callers call in an open loop. Each fault begins when every window is full, and every window that it can have
//! changed ends before the next fault. Aggregators are processes of their own, so that they can be killed.

mod settings;
mod deployment;
mod programs;
mod faults;
mod proxy;
mod replicated_redis;
mod bus_servers;
mod servers;
mod limiting;
mod signal_receipts;
mod fleet;
mod load;
mod history;
mod quota_bounds;
mod judgement;
mod judged;
mod simulated;
mod comparison;
mod report;
mod fail_over_report;
mod results;

use std::num::NonZeroU32;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use indicatif::ProgressBar;
use parking_lot::Mutex;
use tollgate_core::clock::{Clock, Stopwatch, SystemClock};

use crate::error::ExperimentError;
use fleet::{FaultedFleet, StateWatch};
use history::{History, Strike};
use limiting::CallMix;
use load::{FailureLoad, FaultedCaller};
use servers::FaultyServers;
use settings::PAUSE;
use signal_receipts::SignalReceipts;

pub use comparison::SimulatedFailure;
pub use deployment::RedisDeployment;
pub use fail_over_report::{FailOverReport, FailOverRow, WindowUnits};
pub use faults::ServerFault;
pub use judged::{FaultFigures, RunFigures};
pub use programs::Programs;
pub use report::{FailureReport, FailureRow};
pub use results::FailureResults;

/// Maximum time until all agents use the store again, after which the next fault begins nevertheless.
const RECOVERY_WAIT: Duration = Duration::from_secs(10);
const READY_WAIT: Duration = Duration::from_secs(30);
const POLL_INTERVAL: Duration = Duration::from_millis(20);
const TIMER_PAUSE: Duration = Duration::from_millis(1);

/// Thread that does nothing but sleep, and measures by how much it wakes up late.
struct BareTimer {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<Duration>,
}

/// Parameters of a run.
#[derive(Clone, Debug)]
pub struct FailurePlan {
    /// Programs of the servers.
    pub programs: Programs,
    /// Faults, in the order in which they are made. Each deployment gets those that it can have.
    pub faults: Vec<ServerFault>,
    /// Calls per second of both fleets.
    pub rate: NonZeroU32,
    /// True if each call counts under a rule of its tenant, too, at one Redis.
    pub has_tenant: bool,
}

/// Judgement of the history of a run, and of the lateness of its bare timer.
type FailureJudge<R> = fn(&History<'_>, Duration) -> R;

/// Runs the faults at one Redis, inside a tokio runtime.
///
/// # Errors
/// If a server is missing or does not answer, or a part does not start.
pub async fn run(plan: &FailurePlan, progress: &ProgressBar) -> Result<FailureReport, ExperimentError> {
    let mix = if plan.has_tenant { CallMix::WithTenant } else { CallMix::OneRule };
    run_at(RedisDeployment::Single, plan, mix, progress, |history, timer_late| {
        FailureReport::of(history, &comparison::simulated(history), timer_late)
    })
    .await
}

/// Runs the faults at a cluster, inside a tokio runtime.
///
/// # Errors
/// As [`run`].
pub async fn run_cluster(plan: &FailurePlan, progress: &ProgressBar) -> Result<FailOverReport, ExperimentError> {
    run_at(RedisDeployment::Cluster, plan, CallMix::AsUsers, progress, |history, timer_late| {
        FailOverReport::of(history, RedisDeployment::Cluster, timer_late)
    })
    .await
}

/// Runs the faults at a primary with replicas and Sentinels, inside a tokio runtime.
///
/// # Errors
/// As [`run`].
pub async fn run_sentinel(plan: &FailurePlan, progress: &ProgressBar) -> Result<FailOverReport, ExperimentError> {
    run_at(RedisDeployment::Sentinel, plan, CallMix::AsUsers, progress, |history, timer_late| {
        FailOverReport::of(history, RedisDeployment::Sentinel, timer_late)
    })
    .await
}

async fn run_at<R>(
    deployment: RedisDeployment,
    plan: &FailurePlan,
    mix: CallMix,
    progress: &ProgressBar,
    report: FailureJudge<R>,
) -> Result<R, ExperimentError> {
    let faults: Vec<ServerFault> = plan.faults.iter().copied().filter(|fault| fault.is_of(deployment)).collect();
    progress.set_length(faults.len() as u64);
    progress.set_position(0);
    progress.set_message(format!("{}: servers start", deployment.name()));
    let programs = plan.programs.clone();
    let servers = tokio::task::spawn_blocking(move || FaultyServers::start(&programs, deployment)).await;
    let servers = servers.map_err(std::io::Error::other)??;
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::start());
    let receipts = SignalReceipts::new(clock.clone());
    let fleets = FaultedFleet::start_all(&servers, &clock, &receipts, mix)?;
    let callers = load::callers(fleets.len(), mix, plan.rate.get());
    let servers = Arc::new(Mutex::new(servers));
    let ran = strike_all(&servers, &fleets, callers, receipts, &clock, &faults, progress, report).await;
    // The servers end after the agents, which would log their loss.
    for fleet in &fleets {
        fleet.stop().await;
    }
    ran
}

#[expect(clippy::too_many_arguments, reason = "the parts of one run, which live as long as it")]
async fn strike_all<R>(
    servers: &Arc<Mutex<FaultyServers>>,
    fleets: &[FaultedFleet],
    callers: Vec<FaultedCaller>,
    receipts: SignalReceipts,
    clock: &Arc<dyn Clock>,
    faults: &[ServerFault],
    progress: &ProgressBar,
    report: FailureJudge<R>,
) -> Result<R, ExperimentError> {
    let waited = Stopwatch::start();
    while !fleets.iter().all(FaultedFleet::is_ready) {
        if waited.elapsed() >= READY_WAIT {
            return Err(ExperimentError::Silence);
        }
        tokio::time::sleep(POLL_INTERVAL).await;
    }
    let callers: Arc<[_]> = callers.into();
    let timer = BareTimer::start()?;
    let states = StateWatch::start(fleets, clock.clone())?;
    let load = FailureLoad::start(&callers, fleets)?;
    progress.set_message("windows fill");
    tokio::time::sleep(PAUSE).await;
    let strikes = strikes(servers, fleets, clock, faults, progress).await;
    let (answers, states, timer_late) = (load.stop(), states.stop(), timer.stop());
    progress.set_message("judgement");
    let has_kafka = fleets.iter().map(|fleet| fleet.has_kafka).collect();
    let history = History { callers: &callers, has_kafka, answers, states, receipts, strikes: strikes? };
    Ok(tokio::task::block_in_place(|| report(&history, timer_late)))
}

async fn strikes(
    servers: &Arc<Mutex<FaultyServers>>,
    fleets: &[FaultedFleet],
    clock: &Arc<dyn Clock>,
    faults: &[ServerFault],
    progress: &ProgressBar,
) -> Result<Vec<Strike>, ExperimentError> {
    let mut strikes: Vec<Strike> = Vec::new();
    for fault in faults.iter().copied() {
        progress.set_message(fault.name());
        let begin_ms = clock.now().as_ms();
        let (servers, at) = (servers.clone(), clock.clone());
        let strike = move || servers.lock().strike(fault, &*at);
        let end_ms = tokio::task::spawn_blocking(strike).await.map_err(std::io::Error::other)??;
        let waited = Stopwatch::start();
        let needs_store = || fleets.iter().flat_map(|fleet| &fleet.agents).any(|agent| agent.engine().needs_store());
        while needs_store() && waited.elapsed() < RECOVERY_WAIT {
            tokio::time::sleep(POLL_INTERVAL).await;
        }
        tokio::time::sleep(PAUSE).await;
        strikes.push(Strike { fault, begin_ms, end_ms, next_ms: clock.now().as_ms() });
        progress.inc(1);
    }
    Ok(strikes)
}

impl BareTimer {
    fn start() -> std::io::Result<Self> {
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = stop.clone();
        let watch = move || {
            let mut latest = Duration::ZERO;
            while !stopped.load(Ordering::Relaxed) {
                let slept = Stopwatch::start();
                std::thread::sleep(TIMER_PAUSE);
                latest = latest.max(slept.elapsed().saturating_sub(TIMER_PAUSE));
            }
            latest
        };
        let thread = std::thread::Builder::new().name("failure-timer".into()).spawn(watch)?;
        Ok(Self { stop, thread })
    }

    /// Ends the timer and returns its greatest lateness.
    fn stop(self) -> Duration {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().unwrap_or_default()
    }
}
