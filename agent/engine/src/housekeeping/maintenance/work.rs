//! Inputs and effects of the maintenance: the work that it hands to the shell, and the results that come back.

use std::time::Duration;

use tollgate_core::clock::Timestamp;
use tollgate_core::counter::{PrimaryIndex, StoreError};
use tollgate_core::messages::emergency::EmergencySwitch;
use tollgate_core::messages::presence::{AnnouncedRules, PresenceSet};

use super::witness::WitnessAnswer;
use crate::fleet::AgentIds;
use crate::report::Notice;
use crate::request::{StepAnswers, StoreRequest};

/// Event that the maintenance reacts to.
#[derive(Debug)]
pub enum MaintenanceInput {
    /// Time has passed: [`Maintenance::wake_at`](super::Maintenance::wake_at) is reached, or the waker was called.
    Tick,
    /// Answer to [`MaintenanceRequest::Ping`].
    Pinged {
        /// Primary that was asked.
        primary: PrimaryIndex,
        /// The primary's time.
        answer: Result<Timestamp, StoreError>,
        /// True if it did not arrive in time.
        is_late: bool,
    },
    /// Answer to [`MaintenanceRequest::Backfill`].
    Backfilled(StoreRequest, StepAnswers),
    /// Answer to [`MaintenanceRequest::Witness`].
    Witnessed(PrimaryIndex, Result<WitnessAnswer, StoreError>),
    /// Answer to [`MaintenanceRequest::Reopen`].
    Reopened(StoreRequest, StepAnswers),
    /// Answer to [`MaintenanceRequest::Announce`]: the live agents in the store.
    Announced(Result<PresenceSet, StoreError>),
    /// [`MaintenanceRequest::ReadRules`] has been executed; true if the store answered. The rules themselves go to
    /// [`Engine::set_rules`](crate::Engine::set_rules).
    RulesRead(bool),
}

/// Work for the shell.
#[derive(Debug)]
pub enum MaintenanceEffect {
    /// Send this request to the store; the answer comes back as an input.
    Send(MaintenanceRequest),
    /// Save the ids of the fleet's agents, this one included, for the next start.
    SaveAgents(AgentIds),
    /// Save the latest change of the emergency switch for the next start.
    SaveEmergency(EmergencySwitch),
    /// Write this to the log.
    Notify(Notice),
}

/// Request to the store that no call waits for. Unless it states another one, its deadline is
/// [`UNATTENDED_DEADLINE`](crate::UNATTENDED_DEADLINE).
#[derive(Debug)]
pub enum MaintenanceRequest {
    /// Ask for the time of a primary.
    Ping {
        /// The primary.
        primary: PrimaryIndex,
        /// Time in which calls need their answers; a later answer is late.
        in_time: Duration,
        /// Deadline, which is not shorter.
        deadline: Duration,
    },
    /// Charge these units, which were admitted without the store.
    Backfill(StoreRequest),
    /// Raise the witness of this life of the agent at a primary to this number, and return the one before.
    Witness(PrimaryIndex, u64),
    /// Open these counters again, whose units a primary has lost.
    Reopen(StoreRequest),
    /// Announce the agent with these rules, if it has any.
    Announce(Option<AnnouncedRules>),
    /// Read the published rules, and put newer ones in force.
    ReadRules,
}
