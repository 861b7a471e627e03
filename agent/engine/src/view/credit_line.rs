//! The line of credit of one counter: units that this agent may admit before the store has charged them.
//!
//! All lines of a counter are charged on a counter of their own beside it, whose limit is the maximum excess. A unit of a line
//! stays there until a window after the sub-window in which the line ends. So whatever becomes of an agent, the units that
//! were admitted and not charged in any window are within the maximum excess.
//!
//! The agent admits a call by drawing units of the line, and charges the call afterwards. An answer by which the store has
//! charged it restores the units. If the store had no room, the units are burned: they stay deducted, and so do units of
//! which the answer is lost. With the request for its next line the agent hands back what is left of this one, once.
//!
//! A line serves a call while the answer to another call on the counter is awaited, and a call whose own answer is late. Every
//! other call asks the store, and its answer brings the next lease. A line ends as a [lease](super::lease) does. An agent that
//! knows the counter to be full draws nothing.

use std::num::NonZeroU32;

use tollgate_core::algorithm::Limit;
use tollgate_core::clock::Timestamp;
use tollgate_core::rules::{Generation, LimitPolicy};

use super::lease_grant::{LeaseFacts, LeaseGrant, ends_at};
use super::local_usage::LocalUsage;
use crate::lease_epoch::LeaseEpoch;
use crate::time_bounds::TimeBounds;

/// Minimum units that this agent must have admitted in the current and the previous sub-window before it asks for a line.
const ADMITTED_MIN: u64 = 4;

/// Part of a sub-window that must be left when a line is asked for: one of so many.
const REST_PARTS: u64 = 4;

/// Number of a line among those of its counter at this agent. It begins anew after the view was dropped; then the instant from
/// which the line is held tells it from earlier ones.
pub(crate) type LineNumber = u32;

/// Line of credit, or the request for one, which has no units.
#[derive(Clone, Debug)]
pub(super) struct Line {
    number: LineNumber,
    units: u64,
    /// Store time of the charge on the counter of lines.
    charged_at: Timestamp,
    /// Agent's own time from which the line is held.
    held_from: Timestamp,
    /// Agent's own time from which the sub-window may have ended.
    ends_at: Timestamp,
    generation: Generation,
    /// Limit of the counter of lines; none of a request.
    limit: Option<Limit>,
    epoch: LeaseEpoch,
    /// Agent's own time until which the answer to a call on the counter is awaited.
    awaited_until: Timestamp,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct LineRequest {
    /// Limit of the counter of lines.
    pub(crate) limit: Limit,
    pub(crate) units_max: NonZeroU32,
    /// Units of the line before, and the instant of their charge.
    pub(crate) handed_back: Option<(Timestamp, u64)>,
}

impl Line {
    /// Creates the line of a grant that has arrived at the agent's own `now`, after the `previous` line or request.
    pub(super) fn granted(grant: &LeaseGrant<'_>, now: Timestamp, previous: Option<&Self>) -> Self {
        Self {
            number: next_number(previous),
            units: grant.units,
            charged_at: grant.result.at,
            held_from: now,
            ends_at: ends_at(grant),
            generation: grant.charge.generation,
            limit: Some(grant.charge.limit),
            epoch: grant.epoch,
            awaited_until: Timestamp::default(),
        }
    }

    /// Creates a request that is under way until the agent's own `until`.
    pub(super) fn asked(facts: &LeaseFacts<'_>, until: Timestamp, previous: Option<&Self>) -> Self {
        let number = next_number(previous);
        let LeaseFacts { own_now, generation, epoch, .. } = *facts;
        let (charged_at, awaited_until) = Default::default();
        Self {
            number,
            units: 0,
            charged_at,
            held_from: own_now,
            ends_at: until,
            generation,
            limit: None,
            epoch,
            awaited_until,
        }
    }

    /// Returns true if the line has not ended, or its request is under way.
    pub(super) fn is_live(&self, facts: &LeaseFacts<'_>) -> bool {
        facts.own_now < self.ends_at
            && facts.generation == self.generation
            && facts.epoch == self.epoch
            && (self.limit.is_none() || facts.policy.line_limit() == self.limit)
    }

    pub(super) fn admits(&self, facts: &LeaseFacts<'_>, cost: u64) -> bool {
        cost <= self.units && self.is_live(facts)
    }

    pub(super) fn is_awaited(&self, own_now: Timestamp) -> bool {
        own_now < self.awaited_until
    }

    /// Notes that a call on the counter asks the store, or that there is an answer.
    pub(super) fn await_until(&mut self, until: Timestamp) {
        self.awaited_until = until;
    }

    pub(super) fn draw(&mut self, cost: u64) {
        self.units = self.units.saturating_sub(cost);
    }

    pub(super) fn number(&self) -> LineNumber {
        self.number
    }

    /// Restores units that were drawn from this line for a request of this instant. Units of another line are lost.
    pub(super) fn restore(&mut self, units: u64, of: LineNumber, sent_at: Timestamp) {
        if of == self.number && self.limit.is_some() && sent_at >= self.held_from {
            self.units = self.units.saturating_add(units);
        }
    }

    /// Returns the units to hand back, and the instant of their charge. A line that ended before its time is not handed
    /// back, because a call that is on its way may still draw its units.
    fn handed_back(&self, facts: &LeaseFacts<'_>) -> Option<(Timestamp, u64)> {
        let has_ended = facts.own_now >= self.ends_at && facts.epoch == self.epoch && self.limit.is_some();
        (has_ended && self.units > 0).then_some((self.charged_at, self.units))
    }
}

/// Returns the request for a line beside a call, if the counter is busy and none is held. Each agent asks for its part.
pub(super) fn line_request(
    policy: &LimitPolicy,
    local: &LocalUsage,
    held: Option<&Line>,
    facts: &LeaseFacts<'_>,
    agents: NonZeroU32,
) -> Option<LineRequest> {
    let TimeBounds { earliest, latest } = facts.store_now;
    if held.is_some_and(|line| line.is_live(facts)) || !policy.may_lease() {
        return None;
    }
    let (sub_window, sub_window_ms) = (policy.window.sub_window(earliest), policy.window.sub_window_ms());
    let left_ms = policy.window.start_of(sub_window + 1).ms_since(latest);
    // Near the edge of a sub-window, the line would end at once.
    if local.admitted_lately(latest) < ADMITTED_MIN || left_ms < sub_window_ms / REST_PARTS {
        return None;
    }
    let limit = policy.line_limit()?;
    let units_max = u32::try_from((limit.units / u64::from(agents.get())).max(1)).unwrap_or(u32::MAX);
    let handed_back = held.and_then(|line| line.handed_back(facts));
    Some(LineRequest { limit, units_max: NonZeroU32::new(units_max)?, handed_back })
}

fn next_number(previous: Option<&Line>) -> LineNumber {
    previous.map_or(0, |line| line.number.wrapping_add(1))
}
