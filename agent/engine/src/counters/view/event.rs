//! The events that change the view of a counter: all that an agent learns about it, but for the results of charges.

use tollgate_core::algorithm::Limit;
use tollgate_core::clock::Timestamp;
use tollgate_core::counter::{ChargeResult, RequestId};
use tollgate_core::messages::signals::Signal;

use super::acknowledgement::Acknowledgement;

use super::flow::Flow;
use super::lease::TakenUnits;
use super::lease_grant::{LeaseFacts, LeaseGrant};
use super::pending::{Pending, Unsynced};
use super::uncovered::{CoveredRounds, RoundNumber};
use crate::report::RuleCounts;

#[derive(Clone, Copy, Debug)]
pub(crate) enum ViewEvent<'a> {
    /// The plan admits a call without the store.
    Planned {
        /// Earliest that the store's time may be.
        now: Timestamp,
        /// Instant at which the admission counts.
        at: Timestamp,
        cost: u64,
        /// Units that the signal left to this agent, if it divides those of a strict counter.
        part: Option<u64>,
        /// Limit of the meter that paces the admission.
        pace: Option<Limit>,
        /// Own rounds that the last signal contains.
        covered: &'a CoveredRounds,
    },
    Answered {
        result: &'a ChargeResult,
        /// Units that it has charged now.
        units: u64,
        /// Round that publishes them.
        round: RoundNumber,
        /// Facts in the answer, if units were charged.
        acknowledged: Option<Acknowledgement>,
        /// True if the units are demand for leases.
        is_demand: bool,
    },
    /// A call is admitted that has taken units out of a lease.
    TakenSpent(TakenUnits),
    /// A call is denied that has taken units out of a lease. They are of this rule.
    TakenReturned(TakenUnits, LeaseFacts<'a>, &'a RuleCounts),
    /// The store has charged units to this agent without a call.
    LeaseGranted(LeaseGrant<'a>),

    Lost,
    /// Units were admitted without the store: by a plan, or by a settlement that reported more than was charged.
    Admitted {
        /// Instant at which they count.
        at: Timestamp,
        units: u64,
        /// True if a plan has entered them already.
        is_planned: bool,
        /// Round that publishes them.
        round: RoundNumber,
        /// Units that the store must be told of: the same, or none if it has charged them, or its late answer will say so.
        unsynced: Option<Unsynced>,
        /// Facts in the store's answer, if it has charged them.
        acknowledged: Option<Acknowledgement>,
        /// True if the units are demand for leases.
        is_demand: bool,
    },
    /// The row of an admission was published in a later round than the one with which it was entered.
    PublishedLater {
        /// Instant at which the units count.
        at: Timestamp,
        units: u64,
        /// Round with which they were entered.
        entered: u64,
        /// Round that publishes them.
        published: u64,
    },
    /// The late answer says that units which were admitted meanwhile are not charged, or there will be no answer.
    Unsynced(Unsynced),
    /// The store must give back units: a late answer charged a denied call, or a call was corrected before its backfill.
    Returned(Pending),
    /// Units do not count any more: they were refunded, or another counter denied the call.
    Refunded {
        /// Instant at which they counted.
        at: Timestamp,
        units: u64,
        /// Call whose unsynced slots end, too; none if the units hold no slots.
        slots_of: Option<RequestId>,
        /// True if the store may know of the refund and admit earlier than it denied.
        by_store: bool,
    },
    /// The counter leaves the queue of unsynced counters if nothing is left of it.
    LeavesQueue,
    /// The counter leaves the queue with all its units, because there are too many counters.
    Forgotten,
    Signal {
        signal: &'a Signal,
        flow: Flow,
        /// Latest that the store's time may be.
        latest: Timestamp,
    },
}

impl ViewEvent<'_> {
    pub(crate) fn acknowledged(&self) -> Option<&Acknowledgement> {
        match self {
            Self::Admitted { acknowledged, .. } | Self::Answered { acknowledged, .. } => acknowledged.as_ref(),
            _ => None,
        }
    }
}
