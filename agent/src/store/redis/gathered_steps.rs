//! Gathered steps: steps of calls are sent in pipelines. Calls that ask for the same on one counter share a charge, and simple
//! steps of a pipeline share scripts.
//!
//! A script of many steps saves the server the start of a script for each. It has at most [`STEPS_OF_SCRIPT_MAX`] steps, so
//! that it does not delay other agents for long.
//!
//! The order and the division of the answers are in [`tollgate_engine::Gatherer`], which the simulation drives, too. Each
//! pipeline runs in a task of its own, because no call may depend on the caller of another one.

use std::sync::Arc;

use futures_util::future::join_all;
use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};
use tokio::time::timeout;
use tollgate_core::algorithm::{Algorithm, Limit};
use tollgate_core::counter::Charge;
use tollgate_engine::{GATHER_MAX, GatheredStep, Gatherer, LATE_ANSWER_WAIT_MAX, PipelineNumber, PipelineSteps};
use tollgate_redis::{HashSlots, Socket};

use super::steps::{StepResult, Steps};
use crate::store::StoreError;

pub(super) const STEPS_OF_SCRIPT_MAX: usize = 16;

/// Maximum quota of a log whose value is short enough for `lua/log_step.lua`.
const SHORT_LOG_UNITS_MAX: u64 = 240;

/// Maximum number of calls that wait for an answer.
const CALLS_LEN_MAX: usize = 10_000;

struct Caller {
    answer: oneshot::Sender<StepResult>,
    /// Permit of the call to wait.
    _permit: OwnedSemaphorePermit,
}

/// Steps of whole calls, which are sent in pipelines.
#[derive(Clone)]
pub(super) struct GatheredSteps {
    pub(super) steps: Steps,
    /// Least number of steps that share a script; none if the keys of a script must have one hash slot.
    pub(super) shared_len_min: Option<usize>,
    permits: Arc<Semaphore>,
    gatherer: Arc<Mutex<Gatherer<Caller>>>,
}

/// A pipeline in progress. The next one begins with its last answer, when it is overdue, and when it is dropped.
struct PipelineInProgress {
    gathered: GatheredSteps,
    socket: Arc<Socket>,
    pipeline: PipelineNumber,
}

impl GatheredSteps {
    pub(super) fn new(steps: Steps, slots: HashSlots) -> Self {
        let shared_len_min = (slots == HashSlots::Together).then_some(2);
        Self { steps, shared_len_min, permits: Arc::new(Semaphore::new(CALLS_LEN_MAX)), gatherer: Arc::default() }
    }

    /// Evaluates and charges these counters in one step. Steps with a charge that does not expire (backfill, refund, re-opening) are
    /// not gathered.
    pub(super) async fn run(&self, charges: &[Charge]) -> StepResult {
        let socket = self.steps.connection.awaited_socket().await?;
        if charges.iter().any(|charge| charge.mode.expires_at().is_none()) {
            return self.steps.run_on(&socket, charges).await;
        }
        let permit = self.permits.clone().try_acquire_owned().map_err(|_| StoreError::Busy)?;
        let (answer, answered) = oneshot::channel();
        let sent = self.gatherer.lock().push(charges, Caller { answer, _permit: permit })?;
        self.send(&socket, sent);
        answered.await.unwrap_or(Err(StoreError::AnswerLost))
    }

    fn send(&self, socket: &Arc<Socket>, sent: Option<PipelineSteps<Caller>>) {
        let Some(PipelineSteps { pipeline, steps }) = sent else { return };
        let pipeline = PipelineInProgress { gathered: self.clone(), socket: socket.clone(), pipeline };
        socket.spawn(pipeline.run(steps));
    }

    fn scripts(&self, steps: Vec<GatheredStep<Caller>>) -> Vec<Vec<GatheredStep<Caller>>> {
        let (mut simple, others): (Vec<_>, Vec<_>) =
            steps.into_iter().partition(|step| self.shared_len_min.is_some() && is_simple(step.charges()));
        let mut scripts: Vec<_> = others.into_iter().map(|step| vec![step]).collect();
        while !simple.is_empty() {
            let rest = simple.split_off(simple.len().min(STEPS_OF_SCRIPT_MAX));
            scripts.push(std::mem::replace(&mut simple, rest));
        }
        scripts
    }

    /// Runs the steps of one script, and answers their callers: each as soon as its step is done.
    async fn exchange(&self, steps: Vec<GatheredStep<Caller>>) {
        let is_shared = self.shared_len_min.is_some_and(|len| steps.len() >= len) && is_simple(steps[0].charges());
        let left = if is_shared { self.exchange_together(steps).await } else { steps };
        join_all(left.into_iter().map(|step| self.exchange_alone(step))).await;
    }

    /// Runs steps in one script. Returns those that need a script of their own.
    async fn exchange_together(&self, steps: Vec<GatheredStep<Caller>>) -> Vec<GatheredStep<Caller>> {
        let charges: Vec<Charge> = steps.iter().flat_map(GatheredStep::coalesced).collect();
        let exchange = async { self.steps.run_each(&self.steps.connection.awaited_socket().await?, &charges).await };
        let answers = match timeout(LATE_ANSWER_WAIT_MAX, exchange).await.unwrap_or(Err(StoreError::AnswerLost)) {
            Ok(results) => results.into_iter().map(|results| results.map(Ok)).collect(),
            // Each is told its own error.
            Err(error) if error.is_of_counter() => vec![None; steps.len()],
            Err(error) => vec![Some(Err(error)); steps.len()],
        };
        let answered = |(step, answer): (GatheredStep<Caller>, Option<StepResult>)| match answer {
            Some(answer) => {
                tell(step, &answer);
                None
            }
            None => Some(step),
        };
        steps.into_iter().zip(answers).filter_map(answered).collect()
    }

    async fn exchange_alone(&self, step: GatheredStep<Caller>) {
        let charges = step.coalesced();
        let exchange = async { self.steps.run_on(&self.steps.connection.awaited_socket().await?, &charges).await };
        let answer = timeout(LATE_ANSWER_WAIT_MAX, exchange).await.unwrap_or(Err(StoreError::AnswerLost));
        tell(step, &answer);
    }
}

fn tell(step: GatheredStep<Caller>, answer: &StepResult) {
    for (caller, answer) in step.split(answer) {
        // A caller that has left is told nothing: its request counts as lost.
        let _ = caller.answer.send(answer);
    }
}

/// Returns true if charges may be a step of a script of many steps.
fn is_simple(charges: &[Charge]) -> bool {
    let is_short = |limit: &Limit| match limit.algorithm {
        Algorithm::SlidingWindow(_) => limit.burst == 0,
        Algorithm::SlidingLog => limit.units <= SHORT_LOG_UNITS_MAX,
        _ => true,
    };
    let is_plain = |charge: &Charge| charge.request.is_none() && charge.budget.is_none();
    matches!(charges, [charge] if is_plain(charge) && charge.mode.is_enforced() && is_short(&charge.limit))
}

impl PipelineInProgress {
    async fn run(self, steps: Vec<GatheredStep<Caller>>) {
        let exchanges = self.gathered.scripts(steps).into_iter().map(|steps| async {
            let len = steps.len();
            self.gathered.exchange(steps).await;
            let next = self.gathered.gatherer.lock().answered(self.pipeline, len);
            self.gathered.send(&self.socket, next);
        });
        let mut exchanges = Box::pin(join_all(exchanges));
        if timeout(GATHER_MAX, &mut exchanges).await.is_err() {
            self.end();
            exchanges.await;
        }
    }

    fn end(&self) {
        let next = self.gathered.gatherer.lock().overdue(self.pipeline);
        self.gathered.send(&self.socket, next);
    }
}

impl Drop for PipelineInProgress {
    fn drop(&mut self) {
        self.end();
    }
}
