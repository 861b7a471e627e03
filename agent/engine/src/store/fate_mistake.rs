//! Mistakes about the fate of a charge, for tests of the simulation: each alters the rows of the table that it concerns, on the
//! current thread. No other build contains them.

use std::cell::Cell;

use crate::store::fate_facts::{ChargeKind, ChargeStanding, ChargeTraits, Fate, InStore};

thread_local! {
    static PLANTED: Cell<Option<FateMistake>> = const { Cell::new(None) };
}

/// Mistake about the fate of a charge.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FateMistake {
    /// A late charge of a denied call with an id is refunded, so that its retry passes without a charge.
    RetryRefunded,
    /// A late charge of a rule that counts always is refunded.
    CountedRefunded,
    /// A slot that was held without the store stays taken, although its late charge takes another one.
    SlotKept,
    /// The slot of a call that is denied stays taken.
    DeniedSlotKept,
    /// A late charge is refunded although agents repeat denials, because no unit comes back.
    StrandedRefunded,
    /// Units whose charge is unknown are not entered.
    UnknownForgotten,
    /// Units whose request has expired are not entered.
    ExpiredForgotten,
    /// Units that the store had no room for, or that it could not be told of, are not entered.
    FailedForgotten,
    /// Units are entered before the late answer to their request, which may have charged them.
    OpenBackfilled,
    /// Units are entered again after their late answer has said that they are charged.
    ChargedBackfilled,
    /// Units whose entry was not answered are not entered again.
    ResendForgotten,
    /// A refund without an id is made again although it may have been made.
    RefundResent,
}

/// Plants a mistake in all engines of the current thread, or removes it.
pub fn plant_fate_mistake(mistake: Option<FateMistake>) {
    PLANTED.set(mistake);
}

/// Returns the fate by the planted mistake.
pub(super) fn mistaken(
    kind: ChargeKind,
    standing: ChargeStanding,
    in_store: InStore,
    traits: ChargeTraits,
    right: Fate,
) -> Fate {
    let Some(mistake) = PLANTED.get() else { return right };
    match (mistake, kind, standing, in_store, right) {
        (FateMistake::RetryRefunded, ChargeKind::Enforced, ChargeStanding::VoidBefore, _, Fate::KeepForRetry)
        | (
            FateMistake::CountedRefunded,
            ChargeKind::Counted,
            ChargeStanding::VoidBefore,
            InStore::Charged,
            Fate::Keep,
        )
        | (FateMistake::StrandedRefunded, _, ChargeStanding::VoidBefore, _, Fate::Strand) => Fate::Refund,
        (FateMistake::SlotKept, ChargeKind::Slot, ChargeStanding::CountedBefore, _, Fate::Refund)
        | (
            FateMistake::DeniedSlotKept,
            ChargeKind::Slot,
            ChargeStanding::Void | ChargeStanding::VoidBefore,
            _,
            Fate::Refund,
        )
        | (FateMistake::UnknownForgotten, _, _, InStore::Lost, Fate::Backfill)
        | (FateMistake::ExpiredForgotten, _, _, InStore::Expired, Fate::Backfill)
        | (FateMistake::FailedForgotten, _, _, InStore::Failed | InStore::NotAsked, Fate::Backfill)
        | (FateMistake::ResendForgotten, ChargeKind::Backfilled, _, InStore::Open | InStore::Lost, Fate::Resend) => {
            Fate::Drop
        }
        (FateMistake::OpenBackfilled, _, ChargeStanding::Counts, InStore::Open, Fate::Wait)
        | (FateMistake::ChargedBackfilled, _, ChargeStanding::CountedBefore, InStore::Charged, Fate::Keep) => {
            Fate::Backfill
        }
        (FateMistake::RefundResent, ChargeKind::Returned, _, InStore::Open | InStore::Lost, Fate::Drop)
            if !traits.has_id =>
        {
            Fate::Resend
        }
        _ => right,
    }
}
