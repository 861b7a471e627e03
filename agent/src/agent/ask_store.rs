//! Requests to the store: the wait for the answer until the deadline, and the answers that come later.
//!
//! A request that misses its deadline stays in flight in a task of its own, which ends with the late answer, with the loss of
//! the connection, or after [`LATE_ANSWER_WAIT_MAX`]. Past [`LATE_REQUESTS_MAX`], no further request is kept.

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::Poll;
use std::time::Duration;

use smallvec::SmallVec;
use tokio::task::yield_now;
use tokio::time::timeout;
use tollgate_core::counter::Charge;
use tollgate_engine::{LATE_ANSWER_WAIT_MAX, LATE_REQUESTS_MAX, Output, StoreRequest};

use super::Shared;
use crate::store::{ChargeResults, ChargeStore, StoreError};

/// Number of turns of the runtime after which an answer that arrived before the timer fired has reached its request: one reads
/// the socket, one hands the answer on.
const TURNS_AFTER_DEADLINE: usize = 3;

/// Number of requests that wait for late answers.
#[derive(Debug, Default)]
pub(super) struct LateRequests(AtomicUsize);

/// A request in flight. It owns all that it needs, so it may outlive its caller.
type ChargeInFlight = Pin<Box<dyn Future<Output = Result<ChargeResults, StoreError>> + Send>>;

/// Place of one request among those that wait for late answers. It is free when this is dropped.
struct LatePlace(Arc<LateRequests>);

impl LateRequests {
    fn take_place(self: &Arc<Self>) -> Option<LatePlace> {
        let more = |requests: usize| (requests < LATE_REQUESTS_MAX).then_some(requests + 1);
        let taken = self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more);
        taken.is_ok().then(|| LatePlace(self.clone()))
    }
}

impl Drop for LatePlace {
    fn drop(&mut self) {
        self.0.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl<S: ChargeStore> Shared<S> {
    /// Sends a request to the store and finishes its operation by the deadline. A late answer goes to the engine.
    pub(super) async fn ask_store(&self, mut request: StoreRequest) -> Output {
        let Some(store) = &self.store else {
            return self.engine.finish(self.clock.now(), &mut request, Err(StoreError::Unreachable));
        };
        if let Some(answer) = try_charge(&**store, &request) {
            return self.engine.finish(self.clock.now(), &mut request, answer);
        }
        #[cfg(feature = "metrics")]
        let took = tollgate_core::clock::Stopwatch::start();
        let mut charging = charge(store.clone(), &request);
        let answer = match timeout(timer(request.deadline()), charging.as_mut()).await {
            Ok(answer) => Some(answer),
            Err(_) => arrived(&mut charging).await,
        };
        #[cfg(feature = "metrics")]
        self.metrics.store.observe(took.elapsed().as_secs_f64());
        let is_late = answer.is_none();
        let output = self.engine.finish(self.clock.now(), &mut request, answer.unwrap_or(Err(StoreError::TimedOut)));
        if is_late {
            self.await_late_answer(request, charging);
        }
        output
    }

    /// Keeps a request in flight after its deadline.
    fn await_late_answer(&self, request: StoreRequest, charging: ChargeInFlight) {
        let (engine, clock) = (self.engine.clone(), self.clock.clone());
        let Some(place) = self.late_requests.take_place() else {
            return engine.late_answer(clock.now(), request, Err(StoreError::AnswerLost));
        };
        self.runtime.spawn(async move {
            let answer = timeout(LATE_ANSWER_WAIT_MAX, charging).await;
            engine.late_answer(clock.now(), request, answer.unwrap_or(Err(StoreError::AnswerLost)));
            drop(place);
        });
    }
}

/// Charges at once, if the store needs no waiting.
pub(super) fn try_charge<S: ChargeStore>(
    store: &S,
    request: &StoreRequest,
) -> Option<Result<ChargeResults, StoreError>> {
    let mut results = ChargeResults::new();
    for step in request.steps() {
        match store.try_charge(step)? {
            Ok(of_step) => results.extend(of_step),
            Err(error) => return Some(Err(error)),
        }
    }
    Some(Ok(results))
}

/// Sends the steps of a request, each after the answer to the one before.
fn charge<S: ChargeStore>(store: Arc<S>, request: &StoreRequest) -> ChargeInFlight {
    let steps: SmallVec<[SmallVec<[Charge; 2]>; 1]> =
        request.steps().map(|step| step.iter().cloned().collect()).collect();
    Box::pin(async move {
        let mut results = ChargeResults::new();
        for step in steps {
            results.extend(store.charge(&step).await?);
        }
        Ok(results)
    })
}

/// Returns the answer of a request whose timer has fired, if it arrived before: on a busy machine the timer may run before the
/// task that reads the socket.
async fn arrived(charging: &mut ChargeInFlight) -> Option<Result<ChargeResults, StoreError>> {
    for _ in 0..TURNS_AFTER_DEADLINE {
        yield_now().await;
        let look = poll_fn(|context| match charging.as_mut().poll(context) {
            Poll::Ready(answer) => Poll::Ready(Some(answer)),
            Poll::Pending => Poll::Ready(None),
        });
        if let Some(answer) = look.await {
            return Some(answer);
        }
    }
    None
}

/// Returns the time of a timer that fires by the deadline: tokio's timers fire up to a millisecond late.
fn timer(deadline: Duration) -> Duration {
    deadline.saturating_sub(Duration::from_millis(1)).max(Duration::from_millis(1))
}
