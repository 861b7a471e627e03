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

/// J3: agents whose rules have another window than the ledger would spend floor and granted units by their own window.
/// They would spend them several times in a window of the ledger.
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
    // The counter follows the newest rules that an agent has, if their window is that of the ledger.
    let newer = Charge { generation: 2, ..shorter.clone() };
    assert_eq!([shown(&newer), shown(&own)], [(false, 0, None), (true, 6, Some(ends_ms))]);
    assert_eq!(shown(&Charge { generation: 3, ..own.clone() }), (true, 6, Some(ends_ms)));
    // What a lease of older rules holds ends with the counter's own sub-window.
    let own_end_ms = START_MS + own.limit.window.sub_window_ms();
    assert_eq!(shown(&newer), (true, 6, Some(own_end_ms)), "it is counted by the rules of the ledger");
    // The limit of earlier terms lives on when the floor is that of the new ones.
    let of_terms = LimitWrite {
        limit: StoredLimit { window_ms: WINDOW_MS / 2, ..limit(6, u64::MAX, 2, None).limit },
        ..LimitWrite::default()
    };
    assert_eq!(region.write_floor(&of_terms), of_terms.limit);
    let newest = Charge { generation: 4, ..shorter };
    clock.set(ends_ms - 1);
    assert_eq!(shown(&newest), (true, 6, None));
    assert_eq!(shown(&own), (false, 6, Some(ends_ms)), "the units of the floor are in the window");
}

/// J3: rules with a shorter window are denied until the ledger has them. A counter that they converted would forget units of the
/// ledger's window: they would be given back, or admitted once more if the rules are withdrawn.
pub(super) fn units_stay_in_the_window_of_the_ledger<S: ChargeStore, L: LimitStore>(
    (region, clock): (RegionUnderTest<S, L>, Arc<HandClock>),
) {
    region.write_floor(&limit(6, u64::MAX, 1, None));
    let own = Charge { cost: 6, ..ask_global(COUNTER) };
    assert!(region.charge(&own).charged);
    let window = Window::new(WINDOW_MS / 5, 12).expect("a window");
    let shorter = Charge { limit: Limit { window, ..own.limit }, generation: 2, ..ask_global(COUNTER) };
    for after_ms in [1, WINDOW_MS / 3, WINDOW_MS / 2] {
        clock.set(START_MS + after_ms);
        assert!(!region.charge(&shorter).charged, "{after_ms}");
        assert_eq!(region.write(&limit(0, START_MS, 1, None)).used, 6, "{after_ms}");
        assert!(!region.charge(&own).charged, "{after_ms}");
    }
    assert!(!region.charge(&Charge { generation: 3, ..own }).charged, "the shorter window was withdrawn");
}
