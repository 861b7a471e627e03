//! The way of an operation: begun at the engine, asked of the store if need be, finished at the engine.
//!
//! Requests of the maintenance go the same way. Each request has a deadline; the late answer to charges goes to the
//! engine, too, and any other is dropped.

use std::time::Duration;

use tollgate::store::StoreError;
use tollgate::{Call, DecidedCall};
use tollgate_core::counter::{Charge, PrimaryIndex};
use tollgate_core::rules::MatchScope;
use tollgate_engine::{
    DecidedRule, Decisions, MaintenanceInput, MaintenanceRequest, Operation, Output, Progress, StepAnswers,
    StoreRequest, UNATTENDED_DEADLINE, WitnessAnswer, use_stripe,
};

use super::life::{AgentLife, SimAgent};
use super::requests::{AskedCalls, ChargePurpose, Correction, SimRequest};
use crate::environment::Environment;
use crate::event::{StoreAnswer, StoreCommand};
use crate::late_parts::sent_again;
use crate::observation::{AnsweredCall, CorrectedCall, Observation, Ticket};
use crate::planted_bugs::PlantedBug;

/// Interval at which an agent without a bus ticks its maintenance, in ms. Years may pass between two calls, so a call looks
/// whether the tick is due.
const TICK_MS: u64 = 60_000;

impl SimAgent<'_> {
    /// Returns the number of requests with units that wait for the store.
    #[must_use]
    pub fn pending(&self) -> usize {
        let Some(running) = &self.running else { return 0 };
        let pending = running.requests.pending.values().filter(|request| matches!(request, SimRequest::Charge(..)));
        pending.count() + running.requests.late.len()
    }
}

impl<'c> AgentLife<'c> {
    /// A call arrives, or several that are charged all or none.
    pub(crate) fn check(&mut self, env: &mut Environment<'c>, calls: Vec<Call<'c>>) {
        // An agent without a bus does not sleep.
        if !self.engine.settings().publishes && self.now(env).ms_since(self.ticked_at) >= TICK_MS {
            self.maintain(env, MaintenanceInput::Tick);
        }
        use_stripe(env.stripe());
        let generation = self.engine.with_rules(|rules| rules.generation);
        // Every second agent tries the fast way first, so that the invariants hold for both.
        let call = if self.index.is_multiple_of(2) { <&[Call<'c>; 1]>::try_from(&calls[..]).ok() } else { None };
        let altered = |bug| match &calls[..] {
            [call] => self.memory.altered(bug, self.now(env), generation, call),
            _ => None,
        };
        let of_bug = env.bug.and_then(altered).and_then(|(now, call)| self.engine.decide(now, &call, Some, |_| None));
        let now = self.now(env);
        let decided = match (of_bug, call) {
            (Some(decision), _) => Ok(decision),
            (None, Some([call])) => self.engine.decide(now, call, Ok, |found| Err(Some((call, found)))),
            (None, None) => Err(None),
        };
        let progress = match decided {
            Ok(decision) => Progress::Done(Output::Decisions(Decisions::from_iter([decision]))),
            Err(Some((call, found))) => self.engine.begin_found(now, call, found.as_ref()),
            Err(None) => {
                let operation = Operation::Check { calls: &calls, scope: MatchScope::default() };
                self.engine.begin(now, operation)
            }
        };
        let asked = AskedCalls { calls, generation, arrived: env.now() };
        match progress {
            Progress::Done(output) => self.answered(env, asked, None, None, output, Vec::new()),
            Progress::Deferred(output, request) => {
                let rules = request.decided_rules();
                let ticket = self.charge_afterwards(env, request);
                self.answered(env, asked, Some(ticket), Some(StoreError::TimedOut), output, rules);
            }
            Progress::NeedsStore(request) => {
                let deadline = request.deadline();
                self.charge(env, request, ChargePurpose::Check(asked), deadline);
            }
        }
        self.follow_wakers(env);
    }

    /// A call is settled or released, or its caller is reset.
    pub(crate) fn correct(&mut self, env: &mut Environment<'c>, call: Call<'c>, correction: &Correction) {
        use_stripe(env.stripe());
        let generation = self.engine.with_rules(|rules| rules.generation);
        let (operation, units, decided) = match correction {
            Correction::Settle(units, decided) => {
                let decided = decided.as_ref();
                (Operation::Settle { call: &call, units: *units, decided }, Some(*units), decided)
            }
            Correction::Release(decided) => (Operation::Release { call: &call, decided }, None, Some(decided)),
            Correction::Reset => (Operation::Reset { call: &call }, None, None),
        };
        let decided = decided.map(DecidedCall::at);
        let progress = self.engine.begin(self.now(env), operation);
        let (agent, charges, error) = (self.index, Vec::new(), None);
        let mut corrected = CorrectedCall { agent, call, generation, units, decided, charges, error };
        match progress {
            Progress::Done(_) | Progress::Deferred(..) => env.observe(Observation::Corrected(corrected)),
            Progress::NeedsStore(request) => {
                corrected.charges = request.charges().to_vec();
                let deadline = request.deadline();
                self.charge(env, request, ChargePurpose::Correct(Box::new(corrected)), deadline);
            }
        }
        self.follow_wakers(env);
    }

    /// Sends a request of the maintenance to the store, in which no rules are published.
    pub(super) fn request_for_maintenance(&mut self, env: &mut Environment<'c>, request: MaintenanceRequest) {
        if matches!(request, MaintenanceRequest::Ping { .. } | MaintenanceRequest::Backfill(_)) {
            let is_first = matches!(request, MaintenanceRequest::Ping { .. });
            env.observe(Observation::ProbeSent { agent: self.index, is_first });
        }
        match request {
            MaintenanceRequest::Ping { primary, in_time, deadline } => {
                let late_after = (in_time < deadline).then(|| env.now().plus_ms(as_ms(in_time)));
                let ping = SimRequest::Ping { primary, late_after };
                self.request(env, primary, StoreCommand::Ping, ping, as_ms(deadline));
            }
            MaintenanceRequest::Announce(_) => {
                env.observe(Observation::Announces(self.index, env.now()));
                let (only, announce) = (PrimaryIndex::ONLY, StoreCommand::Announce);
                self.request(env, only, announce, SimRequest::Announce, as_ms(UNATTENDED_DEADLINE));
            }
            MaintenanceRequest::Witness(primary, number) => {
                if self.is_pinged {
                    env.observe(Observation::ProbeSent { agent: self.index, is_first: false });
                }
                let request = SimRequest::Witness(primary, self.is_pinged);
                self.request(env, primary, StoreCommand::Witness(number), request, as_ms(UNATTENDED_DEADLINE));
            }
            MaintenanceRequest::Backfill(request) => {
                let deadline = request.deadline();
                self.charge(env, request, ChargePurpose::Backfill, deadline);
            }
            MaintenanceRequest::Reopen(request) => {
                let deadline = request.deadline();
                self.charge(env, request, ChargePurpose::Reopen, deadline);
            }
            MaintenanceRequest::ReadRules => {}
        }
    }

    /// A request is over. The late answer to a request of the maintenance finds none.
    pub(super) fn finish(
        &mut self,
        env: &mut Environment<'c>,
        ticket: Ticket,
        answer: Result<StoreAnswer, StoreError>,
    ) {
        let (agent, error) = (self.index, answer.as_ref().err().copied());
        let Some(pending) = self.requests.pending.remove(&ticket) else { return };
        let (mut request, purpose) = match pending {
            SimRequest::Ping { primary, late_after } => {
                let answer = answer.map(|answer| answer.time);
                let is_late = late_after.is_some_and(|after| env.now() > after);
                self.has_late_ping = is_late;
                env.observe(Observation::Probed { agent, is_answered: error.is_none(), is_late });
                self.is_pinged = true;
                self.maintain(env, MaintenanceInput::Pinged { primary, answer, is_late });
                self.is_pinged = false;
                return;
            }
            SimRequest::Announce => {
                return self.maintain(env, MaintenanceInput::Announced(answer.map(|answer| answer.presence)));
            }
            SimRequest::Witness(primary, is_probe) => {
                if is_probe {
                    env.observe(Observation::Probed {
                        agent,
                        is_answered: error.is_none(),
                        is_late: self.has_late_ping,
                    });
                }
                let witnessed = |StoreAnswer { time, witness, run, .. }| WitnessAnswer {
                    at: time,
                    before: witness,
                    run_id: Some(run),
                };
                return self.maintain(env, MaintenanceInput::Witnessed(primary, answer.map(witnessed)));
            }
            SimRequest::Charge(request, purpose) => (request, purpose),
        };
        use_stripe(env.stripe());
        let answers = self.requests.answers_of(ticket, &request, answer.map(|answer| answer.results));
        // The timer of the request goes on.
        if self.engine.renew(self.now(env), &mut request, &answers).is_some() {
            env.observe(Observation::Renewed(ticket));
            return self.send_charge(env, ticket, request, purpose);
        }
        let (charges, is_backfill) = (request.charges().to_vec(), matches!(purpose, ChargePurpose::Backfill));
        env.observe(Observation::Finished { agent, ticket, charges, is_backfill, error });
        match purpose {
            ChargePurpose::Check(asked) => {
                if let [Some(Ok(results))] = &answers[..] {
                    let sent = self.at(asked.arrived);
                    self.memory.leased(request.charges(), results, sent, self.now(env));
                }
                let charges = request.charges().to_vec();
                let output = self.engine.finish_steps(self.now(env), &mut request, &answers);
                let rules = request.decided_rules();
                if env.has(PlantedBug::ResentBeforeAnswer) && error == Some(StoreError::TimedOut) {
                    self.resend(env, &charges, &rules, &output);
                }
                self.keep_late(ticket, request, &answers);
                self.answered(env, asked, Some(ticket), error, output, rules);
            }
            ChargePurpose::Correct(corrected) => {
                // An error is the caller's to know; the observation tells it.
                let _ = self.engine.finish_steps(self.now(env), &mut request, &answers);
                self.keep_late(ticket, request, &answers);
                env.observe(Observation::Corrected(CorrectedCall { error, ..*corrected }));
            }
            ChargePurpose::Backfill => {
                let is_answered = error.is_none_or(StoreError::is_of_counter);
                env.observe(Observation::Probed { agent, is_answered, is_late: self.has_late_ping });
                self.maintain(env, MaintenanceInput::Backfilled(request, answers));
            }
            ChargePurpose::Reopen => self.maintain(env, MaintenanceInput::Reopened(request, answers)),
        }
    }

    fn keep_late(&mut self, ticket: Ticket, request: StoreRequest, answers: &StepAnswers) {
        if answers.iter().any(|answer| matches!(answer, None | Some(Err(StoreError::TimedOut)))) {
            self.requests.late.insert(ticket, request);
        } else {
            self.requests.parts.remove(&ticket);
        }
    }

    /// Sends units again although the late answer to their request may come. No one waits for the answer.
    fn resend(&mut self, env: &mut Environment<'c>, charges: &[Charge], rules: &[Vec<DecidedRule>], output: &Output) {
        let ([rules], Output::Decisions(decisions)) = (rules, output) else { return };
        let again = decisions.first().map_or(Vec::new(), |decision| sent_again(charges, rules, decision));
        if !again.is_empty() {
            let ticket = env.ticket();
            env.request(self.index, self.life, ticket, PrimaryIndex::ONLY, StoreCommand::Charge(vec![again]));
        }
    }

    fn answered(
        &mut self,
        env: &mut Environment<'c>,
        asked: AskedCalls<'c>,
        ticket: Option<Ticket>,
        error: Option<StoreError>,
        output: Output,
        mut rules: Vec<Vec<DecidedRule>>,
    ) {
        rules.resize(asked.calls.len(), Vec::new());
        let (agent, answered) = (self.index, env.now());
        let AskedCalls { calls, generation, arrived } = asked;
        let mut decisions = output.into_decisions();
        if let (Some(bug), [call], [decision], [rules]) = (env.bug, &calls[..], &mut decisions[..], &mut rules[..]) {
            let (own, agents) = (&mut self.own, self.engine.fleet_size().get());
            self.engine.with_rules(|set| own.decided(bug, set, agents.into(), call, decision, rules));
        }
        if let ([call], [decision]) = (&calls[..], &decisions[..]) {
            self.memory.answered(call, generation, self.at(arrived), decision);
        }
        let (is_joint, is_held_back) = (calls.len() > 1, decisions.iter().any(|decision| !decision.allowed));
        for ((call, decision), rules) in calls.into_iter().zip(decisions).zip(rules) {
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
                rules,
            }));
        }
    }
}

pub(super) fn as_ms(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}
