//! Steps of a request in flight: each is sent once the step before it is answered, and all others at once. Their answers are kept,
//! so that those that have come by a deadline can be told from those that have not.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use smallvec::SmallVec;
use tollgate_core::counter::{ChargeResults, StoreError};
use tollgate_engine::{RequestStep, StepAnswers, StoreRequest};

use crate::store::ChargeStore;

type Answer = Result<ChargeResults, StoreError>;

/// Steps of a request in flight. It owns all that it needs, so it may outlive its caller. As a future, it ends when all steps are
/// answered, and with the place of each step that another primary must answer.
pub(crate) struct StepsInFlight<S> {
    store: Arc<S>,
    steps: SmallVec<[StepInFlight; 2]>,
    answers: StepAnswers,
}

/// Reason for which steps in flight want attention.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StepsEvent {
    Answered,
    /// Another primary holds the counters of the step at this place. Nothing was charged, and no answer is kept.
    Redirected(usize, StoreError),
}

enum StepInFlight {
    /// It is sent once the step at this place is answered.
    Waiting(Box<RequestStep>, usize),
    Sent(Pin<Box<dyn Future<Output = Answer> + Send>>),
    Answered,
}

impl<S: ChargeStore> StepsInFlight<S> {
    /// Sends a request.
    pub(crate) fn send(store: Arc<S>, request: &StoreRequest) -> Self {
        let mut in_flight = Self { store, steps: SmallVec::new(), answers: StepAnswers::new() };
        for step in request.steps() {
            let state = match step.after {
                Some(before) => StepInFlight::Waiting(Box::new(step), before),
                None => in_flight.sent(step),
            };
            in_flight.steps.push(state);
            in_flight.answers.push(None);
        }
        in_flight
    }

    /// Sends a step once more.
    pub(crate) fn send_again(&mut self, place: usize, step: RequestStep) {
        self.steps[place] = self.sent(step);
    }

    /// Sends a request once more, whose answers do not stand.
    pub(crate) fn send_all_again(&mut self, request: &StoreRequest) {
        *self = Self::send(self.store.clone(), request);
    }

    /// Gives a step that another primary should answer this answer.
    pub(crate) fn answer(&mut self, place: usize, error: StoreError) {
        self.answers[place] = Some(Err(error));
    }

    /// Returns the answers that have come.
    pub(crate) fn answers(&self) -> &StepAnswers {
        &self.answers
    }

    fn sent(&self, step: RequestStep) -> StepInFlight {
        let store = self.store.clone();
        let charge = async move { store.charge_at(step.primary, step.is_passing, &step.charges).await };
        StepInFlight::Sent(Box::pin(charge))
    }
}

impl<S: ChargeStore> Future for StepsInFlight<S> {
    type Output = StepsEvent;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<StepsEvent> {
        for place in 0..self.steps.len() {
            if let StepInFlight::Waiting(_, before) = &self.steps[place] {
                match &self.answers[*before] {
                    None => continue,
                    Some(Err(error)) => {
                        let error = *error;
                        self.answer(place, error);
                        self.steps[place] = StepInFlight::Answered;
                    }
                    Some(Ok(_)) => {
                        let waiting = std::mem::replace(&mut self.steps[place], StepInFlight::Answered);
                        if let StepInFlight::Waiting(step, _) = waiting {
                            self.steps[place] = self.sent(*step);
                        }
                    }
                }
            }
            if let StepInFlight::Sent(charge) = &mut self.steps[place]
                && let Poll::Ready(answer) = charge.as_mut().poll(context)
            {
                self.steps[place] = StepInFlight::Answered;
                match answer {
                    Err(error) if error.is_redirection() => return Poll::Ready(StepsEvent::Redirected(place, error)),
                    answer => self.answers[place] = Some(answer),
                }
            }
        }
        let are_answered = self.answers.iter().all(Option::is_some);
        if are_answered { Poll::Ready(StepsEvent::Answered) } else { Poll::Pending }
    }
}
