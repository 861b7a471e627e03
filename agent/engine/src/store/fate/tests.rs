//! The whole table of fates.

use tollgate_core::counter::StoreError;

use super::*;

/// Columns of the table.
const COLUMNS: [InStore; 9] = [
    InStore::NotAsked,
    InStore::Charged,
    InStore::Repeated,
    InStore::NotCharged,
    InStore::Open,
    InStore::Lost,
    InStore::Expired,
    InStore::Failed,
    InStore::Unreadable,
];

const KINDS: [ChargeKind; 5] =
    [ChargeKind::Enforced, ChargeKind::Counted, ChargeKind::Slot, ChargeKind::Backfilled, ChargeKind::Returned];
const STANDINGS: [ChargeStanding; 5] = [
    ChargeStanding::Waits,
    ChargeStanding::Counts,
    ChargeStanding::CountedBefore,
    ChargeStanding::Void,
    ChargeStanding::VoidBefore,
];

fn all_traits() -> impl Iterator<Item = ChargeTraits> {
    (0..8).map(|bits| ChargeTraits { has_id: bits & 1 > 0, may_lease: bits & 2 > 0, keeps_units: bits & 4 > 0 })
}

/// Returns the fate that the table has for a charge, by a letter: keep, keep for the (r)etry, (b)ackfill, re(s)end, (w)ait, (l)ease,
/// re(f)und, s(t)rand; a point if nothing follows.
#[expect(clippy::match_same_arms, reason = "a table")]
fn expected(kind: ChargeKind, standing: ChargeStanding, traits: ChargeTraits) -> &'static str {
    let ChargeTraits { has_id, may_lease, keeps_units } = traits;
    // NotAsked, Charged, Repeated, NotCharged, Open, Lost, Expired, Failed, Unreadable
    match (kind, standing) {
        // Units and refunds that no call waits for.
        (ChargeKind::Backfilled, _) => "skkkssss.",
        (ChargeKind::Returned, _) if has_id => "skkkssss.",
        (ChargeKind::Returned, _) => "skkk..ss.",
        // A call that waits: its request is sent once more if that charges nothing twice.
        (ChargeKind::Enforced | ChargeKind::Counted, ChargeStanding::Waits) => "wwwwwssww",
        (ChargeKind::Slot, ChargeStanding::Waits) if has_id => "wwwwwssww",
        (ChargeKind::Slot, ChargeStanding::Waits) => "wwwwwwsww",
        // An admitted call, and units that are counted anyway.
        (ChargeKind::Enforced | ChargeKind::Counted, ChargeStanding::Counts) => "bk..wbbb.",
        (ChargeKind::Slot, ChargeStanding::Counts) => "bk..bbbbb",
        (ChargeKind::Enforced | ChargeKind::Counted, ChargeStanding::CountedBefore) => "bkkbbbbb.",
        (ChargeKind::Slot, ChargeStanding::CountedBefore) if has_id => ".........",
        (ChargeKind::Slot, ChargeStanding::CountedBefore) => ".f.......",
        // A denied call, one that is held back, and one that a lease has paid.
        (ChargeKind::Enforced | ChargeKind::Counted, ChargeStanding::Void) => ".k..w....",
        (ChargeKind::Slot, ChargeStanding::Void) if has_id => ".r..w....",
        (ChargeKind::Slot, ChargeStanding::Void) => ".f..w....",
        (ChargeKind::Counted, ChargeStanding::VoidBefore) => ".k.......",
        (_, ChargeStanding::VoidBefore) if has_id => ".r.......",
        (_, ChargeStanding::VoidBefore) if may_lease => ".l.......",
        (_, ChargeStanding::VoidBefore) if keeps_units => ".t.......",
        (ChargeKind::Enforced | ChargeKind::Slot, ChargeStanding::VoidBefore) => ".f.......",
    }
}

#[test]
fn each_charge_has_the_fate_of_the_table() {
    let letter = |fate: Fate| match fate {
        Fate::Keep => 'k',
        Fate::KeepForRetry => 'r',
        Fate::Backfill => 'b',
        Fate::Resend => 's',
        Fate::Wait => 'w',
        Fate::Lease => 'l',
        Fate::Refund => 'f',
        Fate::Strand => 't',
        Fate::Drop => '.',
    };
    for (kind, standing) in KINDS.into_iter().flat_map(|kind| STANDINGS.map(|standing| (kind, standing))) {
        for traits in all_traits() {
            let found: String =
                COLUMNS.iter().map(|in_store| letter(fate(kind, standing, *in_store, traits))).collect();
            assert_eq!(found, expected(kind, standing, traits), "{kind:?}, {standing:?}, {traits:?}");
        }
    }
}

#[test]
fn each_error_tells_whether_the_charge_can_have_been_made() {
    use tollgate_core::clock::Timestamp;
    for (error, known) in [
        (StoreError::TimedOut, InStore::Open),
        (StoreError::AnswerLost, InStore::Lost),
        (StoreError::Expired(Timestamp::default()), InStore::Expired),
        (StoreError::Unreadable, InStore::Unreadable),
        (StoreError::Unreachable, InStore::Failed),
        (StoreError::Full, InStore::Failed),
        (StoreError::Busy, InStore::Failed),
        (StoreError::Contended, InStore::Failed),
        (StoreError::Refused, InStore::Failed),
    ] {
        assert_eq!(InStore::from(error), known);
        assert_eq!(error.may_have_charged(), matches!(known, InStore::Open | InStore::Lost), "{error}");
    }
}
