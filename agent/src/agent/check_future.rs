//! The future of a check: ready at once, or waiting for the store.
//!
//! Most checks are decided when the future is first polled, and their answer is made where the poll returns it. An
//! `async fn` would move it there, which takes as long as several steps of the decision.

#![expect(clippy::result_large_err, reason = "as for `Agent::try_check_generally`")]

use std::pin::Pin;
use std::slice;
use std::task::{Context, Poll};

use tollgate_core::call::Call;
use tollgate_core::clock::Timestamp;
use tollgate_engine::{FoundRule, Output};

use super::answer::{answer_of, sole_decision};
use super::shared::Agent;
use super::{Admission, Denial};
use crate::store::ChargeStore;

pub(super) struct CheckFuture<'a, 'c, S: ChargeStore> {
    agent: &'a Agent<S>,
    call: &'a Call<'c>,
    waiting: Option<Pin<Box<dyn Future<Output = Output> + Send + 'a>>>,
}

impl<'a, 'c, S: ChargeStore> CheckFuture<'a, 'c, S> {
    pub(super) fn new(agent: &'a Agent<S>, call: &'a Call<'c>) -> Self {
        Self { agent, call, waiting: None }
    }

    #[cold]
    fn poll_generally(
        &mut self,
        now: Timestamp,
        found: Option<FoundRule>,
        context: &mut Context<'_>,
    ) -> Poll<Result<Admission, Denial>> {
        let shared = &self.agent.shared;
        match shared.checked_at_once(shared.engine.begin_found(now, self.call, found.as_ref())) {
            Ok(output) => Poll::Ready(self.answer(output)),
            Err(request) => {
                let waiting =
                    self.waiting.insert(self.agent.shared.ask_store_timed(request, slice::from_ref(self.call)));
                let output = waiting.as_mut().poll(context);
                output.map(|output| self.answer(output))
            }
        }
    }

    fn answer(&self, output: Output) -> Result<Admission, Denial> {
        self.agent.granted(self.call, sole_decision(output))
    }
}

impl<S: ChargeStore> Future for CheckFuture<'_, '_, S> {
    type Output = Result<Admission, Denial>;

    #[inline]
    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let check = self.get_mut();
        if let Some(waiting) = &mut check.waiting {
            let output = waiting.as_mut().poll(context);
            return output.map(|output| check.answer(output));
        }
        let Agent { shared } = check.agent;
        let now = shared.clock.now();
        let answer = |decision| {
            #[cfg(feature = "metrics")]
            shared.metrics.check.at_once();
            Poll::Ready(answer_of(decision))
        };
        shared.engine.decide(now, check.call, answer, |found| check.poll_generally(now, found, context))
    }
}
