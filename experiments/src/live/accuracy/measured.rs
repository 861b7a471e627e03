//! The planned calls at agents on real servers: each call is sent at its instant, regardless of earlier answers (an open loop).

use std::sync::Arc;
use std::time::Duration;

use hdrhistogram::Histogram;
use indicatif::ProgressBar;
use parking_lot::Mutex;
use tokio::runtime::Handle;
use tokio::task::JoinSet;
use tollgate::Agent;
use tollgate::store::RedisSettings;
use tollgate_aggregator::{Aggregator, WorkerSettings};
use tollgate_bus::kafka::KafkaSettings;
use tollgate_command::shared_servers::connect_kafka;
use tollgate_core::clock::{Clock, Stopwatch};
use tollgate_sim::figures::{as_us, histogram};

use super::plan::{AccuracyPlan, CONSISTENCIES, WIDTH_MS};
use super::planned_arrivals::{PlannedArrivals, call_of, consistency_of, rules};
use super::tally::{AccuracyTally, AnsweredArrival, judged};
use super::waits::Waits;
use crate::error::ExperimentError;
use crate::live::live_fleet::LiveFleet;

/// Time in which all agents must reach both servers after the start.
const READY_WAIT: Duration = Duration::from_secs(30);
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// Numbers of the calls at real servers.
pub(super) struct MeasuredCalls {
    pub(super) tallies: [AccuracyTally; CONSISTENCIES.len()],
    /// Waits that the simulation does not have.
    pub(super) waits: [Waits; CONSISTENCIES.len()],
    /// Time from the instant at which a call was due to its sending, in microseconds.
    pub(super) sent_late_us: Histogram<u64>,
    /// Time from the sending of a call to its answer, in microseconds.
    pub(super) answered_us: Histogram<u64>,
}

struct CallerLog {
    answers: Vec<AnsweredArrival>,
    waits: [Waits; CONSISTENCIES.len()],
    sent_late_us: Histogram<u64>,
    answered_us: Histogram<u64>,
}

pub(super) async fn run(
    redis: &RedisSettings,
    kafka: KafkaSettings,
    plan: AccuracyPlan,
    clock: &Arc<dyn Clock>,
    calls: &Arc<PlannedArrivals>,
    progress: &ProgressBar,
) -> Result<MeasuredCalls, ExperimentError> {
    let fleet = start(redis, kafka, plan, clock)?;
    let log = match wait_until_ready(&fleet.agents).await {
        Ok(()) => {
            // As in the simulation, the calls begin with a whole window.
            tokio::time::sleep(Duration::from_millis(WIDTH_MS - clock.now().as_ms() % WIDTH_MS)).await;
            send_all(&fleet.agents, calls, progress).await
        }
        Err(error) => Err(error),
    };
    fleet.stop().await;
    let CallerLog { answers, waits, sent_late_us, answered_us } = log?;
    Ok(MeasuredCalls { tallies: judged(calls, answers), waits, sent_late_us, answered_us })
}

/// Sends the calls from a thread that keeps time with a finer resolution than tokio's timers.
async fn send_all(
    agents: &[Agent],
    calls: &Arc<PlannedArrivals>,
    progress: &ProgressBar,
) -> Result<CallerLog, ExperimentError> {
    let log = CallerLog {
        answers: Vec::with_capacity(calls.all.len()),
        waits: Default::default(),
        sent_late_us: histogram(),
        answered_us: histogram(),
    };
    let log = Arc::new(Mutex::new(log));
    let (runtime, agents, calls) = (Handle::current(), agents.to_vec(), calls.clone());
    let (record, bar) = (log.clone(), progress.clone());
    let send = move || {
        let (mut answers, since) = (JoinSet::new(), Stopwatch::start());
        for call in &calls.all {
            let due = Duration::from_secs_f64(call.at_ms / 1_000.0);
            std::thread::sleep(due.saturating_sub(since.elapsed()));
            let (agent, caller, record) = (agents[call.agent].clone(), call.caller, record.clone());
            let call = call_of(caller, calls.has_tenant);
            let answer = async move {
                let sent = since.elapsed();
                let decision = agent.decide(&call).await;
                let answered = since.elapsed();
                let mut log = record.lock();
                log.sent_late_us.saturating_record(as_us(sent.saturating_sub(due)));
                log.answered_us.saturating_record(as_us(answered.saturating_sub(sent)));
                log.waits[consistency_of(caller)].enter(decision.source, answered.saturating_sub(sent));
                let answered_ms = as_us(answered) / 1_000;
                log.answers.push(AnsweredArrival { answered_ms, caller, is_admitted: decision.allowed });
            };
            answers.spawn_on(answer, &runtime);
            while answers.try_join_next().is_some() {}
            bar.inc(1);
        }
        answers
    };
    let answers = tokio::task::spawn_blocking(send).await.map_err(std::io::Error::other)?;
    answers.join_all().await;
    let log = Arc::into_inner(log).expect("all calls are answered").into_inner();
    Ok(log)
}

fn start(
    redis: &RedisSettings,
    kafka: KafkaSettings,
    plan: AccuracyPlan,
    clock: &Arc<dyn Clock>,
) -> Result<LiveFleet, ExperimentError> {
    let bus = connect_kafka(&kafka)?;
    // The fleet has no topics for analytics, and nobody asks.
    let settings =
        WorkerSettings { epoch: clock.now(), shares: true, analytics: None, ..WorkerSettings::new("aggregator") };
    settings.replay_window.cover(&rules(plan.has_tenant));
    let aggregator = Aggregator::start(&bus, settings, None, clock.clone())?;
    let mut fleet = LiveFleet { agents: Vec::new(), aggregator, kafka: (bus, kafka) };
    for number in 0..plan.agents.get() {
        let builder =
            Agent::builder().node(format!("agent-{number}")).clock(clock.clone()).rules(rules(plan.has_tenant));
        let builder = builder.redis(redis.clone()).bus(connect_kafka(&fleet.kafka.1)?).agents_expected(plan.agents);
        fleet.agents.push(builder.start()?);
    }
    Ok(fleet)
}

async fn wait_until_ready(agents: &[Agent]) -> Result<(), ExperimentError> {
    let waited = Stopwatch::start();
    let is_ready = |agent: &Agent| agent.engine().has_reached_store() && agent.engine().has_read_signals();
    while !agents.iter().all(is_ready) {
        if waited.elapsed() >= READY_WAIT {
            return Err(ExperimentError::Silence);
        }
        tokio::time::sleep(POLL_INTERVAL).await;
    }
    Ok(())
}
