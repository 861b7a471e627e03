//! The way of an operation: begun at the engine, asked of the store if need be, finished at the engine.
//!
//! Requests of the maintenance go the same way. Each request has a deadline; an answer that arrives later is late.

use tollgate::Call;
use tollgate::store::StoreError;
use tollgate_core::clock::Timestamp;
use tollgate_core::counter::{Charge, ChargeResults};
use tollgate_core::rules::Generation;
use tollgate_engine::{Amend, BackfillRequest, MaintenanceInput, Progress, StoreRequest};

use super::{MAINTENANCE_DEADLINE_MS, SimAgent};
use crate::sim::environment::Environment;
use crate::sim::event::{Event, StoreAnswer, StoreCommand};
use crate::sim::observation::{AmendedCall, AnsweredCall, Observation, Ticket};

/// A change to a call after its decision.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Amendment {
    /// The call cost this many units more than it was charged, or fewer; and the instant of its decision, if it is told.
    Settle(i64, Option<Timestamp>),
    /// The call, which was decided at this instant, has ended.
    Release(Timestamp),
}

/// A request that waits for the store.
pub(super) enum PendingRequest<'c> {
    Ping,
    Backfill(BackfillRequest),
    Check { call: Call<'c>, generation: Generation, arrived: Timestamp, request: StoreRequest },
    Amend { amended: AmendedCall<'c>, request: tollgate_engine::Amendment },
}

impl<'c> SimAgent<'c> {
    /// A call arrives.
    pub(in crate::sim) fn check(&mut self, env: &mut Environment<'c>, call: Call<'c>) {
        self.maintain_without_rounds(env);
        let (own_now, arrived) = (self.time(env.now()), env.now());
        let Some(running) = &self.running else { return };
        let generation = running.engine.with_rules(|rules| rules.generation);
        match running.engine.begin(own_now, &call) {
            Progress::Done(decision) => env.observe(Observation::Answered(AnsweredCall {
                agent: self.index,
                call,
                generation,
                arrived,
                answered: arrived,
                ticket: None,
                error: None,
                decision,
            })),
            Progress::NeedsStore(request) => {
                let command = StoreCommand::Charge(request.takes().to_vec());
                self.request(env, command, PendingRequest::Check { call, generation, arrived, request });
            }
        }
    }

    /// A call is settled or released.
    pub(in crate::sim) fn amend(&mut self, env: &mut Environment<'c>, call: Call<'c>, amendment: Amendment) {
        let own_now = self.time(env.now());
        let Some(running) = &self.running else { return };
        let generation = running.engine.with_rules(|rules| rules.generation);
        let (amend, units, decided) = match amendment {
            Amendment::Settle(units, decided) => (Amend::Settle(units, decided), Some(units), decided),
            Amendment::Release(decided) => (Amend::Release(decided), None, Some(decided)),
        };
        let request = running.engine.amend(own_now, &call, amend);
        let charges = request.takes().to_vec();
        let agent = self.index;
        let amended = AmendedCall { agent, call, generation, units, decided, charges: charges.clone(), error: None };
        if charges.is_empty() {
            env.observe(Observation::Amended(amended));
        } else {
            self.request(env, StoreCommand::Charge(charges), PendingRequest::Amend { amended, request });
        }
    }

    /// Sends a request to the store, and sets its deadline.
    pub(super) fn request(&mut self, env: &mut Environment<'c>, command: StoreCommand, pending: PendingRequest<'c>) {
        if self.owns_table {
            let Some(running) = &self.running else { return };
            let own_now = self.time(env.now());
            match command {
                StoreCommand::Ping => self.maintain(env, MaintenanceInput::Pinged(Ok(own_now))),
                StoreCommand::Charge(charges) => {
                    let answer = running.own.charge(own_now, &charges);
                    self.finish(env, 0, pending, answer);
                }
            }
            return;
        }
        let deadline_ms = match &pending {
            PendingRequest::Check { request, .. } => u64::try_from(request.deadline().as_millis()).unwrap_or(u64::MAX),
            _ => MAINTENANCE_DEADLINE_MS,
        };
        let ticket = env.request(self.index, self.life, command);
        if let Some(running) = &mut self.running {
            running.pending.insert(ticket, pending);
        }
        env.scheduler.after(deadline_ms, Event::Deadline { agent: self.index, life: self.life, ticket });
    }

    /// The answer of the store arrives.
    pub(in crate::sim) fn store_replies(&mut self, env: &mut Environment<'c>, ticket: Ticket, answer: StoreAnswer) {
        let pending = self.running.as_mut().and_then(|running| running.pending.remove(&ticket));
        match (pending, answer) {
            (Some(PendingRequest::Ping), StoreAnswer::Time(answer)) => {
                self.maintain(env, MaintenanceInput::Pinged(answer));
            }
            (Some(pending), StoreAnswer::Charged(answer)) => self.finish(env, ticket, pending, answer),
            _ => {}
        }
    }

    /// The deadline of a request is over.
    pub(in crate::sim) fn deadline(&mut self, env: &mut Environment<'c>, ticket: Ticket) {
        let pending = self.running.as_mut().and_then(|running| running.pending.remove(&ticket));
        match pending {
            Some(PendingRequest::Ping) => self.maintain(env, MaintenanceInput::Pinged(Err(StoreError::TimedOut))),
            Some(pending) => self.finish(env, ticket, pending, Err(StoreError::TimedOut)),
            None => {}
        }
    }

    fn finish(
        &mut self,
        env: &mut Environment<'c>,
        ticket: Ticket,
        pending: PendingRequest<'c>,
        answer: Result<ChargeResults, StoreError>,
    ) {
        let own_now = self.time(env.now());
        let (agent, error) = (self.index, answer.as_ref().err().copied());
        let finished = |charges: &[Charge]| Observation::Finished { agent, ticket, charges: charges.to_vec(), error };
        let Some(running) = &self.running else { return };
        match pending {
            PendingRequest::Ping => {}
            PendingRequest::Backfill(request) => {
                env.observe(finished(request.takes()));
                self.maintain(env, MaintenanceInput::Backfilled(request, answer));
            }
            PendingRequest::Check { call, generation, arrived, request } => {
                env.observe(finished(request.takes()));
                let decision = running.engine.finish(own_now, &call, request, answer);
                let (answered, ticket) = (env.now(), Some(ticket));
                let answered = AnsweredCall { agent, call, generation, arrived, answered, ticket, error, decision };
                env.observe(Observation::Answered(answered));
            }
            PendingRequest::Amend { amended, request } => {
                env.observe(finished(request.takes()));
                // An error is the caller's to know; the observation tells it.
                let _ = running.engine.amended(own_now, &amended.call, &request, answer, None);
                env.observe(Observation::Amended(AmendedCall { error, ..amended }));
            }
        }
    }
}
