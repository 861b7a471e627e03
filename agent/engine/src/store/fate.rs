//! Fate of a charge: what becomes of units once it is known, or will never be known, if the store has charged them.
//!
//! [`fate`] alone decides it: by the kind of the charge, by what its units stand for after the decision, by what is known about it in
//! the store, and by traits of its call and rule. The places that ask it execute what it says. Its whole table is a test.

#[cfg(test)]
mod tests;

use crate::store::fate_facts::{ChargeKind, ChargeStanding, ChargeTraits, Fate, InStore};
#[cfg(feature = "planted-mistakes")]
use crate::store::fate_mistake::mistaken;

/// Returns what becomes of the units of a charge.
pub(crate) fn fate(kind: ChargeKind, standing: ChargeStanding, in_store: InStore, traits: ChargeTraits) -> Fate {
    let fate = by_table(kind, standing, in_store, traits);
    #[cfg(feature = "planted-mistakes")]
    let fate = mistaken(kind, standing, in_store, traits, fate);
    fate
}

fn by_table(kind: ChargeKind, standing: ChargeStanding, in_store: InStore, traits: ChargeTraits) -> Fate {
    match kind {
        ChargeKind::Backfilled => of_backfill(in_store),
        ChargeKind::Returned => of_refund(in_store, traits),
        ChargeKind::Enforced | ChargeKind::Counted | ChargeKind::Slot => match standing {
            ChargeStanding::Waits => of_waiting(kind, in_store, traits),
            ChargeStanding::Counts => of_counting(kind, in_store),
            ChargeStanding::CountedBefore => of_counted_before(kind, in_store, traits),
            ChargeStanding::Void => of_void(kind, in_store, traits),
            ChargeStanding::VoidBefore => of_void_before(kind, in_store, traits),
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
