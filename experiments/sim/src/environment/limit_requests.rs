//! The way of aggregators to the store of their region: limits, floors, and questions for its time.
//!
//! A request that fails gets no answer. The engine of the budgets asks again with a later tick.

use tollgate_core::clock::Timestamp;
use tollgate_core::regions::stored_limit::LimitAnswer;

use super::Environment;
use crate::event::{AggregatorEvent, LedgerMemberEvent, LimitCommand, LimitMessage, LimitReply, SimEvent};
use crate::faults::StoreState;
use crate::observation::Observation;
use crate::region_mistake::RegionMistake;

impl Environment<'_> {
    /// Draws the delay between an aggregator and the store.
    pub(crate) fn limit_delay_ms(&mut self) -> u64 {
        self.limits_rng.u64(0..=self.faults.store_ms_max)
    }

    /// Lets a request reach the store at an instant.
    pub(crate) fn request_limit(&mut self, at: Timestamp, message: LimitMessage) {
        self.scheduler.at(at, SimEvent::StoreReadsLimit(message));
    }

    /// A request about limits reaches the store.
    pub(crate) fn store_reads_limit(&mut self, message: LimitMessage) {
        let late_ms = match self.store().state {
            StoreState::Silent => return self.store().waiting_limits.push(message),
            StoreState::Unreachable | StoreState::Refusing => return,
            StoreState::Slow(ms) => ms,
            StoreState::Up => 0,
        };
        let (now, mistake) = (self.now(), self.mistake);
        let LimitMessage { aggregator, life, command } = message;
        let reply = match command {
            LimitCommand::Time => Some(LimitReply::Time),
            LimitCommand::Write { rule, counter, write } => {
                let answer = self.store().write_limit(now, (&rule, counter), &write, mistake);
                self.observe(Observation::LimitWritten { counter, aggregator });
                let seen = |mut answer: LimitAnswer| {
                    if mistake == Some(RegionMistake::GiveBackUnseen) {
                        answer.used = 0;
                    }
                    LimitReply::Written(counter, answer)
                };
                answer.map(seen)
            }
            LimitCommand::WriteFloor { rule, write } => {
                let floor = self.store().write_floor(now, &rule, &write);
                floor.map(|floor| LimitReply::FloorWritten(rule, floor))
            }
        };
        if let Some(reply) = reply {
            let delay_ms = late_ms + self.limit_delay_ms();
            let answered = AggregatorEvent::Budget(LedgerMemberEvent::Answered(now, self.store().time(now), reply));
            self.scheduler.after(delay_ms, SimEvent::Aggregator(aggregator, life, answered));
        }
    }
}
