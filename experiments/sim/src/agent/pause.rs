//! Pauses of an agent: its process is not scheduled for a while. What happens meanwhile waits.

use tollgate_core::clock::Timestamp;

use super::life::{AgentLife, SimAgent};
use crate::environment::Environment;
use crate::event::AgentEvent;
use crate::observation::{Observation, Ticket};

impl SimAgent<'_> {
    /// Returns true if it runs at an instant.
    #[must_use]
    pub fn is_scheduled(&self, now: Timestamp) -> bool {
        self.running.as_ref().is_some_and(|running| running.paused_until <= now)
    }
}

impl<'c> AgentLife<'c> {
    /// Keeps the agent from running until an instant.
    pub(crate) fn pause(&mut self, env: &mut Environment<'c>, until: Timestamp) {
        self.paused_until = self.paused_until.max(until);
        self.later(env, until.ms_since(env.now()), AgentEvent::Resumes);
        env.observe(Observation::AgentPaused(self.index, until));
    }

    /// Handles what happened in a pause: the timers first. A request whose timer fires uses an answer that has arrived.
    pub(super) fn resume(&mut self, env: &mut Environment<'c>) {
        let is_timer = |event: &AgentEvent| matches!(event, AgentEvent::DeadlinePasses(_));
        let (timers, others): (Vec<_>, Vec<_>) = std::mem::take(&mut self.held).into_iter().partition(is_timer);
        let is_due = |ticket: &Ticket| {
            timers.iter().any(|timer| matches!(timer, AgentEvent::DeadlinePasses(due) if due == ticket))
        };
        let is_awaited = |event: &AgentEvent| match event {
            AgentEvent::StoreReplies(ticket, _) => is_due(ticket),
            AgentEvent::StepReplies(_, step, _) => step.callers().iter().any(is_due),
            _ => false,
        };
        let (arrived, others): (Vec<_>, Vec<_>) = others.into_iter().partition(is_awaited);
        for event in arrived.into_iter().chain(timers).chain(others) {
            self.later(env, 0, event);
        }
    }
}
