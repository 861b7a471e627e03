//! The way of an operation: begun at the engine, asked of the store if need be, finished at the engine.
//!
//! Requests of the maintenance go the same way. Each request has a deadline; an answer that arrives later is dropped, because
//! the request was finished without it.

use tollgate::Call;
use tollgate::store::StoreError;
use tollgate_core::clock::Timestamp;
use tollgate_core::counter::ChargeResults;
use tollgate_core::rules::{Generation, MatchScope};
use tollgate_engine::{MaintenanceInput, MaintenanceRequest, Operation, Output, Progress, StoreRequest};

use super::{MAINTENANCE_DEADLINE_MS, SimAgent};
use crate::sim::environment::Environment;
use crate::sim::event::{SimEvent, StoreAnswer, StoreCommand};
use crate::sim::observation::{AnsweredCall, CorrectedCall, Observation, Ticket};

/// A change to a call after its decision.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Correction {
    /// The call cost this many units more than it was charged, or fewer; and the instant of its decision, if it is told.
    Settle(i64, Option<Timestamp>),
    /// The call, which was decided at this instant, has ended.
    Release(Timestamp),
}

/// Calls that were asked together, or one alone.
pub(super) struct AskedCalls<'c> {
    calls: Vec<Call<'c>>,
    generation: Generation,
    arrived: Timestamp,
}

/// A request that waits for the store.
pub(super) enum SimRequest<'c> {
    Ping,
    Announce,
    Backfill(StoreRequest),
    Check(AskedCalls<'c>, StoreRequest),
    Correct(Box<CorrectedCall<'c>>, StoreRequest),
}

impl<'c> SimAgent<'c> {
    /// A call arrives, or several that are charged all or none.
    pub(in crate::sim) fn check(&mut self, env: &mut Environment<'c>, calls: Vec<Call<'c>>) {
        self.maintain_without_sleep(env);
        let own_now = self.time(env.now());
        let Some(running) = &self.running else { return };
        let generation = running.engine.with_rules(|rules| rules.generation);
        let operation = match &calls[..] {
            [call] => Operation::Check(call),
            calls => Operation::CheckAll { calls, scope: MatchScope::default() },
        };
        let progress = running.engine.begin(own_now, operation);
        let asked = AskedCalls { calls, generation, arrived: env.now() };
        match progress {
            Progress::Done(output) => self.answered(env, asked, None, None, output),
            Progress::NeedsStore(request) => self.request(env, SimRequest::Check(asked, request)),
        }
        self.follow_wakers(env);
    }

    /// A call is settled or released.
    pub(in crate::sim) fn correct(&mut self, env: &mut Environment<'c>, call: Call<'c>, correction: Correction) {
        let own_now = self.time(env.now());
        let Some(running) = &self.running else { return };
        let generation = running.engine.with_rules(|rules| rules.generation);
        let (operation, units, decided) = match correction {
            Correction::Settle(units, decided) => {
                (Operation::Settle { call: &call, units, decided }, Some(units), decided)
            }
            Correction::Release(decided) => (Operation::Release { call: &call, decided }, None, Some(decided)),
        };
        let progress = running.engine.begin(own_now, operation);
        let (agent, charges, error) = (self.index, Vec::new(), None);
        let corrected = CorrectedCall { agent, call, generation, units, decided, charges, error };
        match progress {
            Progress::Done(_) => env.observe(Observation::Corrected(corrected)),
            Progress::NeedsStore(request) => {
                let charges = request.charges().to_vec();
                self.request(env, SimRequest::Correct(Box::new(CorrectedCall { charges, ..corrected }), request));
            }
        }
        self.follow_wakers(env);
    }

    /// Sends a request of the maintenance to the store, in which no rules are published.
    pub(super) fn request_for_maintenance(&mut self, env: &mut Environment<'c>, request: MaintenanceRequest) {
        if matches!(request, MaintenanceRequest::Ping | MaintenanceRequest::Backfill(_)) {
            env.observe(Observation::ProbeSent { agent: self.index });
        }
        match request {
            MaintenanceRequest::Ping => self.request(env, SimRequest::Ping),
            MaintenanceRequest::Backfill(request) => self.request(env, SimRequest::Backfill(request)),
            MaintenanceRequest::Announce => self.request(env, SimRequest::Announce),
            MaintenanceRequest::ReadRules => {}
        }
    }

    /// Sends a request to the store, and sets its deadline.
    fn request(&mut self, env: &mut Environment<'c>, pending: SimRequest<'c>) {
        let Some(running) = &mut self.running else { return };
        let (command, deadline_ms) = match &pending {
            SimRequest::Ping => (StoreCommand::Ping, MAINTENANCE_DEADLINE_MS),
            SimRequest::Announce => (StoreCommand::Announce, MAINTENANCE_DEADLINE_MS),
            SimRequest::Backfill(request) | SimRequest::Check(_, request) | SimRequest::Correct(_, request) => {
                let deadline_ms = u64::try_from(request.deadline().as_millis()).unwrap_or(u64::MAX);
                (StoreCommand::Charge(request.charges().to_vec()), deadline_ms)
            }
        };
        let ticket = env.request(self.index, self.life, command);
        running.pending.insert(ticket, pending);
        env.scheduler.after(deadline_ms, SimEvent::Deadline { agent: self.index, life: self.life, ticket });
    }

    /// The answer of the store arrives.
    pub(in crate::sim) fn store_replies(&mut self, env: &mut Environment<'c>, ticket: Ticket, answer: StoreAnswer) {
        let pending = self.running.as_mut().and_then(|running| running.pending.remove(&ticket));
        match (pending, answer) {
            (Some(SimRequest::Ping), StoreAnswer::Time(answer)) => self.pinged(env, answer),
            (Some(SimRequest::Announce), StoreAnswer::Agents(answer)) => {
                self.maintain(env, MaintenanceInput::Announced(answer));
            }
            (Some(pending), StoreAnswer::Charged(answer)) => self.finish(env, ticket, pending, answer),
            _ => {}
        }
        self.follow_wakers(env);
    }

    /// The deadline of a request is over.
    pub(in crate::sim) fn deadline(&mut self, env: &mut Environment<'c>, ticket: Ticket) {
        let pending = self.running.as_mut().and_then(|running| running.pending.remove(&ticket));
        match pending {
            Some(SimRequest::Ping) => self.pinged(env, Err(StoreError::TimedOut)),
            Some(SimRequest::Announce) => self.maintain(env, MaintenanceInput::Announced(Err(StoreError::TimedOut))),
            Some(pending) => self.finish(env, ticket, pending, Err(StoreError::TimedOut)),
            None => {}
        }
        self.follow_wakers(env);
    }

    fn pinged(&mut self, env: &mut Environment<'c>, answer: Result<Timestamp, StoreError>) {
        env.observe(Observation::Probed { agent: self.index, is_answered: answer.is_ok() });
        self.maintain(env, MaintenanceInput::Pinged(answer));
    }

    fn finish(
        &mut self,
        env: &mut Environment<'c>,
        ticket: Ticket,
        pending: SimRequest<'c>,
        answer: Result<ChargeResults, StoreError>,
    ) {
        let own_now = self.time(env.now());
        let (agent, error) = (self.index, answer.as_ref().err().copied());
        let finished = |request: &StoreRequest| {
            let charges = request.charges().to_vec();
            Observation::Finished { agent, ticket, charges, error }
        };
        let Some(running) = &self.running else { return };
        match pending {
            SimRequest::Ping | SimRequest::Announce => {}
            SimRequest::Backfill(request) => {
                env.observe(finished(&request));
                env.observe(Observation::Probed { agent, is_answered: error.is_none_or(StoreError::is_of_counter) });
                self.maintain(env, MaintenanceInput::Backfilled(request, answer));
            }
            SimRequest::Check(asked, request) => {
                env.observe(finished(&request));
                let output = running.engine.finish(own_now, request, answer);
                self.answered(env, asked, Some(ticket), error, output);
            }
            SimRequest::Correct(corrected, request) => {
                env.observe(finished(&request));
                // An error is the caller's to know; the observation tells it.
                let _ = running.engine.finish(own_now, request, answer);
                env.observe(Observation::Corrected(CorrectedCall { error, ..*corrected }));
            }
        }
    }

    fn answered(
        &self,
        env: &mut Environment<'c>,
        asked: AskedCalls<'c>,
        ticket: Option<Ticket>,
        error: Option<StoreError>,
        output: Output,
    ) {
        let (agent, answered) = (self.index, env.now());
        let AskedCalls { calls, generation, arrived } = asked;
        let decisions = match output {
            Output::Decision(decision) => vec![decision],
            Output::Decisions(decisions) => decisions,
            Output::Adjusted(_) | Output::Backfilled(_) => Vec::new(),
        };
        let (is_joint, is_held_back) = (calls.len() > 1, decisions.iter().any(|decision| !decision.allowed));
        for (call, decision) in calls.into_iter().zip(decisions) {
            env.observe(Observation::Answered(AnsweredCall {
                agent,
                call,
                generation,
                arrived,
                answered,
                ticket,
                error,
                is_joint,
                is_admitted: !is_held_back,
                decision,
            }));
        }
    }
}
