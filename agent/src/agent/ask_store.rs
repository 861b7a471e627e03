//! Requests to the store: the wait for the answer until the deadline, and the answers that come later.
//!
//! A request that misses its deadline stays in flight in a task of its own, which ends with the late answer, with the
//! loss of the connection, or after [`LATE_ANSWER_WAIT_MAX`]. So does a request whose caller has left: nobody has its
//! decision, and what the store charges is refunded.

use std::pin::Pin;
use std::time::Duration;

use tokio::time::timeout;
use tollgate_engine::{LATE_ANSWER_WAIT_MAX, Output, StepAnswers, StoreRequest};

use super::late_requests::LatePermit;
use super::shared::Shared;
use crate::runtime::{StepsEvent, StepsInFlight, answer_in_time, inside};
use crate::store::{ChargeResults, ChargeStore, StoreError};

/// Maximum number of redirections of a request for each of its steps: nodes of a cluster that disagree send it to one another.
const REDIRECTIONS_MAX: usize = 5;

/// A request whose caller waits for the answer. It goes on without the caller when this is dropped.
struct AwaitedRequest<'a, S: ChargeStore> {
    shared: &'a Shared<S>,
    /// None once the wait is over.
    in_flight: Option<(StoreRequest, StepsInFlight<S>)>,
}

impl<S: ChargeStore> Shared<S> {
    /// Sends a request to the store and finishes its operation by the deadline. A late answer goes to the engine. Also returns the
    /// reason for which the store did not answer, if it did not.
    pub(super) async fn ask_store(&self, mut request: StoreRequest) -> (Output, Option<StoreError>) {
        let Some(store) = &self.store else {
            let error = StoreError::Unreachable;
            return (self.engine.finish(self.clock.now(), &mut request, Err(error)), Some(error));
        };
        if let Some(answer) = try_charge(&**store, &request) {
            let error = answer.as_ref().err().copied();
            return (self.engine.finish(self.clock.now(), &mut request, answer), error);
        }
        #[cfg(feature = "metrics")]
        let took = tollgate_core::clock::Stopwatch::start();
        let deadline = request.deadline();
        let steps = StepsInFlight::send(store.clone(), &request);
        let mut awaited = AwaitedRequest { shared: self, in_flight: Some((request, steps)) };
        awaited.wait(deadline).await;
        let (mut request, steps) = awaited.in_flight.take().expect("only this or a drop takes it");
        #[cfg(feature = "metrics")]
        self.metrics.store.observe(took.elapsed().as_secs_f64());
        let error = first_error(steps.answers());
        let output = self.engine.finish_steps(self.clock.now(), &mut request, steps.answers());
        if steps.answers().iter().any(Option::is_none) {
            self.await_late_answer(request, steps);
        }
        (output, error)
    }

    /// Sends to the store a request of a call that is decided. Its answer goes to the engine.
    pub(super) fn charge_afterwards(&self, request: StoreRequest) {
        let Some(store) = &self.store else {
            return self.engine.late_answer(self.clock.now(), request, Err(StoreError::Unreachable));
        };
        match self.late_requests.take_permit() {
            Some(permit) => self.follow(StepsInFlight::send(store.clone(), &request), request, permit),
            None => self.engine.late_answer(self.clock.now(), request, Err(StoreError::Busy)),
        }
    }

    fn await_late_answer(&self, request: StoreRequest, steps: StepsInFlight<S>) {
        match self.late_requests.take_permit() {
            Some(permit) => self.follow(steps, request, permit),
            None => self.engine.late_steps(self.clock.now(), request, steps.answers()),
        }
    }

    /// Takes the answers to a request, whenever they come.
    fn follow(&self, mut steps: StepsInFlight<S>, request: StoreRequest, permit: LatePermit) {
        let (engine, clock) = (self.engine.clone(), self.clock.clone());
        self.runtime.spawn(async move {
            let _ = timeout(LATE_ANSWER_WAIT_MAX, async {
                // Nobody waits for the call any more, and nothing was charged.
                while let StepsEvent::Redirected(place, error) = (&mut steps).await {
                    steps.answer(place, error);
                }
            })
            .await;
            engine.late_steps(clock.now(), request, steps.answers());
            drop(permit);
        });
    }
}

impl<S: ChargeStore> AwaitedRequest<'_, S> {
    /// Waits for the answers until the deadline. A step that another primary must answer is sent there, and a request whose answer
    /// calls for it is sent once more.
    async fn wait(&mut self, deadline: Duration) {
        let (sent_at, mut left, mut redirections) = (self.shared.clock.now(), deadline, 0);
        while let Some(event) = self.next_event(left).await {
            let Some((request, steps)) = self.in_flight.as_mut() else { return };
            let now = self.shared.clock.now();
            left = deadline.saturating_sub(Duration::from_millis(now.ms_since(sent_at)));
            match event {
                StepsEvent::Answered => {
                    if self.shared.engine.renew(now, request, steps.answers()).is_none() {
                        return;
                    }
                    steps.send_all_again(request);
                }
                StepsEvent::Redirected(place, error) => {
                    let step = request.steps().swap_remove(place);
                    redirections += 1;
                    let may_follow = redirections <= REDIRECTIONS_MAX * steps.answers().len();
                    if may_follow && self.shared.engine.redirect(now, request, &step, error).is_some() {
                        steps.send_again(place, request.steps().swap_remove(place));
                    } else {
                        steps.answer(place, error);
                    }
                }
            }
        }
    }

    /// Returns the next event before the deadline. The timer is one of the agent's runtime, wherever the caller runs.
    async fn next_event(&mut self, deadline: Duration) -> Option<StepsEvent> {
        let (_, steps) = self.in_flight.as_mut()?;
        inside(&self.shared.runtime, answer_in_time(deadline, Pin::new(steps))).await
    }
}

impl<S: ChargeStore> Drop for AwaitedRequest<'_, S> {
    fn drop(&mut self) {
        if let Some((mut request, steps)) = self.in_flight.take() {
            request.leave();
            self.shared.await_late_answer(request, steps);
        }
    }
}

fn first_error(answers: &StepAnswers) -> Option<StoreError> {
    answers.iter().find_map(|answer| match answer {
        None => Some(StoreError::TimedOut),
        Some(answer) => answer.as_ref().err().copied(),
    })
}

/// Charges at once, if the store needs no waiting.
pub(super) fn try_charge<S: ChargeStore>(
    store: &S,
    request: &StoreRequest,
) -> Option<Result<ChargeResults, StoreError>> {
    let (carried, own) = request.charges_of_one_step()?;
    let mut results = ChargeResults::new();
    for step in [carried, own] {
        if step.is_empty() {
            continue;
        }
        match store.try_charge(step)? {
            Ok(of_step) => results.extend(of_step),
            Err(error) => return Some(Err(error)),
        }
    }
    Some(Ok(results))
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;
    use std::sync::Arc;
    use std::sync::atomic::Ordering;
    use std::task::Poll;

    use futures_util::future::join_all;
    use tokio::task::yield_now;
    use tollgate_core::call::Call;
    use tollgate_core::clock::{SystemClock, Timestamp};
    use tollgate_core::counter::Charge;
    use tollgate_core::decision::Source;
    use tollgate_core::rules::{OnFailure, Rule};
    use tollgate_engine::LATE_REQUESTS_MAX;

    use super::*;
    use crate::Agent;
    use crate::runtime::TURNS_AFTER_DEADLINE;
    use crate::store::MemoryStore;

    /// Store that charges at once, and whose answer is there when its request is polled for this number of times.
    /// Nothing wakes the request.
    struct PolledStore(MemoryStore, usize);

    impl ChargeStore for PolledStore {
        async fn charge(&self, charges: &[Charge]) -> Result<ChargeResults, StoreError> {
            let answer = self.0.try_charge(charges).expect("memory needs no waiting");
            let mut polls = 0;
            poll_fn(|_| {
                polls += 1;
                if polls >= self.1 { Poll::Ready(()) } else { Poll::Pending }
            })
            .await;
            answer
        }

        fn ping(&self) -> impl Future<Output = Result<Timestamp, StoreError>> + Send {
            self.0.ping()
        }
    }

    /// Agent that admits a call whose answer is late.
    fn agent(polls: usize) -> Agent<PolledStore> {
        let store = PolledStore(MemoryStore::new(Arc::new(SystemClock::start())), polls);
        let rule = Rule::per("per-key", &["api_key"], "100/min".parse().expect("a quota"));
        let rule = rule.with(|policy| policy.on_failure = OnFailure::Open);
        Agent::builder().rule(rule).store(Arc::new(store)).start_with_store().expect("the agent starts")
    }

    fn late(agent: &Agent<PolledStore>, outcome: &str) -> u64 {
        agent.engine().metrics().late_answers().find(|(name, _)| *name == outcome).expect("an outcome").1
    }

    /// An answer that has arrived is used even if the timer fired first: when the timer fires, and in the turns of the
    /// runtime after it. After them, it is a late answer.
    #[tokio::test(start_paused = true)]
    async fn an_answer_that_has_arrived_counts_although_the_timer_fired() {
        // One poll when the request is sent, one when the timer fires.
        let in_time = 2 + TURNS_AFTER_DEADLINE;
        for polls in 1..=in_time + 1 {
            let agent = agent(polls);
            let decision = agent.decide(&Call::new().with("api_key", "k")).await;
            let (source, charged) = if polls <= in_time { (Source::Store, 0) } else { (Source::Fallback, 1) };
            assert!(decision.allowed && decision.source == source, "polled {polls} times: {decision:?}");
            yield_now().await;
            assert_eq!(late(&agent, "charged"), charged, "polled {polls} times");
            assert_eq!(agent.engine().metrics().unsynced_units.get(), 0, "the store has charged it");
        }
    }

    /// A check that is tried in vain leaves nothing: neither the denial of a rule in shadow nor a unit in the sketch is
    /// counted twice.
    #[tokio::test(start_paused = true)]
    async fn a_check_that_is_tried_first_is_counted_once() {
        let store = PolledStore(MemoryStore::new(Arc::new(SystemClock::start())), 2);
        let per = |name, descriptor| Rule::per(name, &[descriptor], "100/min".parse().expect("a quota"));
        let closed = Rule::denying("closed", Vec::new()).in_shadow();
        let rules = [closed, per("per-key", "api_key"), per("per-user", "user")];
        let agent = rules.into_iter().fold(Agent::builder(), crate::Builder::rule).counters_max(1);
        let agent = agent.store(Arc::new(store)).start_with_store().expect("the agent starts");
        let call = Call::new().with("api_key", "k").with("user", "u");
        assert!(agent.try_check(&call).is_none(), "the store must be asked");
        let counted = || {
            let rules = agent.engine().metrics().rules();
            let of = |count: fn(&tollgate_engine::RuleCounts) -> u64| {
                rules.iter().map(|(_, counts)| count(counts)).sum::<u64>()
            };
            (of(|counts| counts.shadow_denials.get()), of(|counts| counts.sketch_charges.get()))
        };
        assert_eq!(counted(), (0, 0));
        assert!(agent.check(&call).await.is_ok());
        assert_eq!(counted(), (1, 1));
    }

    /// capped, I12: past the cap on late requests, a request counts as lost, and what was admitted is to be backfilled. The
    /// others count as lost after the greatest time for which an answer is awaited, and give back their permits.
    #[tokio::test(start_paused = true)]
    async fn past_the_caps_of_late_answers_a_request_counts_as_lost() {
        let agent = agent(usize::MAX);
        let past_the_cap = 3;
        let calls: Vec<_> =
            (0..LATE_REQUESTS_MAX + past_the_cap).map(|call| Call::new().with("api_key", call.to_string())).collect();
        let decisions = join_all(calls.iter().map(|call| agent.decide(call))).await;
        assert!(decisions.iter().all(|decision| decision.allowed && decision.source == Source::Fallback));
        let waiting = || agent.shared.late_requests.0.load(Ordering::Relaxed);
        let unsynced = || agent.engine().metrics().unsynced_units.get();
        assert_eq!((waiting(), late(&agent, "lost"), unsynced()), (LATE_REQUESTS_MAX, 3, 3));
        tokio::time::sleep(2 * LATE_ANSWER_WAIT_MAX).await;
        let all = calls.len() as u64;
        assert_eq!((waiting(), late(&agent, "lost"), unsynced()), (0, all, all));
    }
}
