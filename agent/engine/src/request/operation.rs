//! Operations: everything that needs a decision or a request to the store, and what becomes of it.
//!
//! [`life_cycle`](super::life_cycle) runs them.

use std::slice;
use std::time::Duration;

use tollgate_core::call::Call;
use tollgate_core::counter::{PrimaryIndex, StoreError};
use tollgate_core::decided_call::DecidedCall;
use tollgate_core::decision::LimitStatus;
use tollgate_core::rules::MatchScope;

use crate::call::{CallerReset, Decisions};
use crate::request::store_request::StoreRequest;

/// Deadline of requests to the store that no call waits for: settlements, releases, backfills and those of the maintenance.
pub const UNATTENDED_DEADLINE: Duration = Duration::from_millis(50);

/// Anything that needs a decision or a request to the store.
#[derive(Clone, Copy, Debug)]
pub enum Operation<'a, 'c> {
    /// Decides the calls of one request: their enforced charges are charged all or none. Each call has a decision of
    /// its own. A rule that one of the calls replaces applies to none of them.
    Check {
        /// The calls.
        calls: &'a [Call<'c>],
        /// Restriction of the rules that may apply.
        scope: MatchScope<'a>,
    },
    /// Corrects the cost of a call after it has ended, under every rule that goes by the call's own cost.
    Settle {
        /// The call.
        call: &'a Call<'c>,
        /// Units that the call cost beyond its request, at most one quota; negative if it cost less.
        units: i64,
        /// Decision on the call. With it the call is settled once, and no more is refunded than it was charged; without it
        /// nothing is refunded.
        decided: Option<&'a DecidedCall>,
    },
    /// Gives back units without a decision, under every rule with `refunds` that goes by the call's own cost.
    Refund {
        /// The call, whose cost are the units; at most one quota.
        call: &'a Call<'c>,
        /// Restriction of the rules that may apply.
        scope: MatchScope<'a>,
    },
    /// Ends a call: frees its slots under rules of `concurrency`.
    Release {
        /// The call.
        call: &'a Call<'c>,
        /// Decision on the call, whose instant identifies the slots.
        decided: &'a DecidedCall,
    },
    /// Empties the counters of all rules that apply to a call, slots excepted.
    Reset {
        /// The call, whose cost does not matter.
        call: &'a Call<'c>,
    },
    /// Charges the next few unsynced units to a primary that has recovered. To be repeated until it is done.
    Backfill(PrimaryIndex),
    /// Opens the next few counters again whose units a primary has lost. To be repeated until it is done.
    Reopen(PrimaryIndex),
}

/// Result of [`Engine::begin`](crate::Engine::begin).
#[derive(Debug)]
pub enum Progress {
    /// The operation is done.
    Done(Output),
    /// The operation is done. The store must apply these charges; their answer goes to [`Engine::late_answer`](crate::Engine::late_answer).
    Deferred(Output, StoreRequest),
    /// The store must apply these charges, and their answer decides.
    NeedsStore(StoreRequest),
}

/// Result of an operation.
#[derive(Debug)]
pub enum Output {
    /// Of [`Operation::Check`]: a decision for each call, in their order.
    Decisions(Decisions),
    /// Of [`Operation::Settle`], [`Operation::Refund`] and [`Operation::Release`]: the status of the tightest rule concerned
    /// afterwards, none if no rule is concerned; or the reason for which nothing was refunded.
    Adjusted(Result<Option<LimitStatus>, StoreError>),
    /// Of [`Operation::Reset`].
    Reset(CallerReset),
    /// Of [`Operation::Backfill`]: the reason for which the store was not told, if it was not.
    Backfilled(Result<(), StoreError>),
    /// Of [`Operation::Reopen`]: the reason for which the counters are not open, if they are not.
    Reopened(Result<(), StoreError>),
}

impl<'a, 'c> Operation<'a, 'c> {
    /// Check of one call, to which all rules may apply.
    #[must_use]
    pub fn check(call: &'a Call<'c>) -> Self {
        Self::Check { calls: slice::from_ref(call), scope: MatchScope::default() }
    }
}

impl Output {
    /// Returns the decisions of a check; other operations have none.
    #[must_use]
    pub fn into_decisions(self) -> Decisions {
        if let Self::Decisions(decisions) = self { decisions } else { Decisions::new() }
    }
}
