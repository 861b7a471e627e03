//! The way to the store: requests with their delays and faults, their execution, and the answers.

use tollgate::store::StoreError;
use tollgate_core::clock::Timestamp;
use tollgate_core::counter::{Charge, ChargeResults, PrimaryIndex};

use super::Environment;
use crate::event::{AgentEvent, Life, SimEvent, StoreAnswer, StoreCommand, StoreMessage};
use crate::faults::{Faults, StoreState};
use crate::observation::{Observation, Ticket};
use crate::planted_bugs::PlantedBug;

/// Delay after which an agent knows that the store cannot be reached, in ms.
const UNREACHABLE_MS: u64 = 1;

impl Environment<'_> {
    /// Returns the ticket of another request.
    pub(crate) fn ticket(&mut self) -> Ticket {
        self.tickets += 1;
        self.tickets
    }

    /// Sends a request to the store; its answer comes back under this ticket.
    pub(crate) fn request(
        &mut self,
        agent: usize,
        life: Life,
        ticket: Ticket,
        primary: PrimaryIndex,
        command: StoreCommand,
    ) {
        let message = StoreMessage { agent, life, ticket, primary, command };
        if self.primaries.store(primary).state == StoreState::Unreachable || self.cut(agent).store {
            self.reply(&message, UNREACHABLE_MS, Err(StoreError::Unreachable));
        } else {
            let delay_ms = self.delay_ms(self.faults.store_ms_max);
            self.scheduler.after(delay_ms, SimEvent::StoreReads(message));
        }
    }

    /// A request reaches the store.
    pub(crate) fn store_reads(&mut self, message: StoreMessage) {
        let delay_ms = self.delay_ms(self.faults.store_ms_max);
        match self.primaries.store(message.primary).state {
            _ if self.cut(message.agent).store => self.reply(&message, delay_ms, Err(StoreError::AnswerLost)),
            StoreState::Silent => self.primaries.store_mut(message.primary).waiting.push(message),
            StoreState::Unreachable => self.reply(&message, delay_ms, Err(StoreError::AnswerLost)),
            StoreState::Refusing => self.reply(&message, delay_ms, Err(StoreError::Refused)),
            StoreState::Slow(ms) => self.answer(&message, delay_ms + ms),
            StoreState::Up => self.answer(&message, delay_ms),
        }
    }

    fn answer(&mut self, message: &StoreMessage, delay_ms: u64) {
        let faults = self.faults;
        let mut answer = Err(StoreError::Refused);
        if !self.strikes(faults.store_refused_percent) {
            answer = self.execute(message);
            if self.strikes(faults.store_answer_lost_percent) {
                answer = Err(StoreError::AnswerLost);
            }
        }
        let is_late = faults.store_late_percent > 0 && self.strikes(faults.store_late_percent);
        let late_ms = if is_late { Faults::LATE_MS } else { 0 };
        self.reply(message, delay_ms + late_ms + self.cut(message.agent).store_late_ms, answer);
    }

    fn reply(&mut self, message: &StoreMessage, delay_ms: u64, answer: Result<StoreAnswer, StoreError>) {
        let event = match &message.command {
            StoreCommand::Step(pipeline, step) => {
                AgentEvent::StepReplies(*pipeline, step.clone(), answer.map(|answer| answer.results))
            }
            StoreCommand::Part(place, _) => {
                AgentEvent::PartReplies(message.ticket, *place, answer.map(|answer| answer.results))
            }
            _ => AgentEvent::StoreReplies(message.ticket, answer),
        };
        self.scheduler.after(delay_ms, SimEvent::Agent(message.agent, message.life, event));
    }

    fn execute(&mut self, message: &StoreMessage) -> Result<StoreAnswer, StoreError> {
        let (now, mut answer) = (self.now(), StoreAnswer::default());
        if let StoreCommand::Part(_, charges) = &message.command
            && self.primaries.owners()[usize::from(charges[0].slot.cluster_slot())] != Some(message.primary)
        {
            return Err(StoreError::Moved);
        }
        let store = self.primaries.store_mut(message.primary);
        match &message.command {
            StoreCommand::Ping => answer.time = store.time(now),
            StoreCommand::Announce => answer.presence = store.announce(now, message.agent),
            StoreCommand::Witness(number) => {
                answer.time = store.time(now);
                answer.witness = store.witness(message.agent, message.life, *number);
                answer.run = store.run();
            }
            StoreCommand::Part(_, charges) => {
                let executed = store.charge(now, charges);
                self.executed(message, message.ticket, charges.clone(), executed.clone(), false);
                answer.results = executed?;
            }
            StoreCommand::Charge(steps) => {
                for step in steps {
                    let mut results = ChargeResults::new();
                    for charges in self.bug.map_or_else(|| vec![step.clone()], |bug| bug.executed(step)) {
                        let executed = self.store().charge(now, &charges);
                        self.executed(message, message.ticket, charges, executed.clone(), false);
                        results = executed?;
                    }
                    answer.results.extend(results);
                }
            }
            StoreCommand::Step(_, step) => {
                let executed = self.store().charge(now, &step.coalesced());
                let parts = step.clone().split(&executed);
                let told = parts.iter().map(|(_, part)| charged_units(step.charges(), part)).sum::<u64>();
                assert_eq!(
                    told,
                    charged_units(&step.coalesced(), &executed),
                    "the parts are what the store has charged"
                );
                for (place, (ticket, answer)) in parts.into_iter().enumerate() {
                    self.executed(message, ticket, step.charges().to_vec(), answer, place > 0);
                }
                answer.results = executed?;
            }
        }
        if self.has(PlantedBug::DenialReportedCharged) {
            for result in &mut answer.results {
                (result.charged, result.verdict.admitted) = (true, true);
                // With a birth, agents would take the charge for lost.
                result.born = Timestamp::default();
            }
        }
        Ok(answer)
    }

    fn executed(
        &mut self,
        message: &StoreMessage,
        ticket: Ticket,
        charges: Vec<Charge>,
        answer: Result<ChargeResults, StoreError>,
        is_part: bool,
    ) {
        let StoreMessage { agent, life, .. } = *message;
        let store = self.primaries.store(message.primary);
        let store_time = store.time(self.now());
        let limits = charges.iter().map(|charge| store.limit(charge.counter)).collect();
        self.observe(Observation::Executed { agent, life, ticket, charges, store_time, answer, limits, is_part });
    }

    /// Moves the store to another state; a store that was silent reads the requests that wait.
    pub(crate) fn set_store(&mut self, state: StoreState) {
        for primary in (0..=self.further()).filter_map(PrimaryIndex::new) {
            self.set_primary(primary, state);
        }
    }

    /// Moves a primary to another state, as [`set_store`](Self::set_store).
    pub(crate) fn set_primary(&mut self, primary: PrimaryIndex, state: StoreState) {
        let store = self.primaries.store_mut(primary);
        store.state = state;
        let (waiting, waiting_limits) = (std::mem::take(&mut store.waiting), std::mem::take(&mut store.waiting_limits));
        for message in waiting {
            self.store_reads(message);
        }
        for message in waiting_limits {
            self.store_reads_limit(message);
        }
    }
}

/// Returns the units that a step has charged for calls, in all.
fn charged_units(charges: &[Charge], step_answer: &Result<ChargeResults, StoreError>) -> u64 {
    let results = step_answer.as_deref().unwrap_or_default();
    let made = charges.iter().zip(results).filter(|(_, result)| result.charged && !result.repeated);
    made.map(|(charge, result)| charge.cost + result.leased).sum()
}
