//! Requests of an agent to the store: tickets, timers, steps that wait for others, and the answers.

use std::time::Duration;

use tollgate::store::StoreError;
use tollgate_core::counter::{Charge, ChargeResults};
use tollgate_engine::{GATHER_MAX, GatheredStep, PipelineNumber, PipelineSteps, StoreRequest, use_stripe};

use super::life::AgentLife;
use super::operations::as_ms;
use super::requests::{ChargePurpose, SimRequest};
use crate::environment::Environment;
use crate::event::{AgentEvent, StoreAnswer, StoreCommand};
use crate::observation::{Observation, Ticket};

impl<'c> AgentLife<'c> {
    pub(super) fn charge(
        &mut self,
        env: &mut Environment<'c>,
        request: StoreRequest,
        purpose: ChargePurpose<'c>,
        deadline: Duration,
    ) {
        let ticket = env.ticket();
        self.later(env, as_ms(deadline), AgentEvent::DeadlinePasses(ticket));
        self.send_charge(env, ticket, request, purpose);
    }

    /// Sends a request, for the first time or once more.
    pub(super) fn send_charge(
        &mut self,
        env: &mut Environment<'c>,
        ticket: Ticket,
        request: StoreRequest,
        purpose: ChargePurpose<'c>,
    ) {
        let mut steps: Vec<Vec<Charge>> = request.steps().map(<[_]>::to_vec).collect();
        let is_gathered = matches!(purpose, ChargePurpose::Check(_)) && steps.len() == 1;
        self.requests.pending.insert(ticket, SimRequest::Charge(request, purpose));
        if !is_gathered {
            return env.request(self.index, self.life, ticket, StoreCommand::Charge(steps));
        }
        match self.requests.gatherer.push(&steps.remove(0), ticket) {
            Ok(pipeline) => self.send_pipeline(env, pipeline),
            Err(error) => self.finish(env, ticket, Err(error)),
        }
    }

    /// Sends a request whose call is decided. Its answer is taken as a late one.
    pub(super) fn charge_afterwards(&mut self, env: &mut Environment<'c>, request: StoreRequest) -> Ticket {
        let mut steps: Vec<Vec<Charge>> = request.steps().map(<[_]>::to_vec).collect();
        let ticket = env.ticket();
        self.requests.late.insert(ticket, request);
        if steps.len() > 1 {
            env.request(self.index, self.life, ticket, StoreCommand::Charge(steps));
            return ticket;
        }
        match self.requests.gatherer.push(&steps.remove(0), ticket) {
            Ok(pipeline) => self.send_pipeline(env, pipeline),
            Err(error) => self.store_replies(env, ticket, Err(error)),
        }
        ticket
    }

    /// Others have waited for the answers to the steps of a pipeline as long as they may.
    pub(super) fn pipeline_overdue(&mut self, env: &mut Environment<'c>, pipeline: PipelineNumber) {
        let next = self.requests.gatherer.overdue(pipeline);
        self.send_pipeline(env, next);
    }

    fn send_pipeline(&mut self, env: &mut Environment<'c>, pipeline: Option<PipelineSteps<Ticket>>) {
        let Some(PipelineSteps { pipeline, steps }) = pipeline else { return };
        for step in steps {
            let ticket = env.ticket();
            env.request(self.index, self.life, ticket, StoreCommand::Step(pipeline, step));
        }
        self.later(env, as_ms(GATHER_MAX), AgentEvent::PipelineOverdue(pipeline));
    }

    /// The answer to a step arrives, which several calls may have waited for.
    pub(super) fn step_replies(
        &mut self,
        env: &mut Environment<'c>,
        pipeline: PipelineNumber,
        step: GatheredStep<Ticket>,
        answer: &Result<ChargeResults, StoreError>,
    ) {
        let next = self.requests.gatherer.answered(pipeline, 1);
        self.send_pipeline(env, next);
        for (ticket, answer) in step.split(answer) {
            let answer = answer.map(|results| StoreAnswer { results, ..StoreAnswer::default() });
            self.store_replies(env, ticket, answer);
        }
    }

    /// Sends a request to the store. At its deadline, it is finished as if the store had not answered.
    pub(super) fn request(
        &mut self,
        env: &mut Environment<'c>,
        command: StoreCommand,
        pending: SimRequest<'c>,
        deadline_ms: u64,
    ) {
        let ticket = env.ticket();
        self.requests.pending.insert(ticket, pending);
        self.later(env, deadline_ms, AgentEvent::DeadlinePasses(ticket));
        env.request(self.index, self.life, ticket, command);
    }

    /// The timer of a request fires. Without an answer, the request is finished as if the store had not answered, and kept.
    pub(super) fn deadline_passes(&mut self, env: &mut Environment<'c>, ticket: Ticket) {
        if self.requests.pending.contains_key(&ticket) {
            self.finish(env, ticket, Err(StoreError::TimedOut));
        }
    }

    /// An answer arrives: in time, or after the deadline of its request.
    pub(super) fn store_replies(
        &mut self,
        env: &mut Environment<'c>,
        ticket: Ticket,
        answer: Result<StoreAnswer, StoreError>,
    ) {
        let Some(request) = self.requests.late.remove(&ticket) else { return self.finish(env, ticket, answer) };
        use_stripe(env.stripe());
        env.observe(Observation::LateAnswer { agent: self.index, ticket, error: answer.as_ref().err().copied() });
        let results = answer.map(|answer| answer.results);
        self.engine.late_answer(self.now(env), request, results);
    }
}
