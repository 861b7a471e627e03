//! Charges with a budget by another window than that of the ledger.

use std::sync::Arc;

use tollgate_core::algorithm::Limit;
use tollgate_core::clock::Timestamp;
use tollgate_core::counter::{Charge, ChargeMode};
use tollgate_core::regions::limit_store::LimitStore;
use tollgate_core::regions::stored_limit::{LimitWrite, StoredLimit};
use tollgate_core::window::Window;

use super::budgets::{COUNTER, FLOOR, RegionUnderTest, START_MS, WINDOW_MS, ask_global, limit};
use super::{FOREVER, HandClock};
use crate::store::ChargeStore;

/// J3: agents whose rules have another window than the ledger would spend floor and granted units by it, and so several times in a
/// window of the ledger.
pub(super) fn units_of_another_window_are_not_spent<S: ChargeStore, L: LimitStore>(
    (region, clock): (RegionUnderTest<S, L>, Arc<HandClock>),
) {
    let of_width = |width_ms| {
        let one = ask_global(COUNTER);
        Charge { limit: Limit { window: Window::new(width_ms, 12).expect("a window"), ..one.limit }, ..one }
    };
    let (shorter, longer, own) = (of_width(WINDOW_MS / 2), of_width(2 * WINDOW_MS), of_width(WINDOW_MS));
    let shown = |charge: &Charge| {
        let result = region.charge(charge);
        (result.charged, result.limit, result.limit_until.map(Timestamp::as_ms))
    };
    assert_eq!(shown(&shorter), (true, FLOOR, None), "no aggregator has written a floor yet");
    let ends_ms = START_MS + 10_000;
    region.write_floor(&limit(2, u64::MAX, 1, None));
    region.write(&limit(4, ends_ms, 1, None));
    for other in [&shorter, &longer] {
        assert_eq!(shown(other), (false, 0, None));
        let lease = ChargeMode::Lease { expires_at: FOREVER, units_max: 9, agents: 1 };
        assert_eq!(region.charge(&Charge { mode: lease, ..other.clone() }).leased, 0);
    }
    assert_eq!(shown(&own), (true, 6, Some(ends_ms)), "the rules of the ledger");
    // The counter follows the newest rules that an agent has, and those of the ledger are older or newer.
    let newer = Charge { generation: 2, ..shorter.clone() };
    // What a lease of older rules would hold ends with the counter's own sub-window.
    let part_ms = newer.limit.window.part_ms();
    assert_eq!([shown(&newer), shown(&own)], [(false, 0, None), (false, 0, Some(START_MS + part_ms))]);
    assert_eq!(shown(&Charge { generation: 3, ..own.clone() }), (true, 6, Some(ends_ms)));
    let own_end_ms = START_MS + own.limit.window.part_ms();
    assert_eq!(shown(&newer), (true, 6, Some(own_end_ms)), "it is counted by the rules of the ledger");
    // The limit of earlier terms lives on when the floor is that of the new ones.
    let of_terms = LimitWrite {
        limit: StoredLimit { window_ms: WINDOW_MS / 2, ..limit(5, u64::MAX, 2, None).limit },
        ..LimitWrite::default()
    };
    assert_eq!(region.write_floor(&of_terms), of_terms.limit);
    let newest = Charge { generation: 4, ..shorter };
    clock.set(ends_ms - 1);
    assert_eq!(shown(&newest), (true, 5, None));
    assert_eq!(shown(&own), (false, 5, Some(ends_ms)), "the units of the floor are in the window");
}
