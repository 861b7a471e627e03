//! Charges: one step on one counter, and its result.

use std::sync::Arc;

use smallvec::SmallVec;

use super::{CallCorrection, CounterId, HashSlotId, RequestId};
use crate::algorithm::{Limit, Verdict};
use crate::clock::Timestamp;

/// One step on one counter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Charge {
    /// The counter.
    pub counter: CounterId,
    /// Hash slot of the counter. All charges of one hash slot are applied in one atomic step of the store.
    pub slot: HashSlotId,
    /// Identifier of the request, if the caller gave one. The store charges a request once, however often it is
    /// retried.
    pub request: Option<RequestId>,
    /// The limit that the charge is evaluated against.
    pub limit: Limit,
    /// Generation of the limit. A store that knows a newer generation uses the newer limit.
    pub generation: u64,
    /// Cost in units.
    pub cost: u64,
    /// Mode of application.
    pub mode: ChargeMode,
    /// Rule of a counter that several regions share. The store then takes the floor that was written for this rule, or the limit
    /// of the charge if there is none, and adds the units that the region has been granted for the counter.
    pub budget: Option<Arc<str>>,
}

/// Mode in which a store applies a charge.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChargeMode {
    /// Charges if this and every other enforced charge of the request has room.
    Enforce {
        /// Instant in store time after which the store charges nothing, because no caller waits any more.
        expires_at: Timestamp,
    },
    /// Charges as `Enforce` does, and leases units besides: they are charged at once, and the caller may spend them
    /// until the sub-window of the charge ends. They are a multiple of the cost, or any number if there is no cost. Only
    /// windows without a burst lease.
    Lease {
        /// Instant in store time after which the store charges nothing.
        expires_at: Timestamp,
        /// Maximum number of units to lease beyond the cost.
        units_max: u32,
        /// Number of agents among which the free units are divided: one gets its part at most. 0 stands for 1.
        agents: u32,
    },
    /// Charges whether there is room or not, and regardless of the other charges of the request.
    CountOnly {
        /// Instant in store time after which the store charges nothing.
        expires_at: Timestamp,
    },
    /// Evaluates the counter without a charge: for a request that is denied already. The other charges of the request do not
    /// depend on it, and no counter is created.
    Evaluate {
        /// Instant in store time after which the store evaluates nothing.
        expires_at: Timestamp,
    },
    /// Charges units that were admitted without the store, whether there is room or not.
    Backfill {
        /// Instant of the admission, in store time.
        at: Timestamp,
    },
    /// Returns units that were charged at `at`, as far as they are still in the window. A release returns the slot that its
    /// request holds.
    Refund {
        /// Instant of the charge, in store time.
        at: Timestamp,
        /// Kind of a correction that leaves nothing of the charge of its request ([`RequestId::corrected`]): the store charges a
        /// retry of that request again.
        whole: Option<CallCorrection>,
    },
    /// Removes all units that the counter holds, and creates none. Slots stay, because their calls run.
    Reset,
    /// Enters units that the store has lost: raises the count of the sub-window of `at` to at least the cost; of a
    /// bucket, the level. A second time it changes nothing.
    Reopen {
        /// Instant at which the units leave the window last, in store time.
        at: Timestamp,
    },
}

/// Answer of a store (or of the engine's own table) to one [`Charge`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChargeResult {
    /// The counter's verdict. If an enforced charge on a window without a burst is made and leaves no room for another one of its
    /// cost, `retry_at` is the instant from which there is room again. The verdict of a repeated request has no such instant.
    pub verdict: Verdict,
    /// True if the counter was charged.
    pub charged: bool,
    /// True if the request had been charged before: it is admitted again and costs nothing.
    pub repeated: bool,
    /// Units that were charged beyond the cost, by [`ChargeMode::Lease`]. The verdict counts them as left.
    pub leased: u64,
    /// Store time of the step.
    pub at: Timestamp,
    /// Quota that the charge was evaluated against, in units.
    pub limit: u64,
    /// Store time from which units of this charge may not be spent by a lease, if that is earlier than the end of the charge's
    /// sub-window: the end of the units that the region has been granted, of a charge with a budget; and, if the counter follows
    /// another window than the charge, the end of its own sub-window.
    pub limit_until: Option<Timestamp>,
    /// Birth of the stored counter: the instant of its first step, which is this one if the counter was absent. Time 0
    /// if it is unknown, because the counter was re-based; and if the counter follows another window than the charge,
    /// by which it may expire earlier.
    pub born: Timestamp,
    /// Instant of the step on the counter before this one. Of a counter that was absent, and in some stores of one
    /// whose form or clock has changed, the instant of this step.
    pub previous: Timestamp,
}

/// Answers to the charges of one request, in their order.
pub type ChargeResults = SmallVec<[ChargeResult; 2]>;

impl Charge {
    /// An enforced charge on a counter that has a hash slot of its own.
    #[must_use]
    pub fn enforce(counter: CounterId, limit: Limit, generation: u64, cost: u64, expires_at: Timestamp) -> Self {
        let mode = ChargeMode::Enforce { expires_at };
        Self { counter, slot: HashSlotId::of(counter), request: None, limit, generation, cost, mode, budget: None }
    }

    /// Returns the request of whose charge this refund leaves nothing.
    #[must_use]
    pub fn refunds_whole(&self) -> Option<RequestId> {
        let ChargeMode::Refund { whole: Some(kind), .. } = self.mode else { return None };
        Some(self.request?.corrected(kind))
    }
}

impl ChargeResult {
    /// Returns the share of one call in the result of a charge that several calls made together, as if they had come one after
    /// the other: the call costs `cost`, and the earlier ones cost `before`. Units that were charged beyond the cost of the charge
    /// are of later calls: the share has none. All units of a repeated charge were charged before. `retry_at` is the instant of the
    /// step for a call after which there is room for another one of its cost.
    #[must_use]
    pub fn share(&self, charge: &Charge, before: u64, cost: u64) -> Self {
        if self.repeated {
            return *self;
        }
        let verdict = self.verdict;
        let (through, total) = (before.saturating_add(cost), charge.cost.saturating_add(self.leased));
        // Room before anything of the charge was made.
        let room = verdict.remaining.saturating_add(if verdict.admitted { charge.cost } else { 0 });
        let is_of_total = verdict.admitted && through <= total;
        let admitted = is_of_total || through < charge.cost && through <= room;
        let charged = self.charged && (is_of_total || !verdict.admitted);
        let taken = if charged {
            through
        } else if self.charged {
            total
        } else {
            0
        };
        let remaining = room.saturating_sub(taken);
        let retry_at = if admitted && remaining >= cost { self.at } else { verdict.retry_at };
        // A charge past the limit was evaluated before it counted; its units stay for the rest of the window.
        let window = charge.limit.window;
        let is_past_limit = self.charged && !verdict.admitted;
        let window_ends = if is_past_limit { window.start_of(window.sub_window(self.at) + 1) } else { self.at };
        let reset_at = verdict.reset_at.max(window_ends);
        let verdict = Verdict { admitted, remaining, retry_at, reset_at, ..verdict };
        Self { verdict, charged, leased: 0, ..*self }
    }
}

impl ChargeMode {
    /// Returns the instant in store time after which the charge has expired, if there is one.
    #[must_use]
    pub const fn expires_at(self) -> Option<Timestamp> {
        match self {
            Self::Enforce { expires_at }
            | Self::Lease { expires_at, .. }
            | Self::CountOnly { expires_at }
            | Self::Evaluate { expires_at } => Some(expires_at),
            Self::Backfill { .. } | Self::Refund { .. } | Self::Reset | Self::Reopen { .. } => None,
        }
    }

    /// Returns the same mode with another instant of expiry, if it has one.
    #[must_use]
    pub const fn expiring_at(self, expires_at: Timestamp) -> Self {
        match self {
            Self::Enforce { .. } => Self::Enforce { expires_at },
            Self::Lease { units_max, agents, .. } => Self::Lease { expires_at, units_max, agents },
            Self::CountOnly { .. } => Self::CountOnly { expires_at },
            Self::Evaluate { .. } => Self::Evaluate { expires_at },
            Self::Backfill { .. } | Self::Refund { .. } | Self::Reset | Self::Reopen { .. } => self,
        }
    }

    /// Returns the same mode, without a lease.
    #[must_use]
    pub const fn without_lease(self) -> Self {
        if let Self::Lease { expires_at, .. } = self { Self::Enforce { expires_at } } else { self }
    }

    /// Returns true if the charge has expired at `now`, an instant of store time.
    #[must_use]
    pub fn has_expired(self, now: Timestamp) -> bool {
        self.expires_at().is_some_and(|expires_at| expires_at < now)
    }

    /// Returns true if a full counter denies the charge.
    #[must_use]
    pub const fn is_enforced(self) -> bool {
        matches!(self, Self::Enforce { .. } | Self::Lease { .. })
    }

    /// Returns true if the charge is applied; `has_room` tells if all enforced charges of its request have room.
    #[must_use]
    pub const fn is_charged(self, has_room: bool) -> bool {
        match self {
            Self::Enforce { .. } | Self::Lease { .. } => has_room,
            Self::Evaluate { .. } => false,
            Self::CountOnly { .. }
            | Self::Backfill { .. }
            | Self::Refund { .. }
            | Self::Reset
            | Self::Reopen { .. } => true,
        }
    }

    /// Returns true if the charge takes units out of the counter. It is applied before the other charges of its request are
    /// evaluated, and creates no counter.
    #[must_use]
    pub const fn removes_units(self) -> bool {
        matches!(self, Self::Refund { .. } | Self::Reset)
    }
}
