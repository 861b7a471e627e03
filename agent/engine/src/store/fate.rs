//! Fate of a charge: what becomes of units once it is known, or will never be known, if the store has charged them.
//!
//! [`fate`] alone decides it: by the kind of the charge, by what its units stand for after the decision, by what is known about it in
//! the store, and by traits of its call and rule. The places that ask it execute what it says. Its whole table is a test.

#[cfg(test)]
mod tests;

use tollgate_core::algorithm::Algorithm;
use tollgate_core::counter::{Charge, ChargeMode, ChargeResult, RequestId, StoreError};

use crate::rules::MatchedRule;
#[cfg(feature = "planted-mistakes")]
use crate::store::fate_mistake::mistaken;

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
pub(crate) enum Standing {
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

/// Returns what becomes of the units of a charge.
pub(crate) fn fate(kind: ChargeKind, standing: Standing, in_store: InStore, traits: ChargeTraits) -> Fate {
    let fate = by_table(kind, standing, in_store, traits);
    #[cfg(feature = "planted-mistakes")]
    let fate = mistaken(kind, standing, in_store, traits, fate);
    fate
}

fn by_table(kind: ChargeKind, standing: Standing, in_store: InStore, traits: ChargeTraits) -> Fate {
    match kind {
        ChargeKind::Backfilled => of_backfill(in_store),
        ChargeKind::Returned => of_refund(in_store, traits),
        ChargeKind::Enforced | ChargeKind::Counted | ChargeKind::Slot => match standing {
            Standing::Waits => of_waiting(kind, in_store, traits),
            Standing::Counts => of_counting(kind, in_store),
            Standing::CountedBefore => of_counted_before(kind, in_store, traits),
            Standing::Void => of_void(kind, in_store, traits),
            Standing::VoidBefore => of_void_before(kind, in_store, traits),
        },
    }
}

/// Units that are sent again keep their id, so that the store charges them once.
fn of_backfill(in_store: InStore) -> Fate {
    match in_store {
        InStore::Charged | InStore::Repeated | InStore::NotCharged => Fate::Keep,
        // No later charge could succeed either.
        InStore::Unreadable => Fate::Drop,
        InStore::NotAsked | InStore::Open | InStore::Lost | InStore::Expired | InStore::Failed => Fate::Resend,
    }
}

fn of_refund(in_store: InStore, traits: ChargeTraits) -> Fate {
    match in_store {
        InStore::Charged | InStore::Repeated | InStore::NotCharged => Fate::Keep,
        InStore::Unreadable => Fate::Drop,
        // A refund without an id would take another call's units if it was made.
        InStore::Open | InStore::Lost if !traits.has_id => Fate::Drop,
        InStore::NotAsked | InStore::Open | InStore::Lost | InStore::Expired | InStore::Failed => Fate::Resend,
    }
}

/// The deadline of the call has not passed.
fn of_waiting(kind: ChargeKind, in_store: InStore, traits: ChargeTraits) -> Fate {
    match in_store {
        InStore::Expired => Fate::Resend,
        // A slot of the lost request would be held until it expires.
        InStore::Lost if kind != ChargeKind::Slot || traits.has_id => Fate::Resend,
        _ => Fate::Wait,
    }
}

fn of_counting(kind: ChargeKind, in_store: InStore) -> Fate {
    match in_store {
        InStore::Charged => Fate::Keep,
        // An answer that comes later cannot be this slot.
        InStore::Open | InStore::Unreadable if kind == ChargeKind::Slot => Fate::Backfill,
        InStore::Open => Fate::Wait,
        InStore::Repeated | InStore::NotCharged | InStore::Unreadable => Fate::Drop,
        // An unknown charge may count twice, and never less than once.
        InStore::NotAsked | InStore::Lost | InStore::Expired | InStore::Failed => Fate::Backfill,
    }
}

/// The answer comes after the decision.
fn of_counted_before(kind: ChargeKind, in_store: InStore, traits: ChargeTraits) -> Fate {
    match in_store {
        // The slot was entered with the decision. Under its id, it is the same one.
        InStore::Charged if kind == ChargeKind::Slot && !traits.has_id => Fate::Refund,
        _ if kind == ChargeKind::Slot => Fate::Drop,
        InStore::Charged | InStore::Repeated => Fate::Keep,
        InStore::Unreadable => Fate::Drop,
        // A request without an answer after its late one will have none.
        InStore::NotAsked
        | InStore::NotCharged
        | InStore::Open
        | InStore::Lost
        | InStore::Expired
        | InStore::Failed => Fate::Backfill,
    }
}

fn of_void(kind: ChargeKind, in_store: InStore, traits: ChargeTraits) -> Fate {
    match in_store {
        InStore::Charged if kind != ChargeKind::Slot => Fate::Keep,
        InStore::Charged if traits.has_id => Fate::KeepForRetry,
        InStore::Charged => Fate::Refund,
        InStore::Open => Fate::Wait,
        _ => Fate::Drop,
    }
}

fn of_void_before(kind: ChargeKind, in_store: InStore, traits: ChargeTraits) -> Fate {
    match in_store {
        InStore::Charged if kind == ChargeKind::Counted => Fate::Keep,
        InStore::Charged if traits.has_id => Fate::KeepForRetry,
        InStore::Charged if traits.may_lease => Fate::Lease,
        InStore::Charged if traits.keeps_units => Fate::Strand,
        InStore::Charged => Fate::Refund,
        // An unknown charge is never refunded: it may not have been made.
        _ => Fate::Drop,
    }
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
            | StoreError::Refused => Self::Failed,
        }
    }
}
