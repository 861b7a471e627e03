//! The clock of an agent, and the events of its future.

use tollgate_core::clock::Timestamp;

use super::life::AgentLife;
use crate::environment::Environment;
use crate::event::{AgentEvent, SimEvent};

impl AgentLife<'_> {
    /// Returns the agent's own time.
    pub(super) fn now(&self, env: &Environment<'_>) -> Timestamp {
        self.at(env.now())
    }

    /// Returns the agent's own time at an instant of true time.
    pub(super) fn at(&self, now: Timestamp) -> Timestamp {
        self.clock.at(now)
    }

    pub(super) fn later(&self, env: &mut Environment<'_>, ms: u64, event: AgentEvent) {
        env.scheduler.after(ms, SimEvent::Agent(self.index, self.life, event));
    }
}
