//! Requests of an agent to the store: tickets, timers, steps that wait for others, and the answers.

use std::time::Duration;

use tollgate::store::StoreError;
use tollgate_core::counter::{Charge, ChargeResults, PrimaryIndex};
use tollgate_engine::{GATHER_MAX, GatheredStep, PipelineNumber, PipelineSteps, RequestStep, StoreRequest, use_stripe};

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
        if env.primaries.are_several() {
            self.send_parts(env, ticket, &request);
            self.requests.pending.insert(ticket, SimRequest::Charge(request, purpose));
            return;
        }
        let mut steps: Vec<Vec<Charge>> = request.steps().iter().map(|step| step.charges.to_vec()).collect();
        let is_gathered = matches!(purpose, ChargePurpose::Check(_)) && steps.len() == 1;
        self.requests.pending.insert(ticket, SimRequest::Charge(request, purpose));
        if !is_gathered {
            return env.request(self.index, self.life, ticket, PrimaryIndex::ONLY, StoreCommand::Charge(steps));
        }
        match self.requests.gatherer.push(&steps.remove(0), ticket) {
            Ok(pipeline) => self.send_pipeline(env, pipeline),
            Err(error) => self.finish(env, ticket, Err(error)),
        }
    }

    /// Sends a request whose call is decided. Its answer is taken as a late one.
    pub(super) fn charge_afterwards(&mut self, env: &mut Environment<'c>, request: StoreRequest) -> Ticket {
        let ticket = env.ticket();
        if env.primaries.are_several() {
            self.send_parts(env, ticket, &request);
            self.requests.late.insert(ticket, request);
            return ticket;
        }
        let mut steps: Vec<Vec<Charge>> = request.steps().iter().map(|step| step.charges.to_vec()).collect();
        self.requests.late.insert(ticket, request);
        if steps.len() > 1 {
            env.request(self.index, self.life, ticket, PrimaryIndex::ONLY, StoreCommand::Charge(steps));
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
            env.request(self.index, self.life, ticket, PrimaryIndex::ONLY, StoreCommand::Step(pipeline, step));
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
        primary: PrimaryIndex,
        command: StoreCommand,
        pending: SimRequest<'c>,
        deadline_ms: u64,
    ) {
        let ticket = env.ticket();
        self.requests.pending.insert(ticket, pending);
        self.later(env, deadline_ms, AgentEvent::DeadlinePasses(ticket));
        env.request(self.index, self.life, ticket, primary, command);
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
        let answers = self.requests.answers_of(ticket, &request, answer.map(|answer| answer.results));
        self.requests.parts.remove(&ticket);
        self.engine.late_steps(self.now(env), request, &answers);
    }

    /// Sends the steps of a request to their primaries, but for those that wait for another one.
    fn send_parts(&mut self, env: &mut Environment<'c>, ticket: Ticket, request: &StoreRequest) {
        let steps = request.steps();
        self.requests.parts.insert(ticket, steps.iter().map(|_| None).collect());
        for (place, step) in steps.iter().enumerate().filter(|(_, step)| step.after.is_none()) {
            self.send_part(env, ticket, place, step);
        }
    }

    fn send_part(&self, env: &mut Environment<'c>, ticket: Ticket, place: usize, step: &RequestStep) {
        let command = StoreCommand::Part(place, step.charges.to_vec());
        env.request(self.index, self.life, ticket, step.primary, command);
    }

    /// The answer to a step of a request arrives. A step that another primary must answer is sent there, and one that has waited
    /// for this one is sent.
    pub(super) fn part_replies(
        &mut self,
        env: &mut Environment<'c>,
        ticket: Ticket,
        place: usize,
        answer: Result<ChargeResults, StoreError>,
    ) {
        if answer == Err(StoreError::Moved) {
            self.engine.follow_slots(env.primaries.owners());
        }
        let now = self.now(env);
        let (mut steps, mut redirected) = (Vec::new(), None);
        if let Some(SimRequest::Charge(request, _)) = self.requests.pending.get_mut(&ticket) {
            steps = request.steps().into_vec();
            if let Err(error) = &answer
                && self.engine.redirect(now, request, &steps[place], *error).is_some()
            {
                redirected = request.steps().into_iter().nth(place);
            }
        } else if let Some(request) = self.requests.late.get(&ticket) {
            steps = request.steps().into_vec();
        }
        if let Some(step) = redirected {
            return self.send_part(env, ticket, place, &step);
        }
        let Some(answers) = self.requests.parts.get_mut(&ticket).filter(|_| !steps.is_empty()) else { return };
        let error = answer.as_ref().err().copied();
        answers[place] = Some(answer);
        for (next, step) in steps.iter().enumerate().filter(|(_, step)| step.after == Some(place)) {
            if let Some(error) = error {
                answers[next] = Some(Err(error));
            } else {
                let command = StoreCommand::Part(next, step.charges.to_vec());
                env.request(self.index, self.life, ticket, step.primary, command);
            }
        }
        if answers.iter().all(Option::is_some) {
            let error = answers.iter().find_map(|answer| answer.as_ref()?.as_ref().err().copied());
            self.store_replies(env, ticket, error.map_or_else(|| Ok(StoreAnswer::default()), Err));
        }
    }
}
