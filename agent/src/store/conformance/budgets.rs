//! Charges with a budget, and writes of the limits that decide them.

use std::sync::Arc;

use tollgate_core::algorithm::Limit;
use tollgate_core::clock::Timestamp;
use tollgate_core::counter::{Charge, ChargeMode, ChargeResult, CounterId};
use tollgate_core::regions::EntryId;
use tollgate_core::regions::limit_store::LimitStore;
use tollgate_core::regions::stored_limit::{Fence, LimitAnswer, LimitWrite, ShownBudget, StoredLimit};
use tollgate_core::window::Window;

use super::{FOREVER, HandClock, ask, budget_windows};
use crate::store::ChargeStore;

pub(super) const START_MS: u64 = 6_000_000;
pub(super) const COUNTER: u128 = 1;
const RULE: &str = "global";
pub(super) const FLOOR: u64 = 3;
pub(super) const WINDOW_MS: u64 = 60_000;

/// Store of a region: its counters, and the limits that its aggregator writes.
pub(in crate::store) struct RegionUnderTest<S, L> {
    pub(in crate::store) store: Arc<S>,
    pub(in crate::store) limits: Arc<L>,
}

impl<S: ChargeStore, L: LimitStore> RegionUnderTest<S, L> {
    pub(super) fn charge(&self, charge: &Charge) -> ChargeResult {
        super::charge(&*self.store, std::slice::from_ref(charge))[0]
    }

    /// Returns the units that are left, and the end of the granted ones.
    fn left(&self, charge: &Charge) -> (u64, Option<u64>) {
        let evaluated = Charge { cost: 0, mode: ChargeMode::Evaluate { expires_at: FOREVER }, ..charge.clone() };
        let result = self.charge(&evaluated);
        assert_eq!(result.verdict.remaining, result.limit.saturating_sub(self.used()));
        (result.verdict.remaining, result.limit_until.map(Timestamp::as_ms))
    }

    pub(super) fn write(&self, write: &LimitWrite) -> LimitAnswer {
        let counter = CounterId::from_u128(COUNTER);
        super::now(self.limits.write_limit(RULE, counter, write)).expect("the store answers").1
    }

    pub(super) fn write_floor(&self, write: &LimitWrite) -> StoredLimit {
        super::now(self.limits.write_floor(RULE, write)).expect("the store answers").1
    }

    /// Returns the units of the last window by an answer to a write that changes nothing.
    fn used(&self) -> u64 {
        let older = limit(u64::MAX, u64::MAX, 0, None);
        self.write(&older).used
    }
}

/// Runs the cases; `make` returns an empty store that goes by the clock.
pub(in crate::store) fn run_budgets<S: ChargeStore, L: LimitStore>(
    make: impl Fn(Arc<HandClock>) -> RegionUnderTest<S, L>,
) {
    let fresh = || {
        let clock = Arc::new(HandClock::at(START_MS));
        (make(clock.clone()), clock)
    };
    units_are_added_to_the_floor_until_their_term_ends(fresh());
    units_hold_for_no_longer_than_a_term_after_a_step_back(fresh());
    a_written_floor_takes_the_place_of_that_of_the_charge(&fresh().0);
    a_limit_that_was_lowered_rises_by_a_writer_who_has_read_the_give_back(&fresh().0);
    an_older_writer_only_lowers(fresh());
    an_older_generation_has_the_quota_in_force(&fresh().0);
    budget_windows::units_of_another_window_are_not_spent(fresh());
    budget_windows::units_stay_in_the_window_of_the_ledger(fresh());
    leases_are_within_the_limit(&fresh().0);
    several_budgets_of_a_call_are_charged_together(&fresh().0);
    what_a_writer_shows_is_kept(&fresh().0);
}

pub(super) fn ask_global(counter: u128) -> Charge {
    Charge { budget: Some(RULE.into()), ..ask(counter, FLOOR) }
}

pub(super) fn limit(units: u64, until_ms: u64, as_of: u64, fence: Option<u64>) -> LimitWrite {
    let id = |sequence| EntryId { writer: u64::MAX - 7, sequence };
    let fence = fence.map(|sequence| Fence { id: id(sequence), grant: id(1), keeps: units });
    let until = Timestamp::from_ms(until_ms);
    let limit = StoredLimit { units, until, window_ms: WINDOW_MS, as_of, fence, ..StoredLimit::default() };
    LimitWrite { limit, ..LimitWrite::default() }
}

/// J2: granted units hold until their term has ended by the store's clock.
fn units_are_added_to_the_floor_until_their_term_ends<S: ChargeStore, L: LimitStore>(
    (region, clock): (RegionUnderTest<S, L>, Arc<HandClock>),
) {
    let one = ask_global(COUNTER);
    assert!((0..FLOOR).all(|_| region.charge(&one).charged));
    let denied = region.charge(&one);
    assert_eq!((denied.charged, denied.limit, denied.limit_until), (false, FLOOR, None));
    let ends_ms = START_MS + 10_000;
    let answer = region.write(&limit(2, ends_ms, 1, None));
    assert_eq!((answer.limit.units, answer.floor, answer.used), (2, 0, FLOOR));
    let admitted = region.charge(&one);
    assert_eq!((admitted.charged, admitted.limit, admitted.verdict.remaining), (true, FLOOR + 2, 1));
    assert_eq!(admitted.limit_until, Some(Timestamp::from_ms(ends_ms)));
    clock.set(ends_ms - 1);
    assert_eq!(region.left(&one), (1, Some(ends_ms)));
    clock.set(ends_ms);
    assert_eq!(region.left(&one), (0, None));
    assert!(!region.charge(&one).charged);
    let other = region.charge(&ask_global(COUNTER + 1));
    assert_eq!((other.limit, other.limit_until), (FLOOR, None), "the other counter has the floor only");
    assert_eq!(region.charge(&ask(COUNTER + 2, 7)).limit, 7, "a charge without a budget has its own quota");
    // The counter has left its last sub-window once a window and a sub-window have passed.
    clock.set(ends_ms + 60_000);
    assert_eq!(region.used(), 0);
}

/// J2: a clock that steps back does not lengthen a term: the units end with it, until the limit is written anew.
fn units_hold_for_no_longer_than_a_term_after_a_step_back<S: ChargeStore, L: LimitStore>(
    (region, clock): (RegionUnderTest<S, L>, Arc<HandClock>),
) {
    let one = ask_global(COUNTER);
    let written = |from_ms, until_ms| {
        let write = limit(4, until_ms, 1, None);
        LimitWrite { limit: StoredLimit { from: Timestamp::from_ms(from_ms), ..write.limit }, ..write }
    };
    let (asked_ms, ends_ms) = (START_MS - 1_000, START_MS + 9_000);
    assert_eq!(region.write(&written(asked_ms, ends_ms)).limit, written(asked_ms, ends_ms).limit);
    for (now_ms, expected) in [
        (START_MS, (FLOOR + 4, Some(ends_ms))),
        (asked_ms, (FLOOR + 4, Some(ends_ms))),
        (asked_ms - 1, (FLOOR, None)),
        (START_MS - 3_600_000, (FLOOR, None)),
    ] {
        clock.set(now_ms);
        let result =
            region.charge(&Charge { cost: 0, mode: ChargeMode::Evaluate { expires_at: FOREVER }, ..one.clone() });
        assert_eq!((result.limit, result.limit_until.map(Timestamp::as_ms)), expected, "{now_ms}");
    }
    region.write(&written(START_MS - 3_601_000, START_MS - 3_591_000));
    assert_eq!(region.charge(&one).limit, FLOOR + 4, "the holder has written it anew");
}

/// J2: the floor of the ledger decides, whatever the rules of the agent say.
fn a_written_floor_takes_the_place_of_that_of_the_charge<S: ChargeStore, L: LimitStore>(
    region: &RegionUnderTest<S, L>,
) {
    let one = ask_global(COUNTER);
    let floor = |units, as_of, fence| limit(units, u64::MAX, as_of, fence);
    assert_eq!(region.write_floor(&floor(8, 1, None)), floor(8, 1, None).limit);
    assert_eq!(region.charge(&one).limit, 8);
    assert_eq!(region.write_floor(&floor(1, 2, Some(9))), floor(1, 2, Some(9)).limit);
    assert_eq!(region.charge(&one).limit, 1);
    assert_eq!(region.write_floor(&floor(8, 3, None)), floor(1, 2, Some(9)).limit, "the give-back is not read");
    assert_eq!(region.write(&limit(4, u64::MAX, 1, None)).floor, 1);
    let denied = region.charge(&Charge { cost: 5, ..one });
    assert_eq!((denied.charged, denied.limit, denied.limit_until), (false, 5, Some(FOREVER)));
    let recreated =
        LimitWrite { limit: StoredLimit { ledger: u64::MAX - 1, ..floor(6, 1, None).limit }, ..LimitWrite::default() };
    assert_eq!(region.write_floor(&recreated), recreated.limit, "the ledger was created again");
    assert_eq!(region.charge(&ask_global(COUNTER + 1)).limit, 6);
    let floor = |units, as_of, fence| {
        let write = floor(units, as_of, fence);
        LimitWrite { limit: StoredLimit { ledger: u64::MAX - 1, ..write.limit }, ..write }
    };
    assert_eq!(region.write_floor(&floor(0, 3, Some(9))).units, 0);
    assert_eq!(region.charge(&ask_global(COUNTER + 1)).limit, 0);
}

fn a_limit_that_was_lowered_rises_by_a_writer_who_has_read_the_give_back<S: ChargeStore, L: LimitStore>(
    region: &RegionUnderTest<S, L>,
) {
    let (one, ends_ms) = (ask_global(COUNTER), START_MS + 60_000);
    let write = |units, as_of, fence, seen: Option<EntryId>| {
        let write = LimitWrite { seen, ..limit(units, ends_ms, as_of, fence) };
        assert!(region.write(&write).limit.units <= units);
        region.left(&one).0 - FLOOR
    };
    let give_back = limit(0, 0, 0, Some(5)).limit.fence.map(|fence| fence.id);
    assert_eq!(write(9, 3, None, None), 9);
    assert_eq!(write(4, 3, Some(5), None), 4, "lowered");
    assert_eq!(write(9, 4, None, None), 4, "the give-back is unknown to the writer");
    assert_eq!(write(9, 2, None, give_back), 4, "the writer has read less of the ledger");
    assert_eq!(write(9, 4, None, give_back), 9, "raised");
}

/// A writer that was suspended for longer than a term does not raise a limit, nor does one that has not read the give-back.
fn an_older_writer_only_lowers<S: ChargeStore, L: LimitStore>(
    (region, clock): (RegionUnderTest<S, L>, Arc<HandClock>),
) {
    let (one, ends_ms) = (ask_global(COUNTER), START_MS + 60_000);
    region.write(&limit(4, ends_ms, 3, Some(5)));
    assert_eq!(region.write(&limit(9, ends_ms + 1, 2, None)).limit, limit(4, ends_ms, 3, Some(5)).limit);
    region.write(&limit(2, START_MS + 10, 2, None));
    assert_eq!(region.left(&one), (FLOOR + 2, Some(START_MS + 10)));
    for now_ms in [ends_ms, ends_ms + 3_600_000] {
        clock.set(now_ms);
        assert_eq!(region.write(&limit(9, now_ms + 60_000, 4, None)).limit.units, 2, "the give-back is not read");
        assert_eq!(region.left(&one), (FLOOR, None));
    }
    let seen = limit(0, 0, 0, Some(5)).limit.fence.map(|fence| fence.id);
    let until_ms = ends_ms + 3_660_000;
    region.write(&LimitWrite { seen, ..limit(4, until_ms, 4, None) });
    assert_eq!(region.left(&one).0, FLOOR + 4, "the give-back is read");
    clock.set(until_ms + 3_600_000);
    assert_eq!(
        region.write(&limit(9, until_ms + 3_660_000, 3, None)).limit.units,
        4,
        "an older writer, long afterwards"
    );
    assert_eq!(region.left(&one).0, FLOOR);
}

fn an_older_generation_has_the_quota_in_force<S: ChargeStore, L: LimitStore>(region: &RegionUnderTest<S, L>) {
    region.write(&limit(4, u64::MAX, 1, None));
    let newer = Charge { generation: 2, ..ask_global(COUNTER) };
    let window = Window::new(30_000, 6).expect("a window");
    let older = Charge { limit: Limit { window, ..newer.limit }, generation: 1, ..newer.clone() };
    assert_eq!(region.charge(&newer).limit, FLOOR + 4);
    region.write(&limit(1, u64::MAX, 2, None));
    let result = region.charge(&older);
    assert_eq!((result.charged, result.limit, result.verdict.remaining), (true, FLOOR + 1, 2));
    assert_eq!(result.born, Timestamp::default(), "the counter follows another window");
    let end = newer.limit.window.start_of(newer.limit.window.sub_window(result.at) + 1);
    assert_eq!(result.limit_until, Some(end), "the end of its own sub-window");
    region.write(&limit(0, u64::MAX, 3, None));
    assert_eq!(region.charge(&Charge { cost: 2, ..older.clone() }).limit, FLOOR);
    region.write_floor(&limit(6, u64::MAX, 3, None));
    let result = region.charge(&older);
    assert_eq!((result.charged, result.limit, result.verdict.remaining), (true, 6, 3));
    let result = region.charge(&newer);
    assert_eq!((result.limit, result.verdict.remaining), (6, 2), "the window of the newer rules has stayed");
}

fn leases_are_within_the_limit<S: ChargeStore, L: LimitStore>(region: &RegionUnderTest<S, L>) {
    let lease = ChargeMode::Lease { expires_at: FOREVER, units_max: 100, agents: 1 };
    let lease = |counter| Charge { mode: lease, ..ask_global(counter) };
    region.write(&limit(7, START_MS + 60_000, 1, None));
    let granted = region.charge(&lease(COUNTER));
    assert_eq!((granted.leased, granted.verdict.remaining), (FLOOR + 7 - 1, FLOOR + 7 - 1));
    assert_eq!(region.left(&ask_global(COUNTER)).0, 0);
    // Fewer units than are in the window.
    region.write(&limit(2, START_MS + 60_000, 2, None));
    let refused = region.charge(&lease(COUNTER));
    assert_eq!((refused.charged, refused.leased, refused.limit, refused.verdict.remaining), (false, 0, FLOOR + 2, 0));
    assert_eq!(region.used(), FLOOR + 7);
    assert_eq!(region.charge(&lease(COUNTER + 1)).leased, FLOOR - 1);
}

fn several_budgets_of_a_call_are_charged_together<S: ChargeStore, L: LimitStore>(region: &RegionUnderTest<S, L>) {
    region.write(&limit(7, START_MS + 60_000, 1, None));
    let other = Charge { budget: Some("other".into()), ..ask_global(COUNTER + 1) };
    let plain = ask(COUNTER + 2, 4);
    let limits = |charges: &[Charge]| {
        let results = super::charge(&*region.store, charges);
        results.iter().map(|result| (result.charged, result.limit)).collect::<Vec<_>>()
    };
    let backfill = Charge { mode: ChargeMode::Backfill { at: Timestamp::from_ms(START_MS) }, ..other.clone() };
    assert_eq!(
        limits(&[backfill, ask_global(COUNTER), plain.clone(), other.clone()]),
        [(true, FLOOR), (true, FLOOR + 7), (true, 4), (true, FLOOR)]
    );
    let too_much = Charge { cost: 2, ..other };
    assert_eq!(limits(&[ask_global(COUNTER), too_much, plain]), [(false, FLOOR + 7), (false, FLOOR), (false, 4)]);
}

/// J2: `/explain` shows the demand and the moves as of the last write, even of one that is refused.
fn what_a_writer_shows_is_kept<S: ChargeStore, L: LimitStore>(region: &RegionUnderTest<S, L>) {
    let view = |counter| super::now(region.store.limit_view(CounterId::from_u128(counter)));
    assert_eq!(view(COUNTER), None);
    for (as_of, shown) in [(3, ShownBudget { wants: 7, moves: 2 }), (2, ShownBudget { wants: 9, moves: 3 })] {
        region.write(&LimitWrite { shown, ..limit(4, START_MS + 60_000, as_of, None) });
        assert_eq!(view(COUNTER).map(|view| view.shown), Some(shown));
    }
    assert_eq!(view(COUNTER + 1), None);
}
