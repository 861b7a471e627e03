//! Notices: changes of state that an operator should read in the log, once per change.
//!
//! An engine writes no log: any thread queues a notice, and `housekeeping/maintenance` hands it to the shell. A state that comes
//! and goes is told twice, then only its newest notice at the end of each period, with the number of those held back.

use std::collections::VecDeque;
use std::mem::{Discriminant, discriminant};
use std::num::NonZeroU32;
use std::time::Duration;

use tollgate_core::clock::Timestamp;
use tollgate_core::counter::StoreError;
use tollgate_core::rules::Quota;

#[cfg(test)]
mod tests;

/// Maximum number of notices that wait for the shell. Past it, the oldest are dropped.
const QUEUE_LEN_MAX: usize = 64;
/// Period in which a state is told at most [`LINES_MAX`] times, in ms.
const PERIOD_MS: u64 = 10_000;
/// Lines per state in a period: a loss and its end.
const LINES_MAX: u32 = 2;

/// Change of state that belongs in the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Notice {
    /// The store answers again.
    #[error("the store answers again and decides")]
    StoreRecovered,
    /// The breaker opened.
    #[error("signals decide, or each rule's on_failure, until the store answers: {0}; {remedy}", remedy = remedy(*.0))]
    StoreUnavailable(StoreError),
    /// The breaker of one of several primaries opened.
    #[error(
        "a primary of the store does not answer, and signals decide about its counters, or each rule's on_failure, until it does: {0}          (/healthz names the server); {remedy}",
        remedy = remedy(*.0)
    )]
    PrimaryUnavailable(StoreError),
    /// All primaries answer again.
    #[error("all primaries of the store answer again and decide")]
    PrimariesRecovered,
    /// Calls were denied because the store answered too late. Said at most once a minute.
    #[error(
        "Redis answers later than the deadline of rules, which deny such calls (tollgate_late_denials_total names the rules); check its load and the network to it, or raise `deadline` of these rules"
    )]
    StoreLate,
    /// The store has lost units of all counters.
    #[error(
        "the store has lost counts that it had acknowledged (flush, restart without data, or failover); for one window, \
         counters open again with the counts of signals and of this agent; check persistence and replication of the store"
    )]
    StoreLost,
    /// The store has lost single counters. Said at most once a minute.
    #[error(
        "the store has lost counters that it had acknowledged, and they are opened again with the counts of signals and of \
         this agent (tollgate_store_lost_total); check who deletes keys there, and set maxmemory-policy noeviction"
    )]
    CountersLost,
    /// A change of the emergency switch lies in the future of this agent's clock.
    #[error(
        "the emergency switch was changed more than an hour ahead of this agent's clock, and the change has no effect here; set the clock of this host, or of the one where it was switched, and restart the agent; or send the request to this agent"
    )]
    EmergencyRefused,
    /// Signals of a partition counted beyond the end of the log, and are counted anew.
    #[error(
        "signals counted beyond the end of `calls`, and those of a partition are read anew; find the producer that writes such records, and let only Tollgate write to the topic `signals`; after an unclean election of the broker's leader, nothing is to do"
    )]
    SignalsBeginAnew,
    /// Published rules can be read from the bus or from the store again.
    #[error("published rules can be read again")]
    RulesReachable,
    /// Published rules can be read neither from the bus nor from the store.
    #[error(
        "published rules cannot be read from Kafka or Redis, and the rules in force stay; check both servers, new rules have no effect until one of them answers"
    )]
    RulesUnreachable,
    /// The store's clock stepped back by this time.
    #[error(
        "the store's clock stepped back by {0:?}: counts are kept, and callers wait up to a sub-window longer; check the time service of the store's host"
    )]
    StoreClockSteppedBack(Duration),
    /// The store's clock stepped forward by this time.
    #[error(
        "the store's clock stepped forward by {0:?}: the windows that contain the step are shorter by it and admit more; check the time service of the store's host; if no other agent reports the step, check whether this host was suspended"
    )]
    StoreClockSteppedForward(Duration),
    /// A counter found no place in the table.
    #[error(
        "the table of {counters_max} counters is full: new callers are limited by a sketch, which has no exact counts; find the flooded rule in tollgate_sketch_charges_total, and raise --counters-max if the callers are real"
    )]
    TableFull {
        /// Cap on counters.
        counters_max: usize,
    },
    /// The table has room again.
    #[error("the table of counters has room again: new callers have counters of their own")]
    TableHasRoom,
    /// The emergency switch is on.
    #[error(
        "the emergency switch is on: each caller may make {0} at this agent, and no rule is counted; POST /emergency {{\"on\": false}} ends it"
    )]
    EmergencyOn(Quota),
    /// The emergency switch is off.
    #[error("the emergency switch is off: the rules limit again")]
    EmergencyOff,
    /// An exception or a list entry of the rules has ended.
    #[error(
        "an override or a list entry has ended by its `until`: what the rules say without it is in force, and counts are kept"
    )]
    ExceptionsEnded,
    /// The members of the fleet are not followed any more.
    #[error(
        "no heartbeat of this agent comes back from the bus or from the store, so the size of the fleet stays as known last ({agents}); check the network to the servers of this agent; if this host was suspended, nothing is to do"
    )]
    FleetFrozen {
        /// Number of agents.
        agents: NonZeroU32,
    },
    /// The members of the fleet are followed again.
    #[error("heartbeats of this agent come back: the size of the fleet ({agents}) is followed again")]
    FleetUnfrozen {
        /// Number of agents.
        agents: NonZeroU32,
    },
    /// The other agents do not hear this one.
    #[error(
        "the bus delivers heartbeats of other agents and none of this one, so the others have its part of each quota, and without the store it admits nothing by share; check that it may write to the topic presence"
    )]
    HeartbeatsLost,
    /// The other agents hear this one again.
    #[error("heartbeats of this agent come back: it has its part of each quota again")]
    HeartbeatsBack,
    /// The presence set in the store names too many new agents.
    #[error(
        "Redis names {named} new agents at once, more than {len_max}: none of them is counted, and none that it lacks is removed; if nobody started so many, DEL tollgate:agents in Redis (with your --redis-prefix instead of tollgate:), the agents enter themselves again; if somebody did, start agents with --agents-expected"
    )]
    AgentsRefused {
        /// Number of new agents.
        named: usize,
        /// Maximum number of agents that may come within seconds.
        len_max: usize,
    },
    /// The presence set is believed again.
    #[error("the agents that Redis names are counted again")]
    AgentsBelieved,
    /// Other agents that share the store digest callers by another key.
    #[error(
        "other agents that share this Redis name their counters by another digest key, so each key admits a whole quota to every caller; start all agents with the same --digest-key-file, or those of another fleet with a --redis-prefix of their own"
    )]
    DigestKeysDiffer,
    /// All agents that share the store have one digest key again.
    #[error("all agents that share this Redis have the same digest key again")]
    DigestKeysAgree,
    /// Another agent has the name of this one.
    #[error(
        "another agent of the fleet has the same name, and the fleet counts the two as one: without the store, they admit too much; start each agent with a --node of its own"
    )]
    NameShared,
    /// Earlier notices of the state that the next notice tells were held back.
    #[error("a state changed {changes} times within {} s, and its last change follows: check the load of the server and the network to it", PERIOD_MS / 1_000)]
    HeldBack {
        /// Number of notices, the next one included.
        changes: u32,
    },
}

#[derive(Debug, Default)]
pub(crate) struct NoticeQueue {
    queue: VecDeque<Notice>,
    told: Vec<ToldState>,
}

/// Lines about one state in the present period.
#[derive(Debug)]
struct ToldState {
    state: Discriminant<Notice>,
    since: Timestamp,
    lines: u32,
    /// Newest notice that waits for the end of the period, and the number of those held back.
    held: Option<(Notice, u32)>,
}

impl Notice {
    /// Returns true if the notice tells the end of a trouble.
    #[must_use]
    pub fn is_recovery(self) -> bool {
        matches!(
            self,
            Self::StoreRecovered
                | Self::PrimariesRecovered
                | Self::RulesReachable
                | Self::TableHasRoom
                | Self::FleetUnfrozen { .. }
                | Self::HeartbeatsBack
                | Self::AgentsBelieved
                | Self::DigestKeysAgree
                | Self::EmergencyOff
                | Self::ExceptionsEnded
        )
    }

    /// Returns the state that the notice tells; a trouble and its end are one state.
    fn state(self) -> Discriminant<Self> {
        match self {
            Self::StoreRecovered => discriminant(&Self::StoreUnavailable(StoreError::Unreachable)),
            Self::PrimariesRecovered => discriminant(&Self::PrimaryUnavailable(StoreError::Unreachable)),
            Self::RulesReachable => discriminant(&Self::RulesUnreachable),
            Self::EmergencyOn(_) => discriminant(&Self::EmergencyOff),
            Self::FleetUnfrozen { agents } => discriminant(&Self::FleetFrozen { agents }),
            Self::TableHasRoom => discriminant(&Self::TableFull { counters_max: 0 }),
            Self::HeartbeatsBack => discriminant(&Self::HeartbeatsLost),
            Self::AgentsRefused { .. } => discriminant(&Self::AgentsBelieved),
            Self::DigestKeysAgree => discriminant(&Self::DigestKeysDiffer),
            notice => discriminant(&notice),
        }
    }
}

/// Returns the remedy of a store that does not answer. A store that refuses has said why, and the log has it already.
const fn remedy(error: StoreError) -> &'static str {
    match error {
        StoreError::Refused | StoreError::Full | StoreError::Unreadable => {
            "the warning about it before this one has its answer and the remedy"
        }
        _ => "check that it runs and is not overloaded, and the network to it",
    }
}

impl NoticeQueue {
    pub(crate) fn push(&mut self, notice: Notice) {
        if self.queue.len() >= QUEUE_LEN_MAX {
            self.queue.pop_front();
        }
        self.queue.push_back(notice);
    }

    /// Returns the time from which there is a line to write, if there will be one.
    pub(crate) fn due_at(&self) -> Option<Timestamp> {
        if !self.queue.is_empty() {
            return Some(Timestamp::default());
        }
        self.told.iter().filter(|told| told.held.is_some()).map(|told| told.since.plus_ms(PERIOD_MS)).min()
    }

    pub(crate) fn take(&mut self, now: Timestamp, mut write: impl FnMut(Notice)) {
        while let Some(notice) = self.queue.pop_front() {
            let state = notice.state();
            let known = self.told.iter().position(|told| told.state == state);
            let position = known.unwrap_or_else(|| {
                self.told.push(ToldState { state, since: now, lines: 0, held: None });
                self.told.len() - 1
            });
            let told = &mut self.told[position];
            if told.held.is_none() && now >= told.since.plus_ms(PERIOD_MS) {
                (told.since, told.lines) = (now, 0);
            }
            if told.lines < LINES_MAX {
                told.lines += 1;
                write(notice);
            } else {
                told.held = Some((notice, told.held.map_or(0, |(_, changes)| changes) + 1));
            }
        }
        for told in self.told.iter_mut().filter(|told| now >= told.since.plus_ms(PERIOD_MS)) {
            if let Some((notice, changes)) = told.held.take() {
                // The state may go on changing: it is told again at the end of the next period.
                (told.since, told.lines) = (now, LINES_MAX);
                write(Notice::HeldBack { changes });
                write(notice);
            }
        }
    }
}
