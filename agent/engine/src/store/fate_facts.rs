//! Facts about a charge on which its [fate](super::fate::fate) depends, and the fates.

use tollgate_core::algorithm::Algorithm;
use tollgate_core::counter::{Charge, ChargeMode, ChargeResult, RequestId, StoreError};

use crate::rules::MatchedRule;

/// Kind of a charge.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ChargeKind {
    /// Units of a call, which the rule may deny.
    Enforced,
    /// Units that are counted whatever is decided: of a rule in shadow or with `charge: each`, of an exempt caller, or of a settlement.
    Counted,
    /// Slot of `concurrency`. The store releases it by the instant of its decision, so a late charge cannot take its place.
    Slot,
    /// Units that were admitted without the store, which are sent until it confirms them.
    Backfilled,
    /// Units that are given back.
    Returned,
}

/// Purpose of the units of a charge.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ChargeStanding {
    /// The call waits for the answer.
    Waits,
    /// The call is decided by this answer, or by the agent before the store was asked, and the units count.
    Counts,
    /// The call was decided before this answer came, and the units count.
    CountedBefore,
    /// No unit counts: the call is denied or held back, or a lease has paid it.
    Void,
    /// Same as `Void`, after a decision before this answer.
    VoidBefore,
}

/// Knowledge about a charge in the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum InStore {
    /// The store was not asked.
    NotAsked,
    Charged,
    /// It was charged before, under the same id.
    Repeated,
    NotCharged,
    /// There is no answer yet.
    Open,
    /// There will be no answer, and it may have been charged.
    Lost,
    /// The store read it too late, and has not charged it.
    Expired,
    /// The store has not charged it.
    Failed,
    /// The value under the key is no counter, so nothing can be charged.
    Unreadable,
}

/// Traits of the call and of the rule of a charge.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ChargeTraits {
    /// The store makes the charge once under its id.
    pub(crate) has_id: bool,
    /// The units may become a lease that can be spent.
    pub(crate) may_lease: bool,
    /// No unit comes back under the rule, so that agents repeat a denial for a sub-window.
    pub(crate) keeps_units: bool,
}

/// Course of the units of a charge after its decision and its answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    /// They count as the store has charged them.
    Keep,
    /// They stay charged for a retry of the call under its id, which would pass without a charge otherwise.
    KeepForRetry,
    /// They count, and are charged afterwards.
    Backfill,
    /// They are sent once more, as they are.
    Resend,
    /// They count, and a late answer decides what follows.
    Wait,
    /// They become a lease.
    Lease,
    /// They are given back.
    Refund,
    /// They stay charged and stand for no call.
    Strand,
    /// No further step.
    Drop,
}

impl ChargeTraits {
    /// Returns the traits of a charge under this id, if it has one.
    pub(crate) fn of(request: Option<RequestId>) -> Self {
        Self { has_id: request.is_some(), ..Self::default() }
    }
}

impl ChargeKind {
    /// Returns the kind of a charge in a request.
    pub(crate) fn of(charge: &Charge) -> Self {
        match charge.mode {
            ChargeMode::Backfill { .. } | ChargeMode::Reopen { .. } => Self::Backfilled,
            ChargeMode::Refund { .. } | ChargeMode::Reset => Self::Returned,
            _ if charge.limit.algorithm == Algorithm::Concurrency => Self::Slot,
            mode if mode.is_enforced() => Self::Enforced,
            _ => Self::Counted,
        }
    }

    /// Returns the kind of the charge of a rule.
    pub(crate) fn of_rule(matched: &MatchedRule<'_>) -> Self {
        match matched {
            matched if matched.is_slot() => Self::Slot,
            matched if matched.is_counted_always() => Self::Counted,
            _ => Self::Enforced,
        }
    }
}

impl InStore {
    /// Returns what an answer tells about one of its charges, or the error in place of an answer.
    pub(crate) fn of(answer: Result<Option<&ChargeResult>, StoreError>) -> Self {
        match answer {
            Ok(Some(result)) if result.repeated => Self::Repeated,
            Ok(Some(result)) if result.charged => Self::Charged,
            Ok(_) => Self::NotCharged,
            Err(error) => Self::from(error),
        }
    }
}

impl From<StoreError> for InStore {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::TimedOut => Self::Open,
            StoreError::AnswerLost => Self::Lost,
            StoreError::Expired(_) => Self::Expired,
            StoreError::Unreadable => Self::Unreadable,
            StoreError::Unreachable
            | StoreError::Full
            | StoreError::Busy
            | StoreError::Contended
            | StoreError::Moved
            | StoreError::Asked(_)
            | StoreError::Refused => Self::Failed,
        }
    }
}
