//! Re-opening: counters whose units the store has lost, after a flush, an eviction or a failover, get them again.
//!
//! A counter whose units are lost is opened again: of each sub-window the store
//! gets the larger of its own count and the one that this agent knows. Each agent enters what it knows, and twice
//! changes nothing. It does so again two seconds later: the first time, no signal contains the newest calls of the
//! other agents. Units that are not synced yet are not part of that, so a counter with such units waits until they are.
//! A log gets entries at the ends of the sub-windows, and a bucket the level that the known units would have filled;
//! slots that were held stay taken for a window, because their instants, by which they are released, are lost.
//!
//! A loss of the whole store is witnessed by a number that the agent writes there each second (`housekeeping/maintenance`):
//! the store has gone back behind the last number that it acknowledged. Afterwards the first answer about each counter
//! opens it again, for one window. A counter without a signal, which may have had as many units as the threshold of
//! signals permits, opens with so many. When the store's clock is set, agents forget a witnessed loss and the instants
//! of their charges, which then prove nothing.

use tollgate_core::clock::Timestamp;
use tollgate_core::counter::{ChargeMode, ChargeResult, PrimaryIndex, StoreError};
use tollgate_core::rules::Generation;

use super::state::{Primary, StoreLink};
use crate::counters::{Acknowledgement, Authority, CounterView, LostUnits, reopening};
use crate::rules::{Charges, MatchedRule};
use crate::store::charge_answer::ChargeAnswer;
use crate::store::outbox::{LostCounter, Offered, Turn};

/// Time after a loss of the whole store in which lost counters have no notice of their own, in ms.
const WHOLE_LOSS_MS: u64 = 60_000;
const REQUEST_COUNTERS_MAX: usize = 32;
/// Number of charges after which a request gets no further counter, so that it does not delay others in the store.
const REQUEST_CHARGES_LEN: usize = 256;

impl StoreLink {
    /// Returns the facts in an answer by which the store's losses show.
    pub(crate) fn acknowledgement(
        &self,
        now: Timestamp,
        matched: &MatchedRule<'_>,
        result: &ChargeResult,
    ) -> Acknowledgement {
        let losses = &self.primary(matched.primary).losses;
        let ChargeResult { at, born, previous, .. } = *result;
        let (proves_after, own_proves_after) = (losses.shown(), losses.own_shown());
        let Some(loss) = losses.witnessed(at, matched.policy.window.width_ms()) else {
            let lost_before = Timestamp::default();
            return Acknowledgement { at, born, previous, proves_after, own_proves_after, lost_before, floor: 0 };
        };
        let is_new = born > loss.proven;
        let partition = matched.counter.partition(self.settings.partitions);
        let threshold = match self.bus.signals().authority(partition, now, self.time(matched.primary, now)) {
            Authority::Signals(fresh) if is_new => fresh.threshold_permille,
            _ => 0,
        };
        let floor = matched.policy.units_over_regions().saturating_mul(u64::from(threshold)) / 1_000;
        Acknowledgement { at, born, previous, proves_after, own_proves_after, lost_before: loss.noticed, floor }
    }

    pub(super) fn counter_lost(&self, matched: &MatchedRule<'_>, generation: Generation, lost: LostUnits) {
        self.reports.metrics().store_lost.add(1);
        let Primary { losses, outbox, .. } = self.primary(matched.primary);
        let whole_store = losses.noticed();
        let floor = (whole_store, lost.floor);
        if !outbox.add_lost(LostCounter {
            matched: matched.clone().into_owned(),
            generation,
            floor,
            second_pass_at: None,
        }) {
            self.reports.metrics().lost_forgotten.add(1);
        }
        // A loss of the whole store has a notice of its own.
        let is_known = whole_store.plus_ms(WHOLE_LOSS_MS) > lost.noticed;
        if !is_known {
            self.reports.note_lost_counter(lost.noticed);
        }
        self.reports.wake_maintenance();
    }

    /// Begins to open the next few counters of a primary again; there are no charges if none can be opened now.
    pub(crate) fn begin_reopening(&self, primary: PrimaryIndex, now: Timestamp) -> (Charges, Vec<LostCounter>) {
        let (mut counters, mut unsynced, mut charges) = (Vec::new(), Vec::new(), Charges::new());
        let at = self.time(primary, now).latest;
        self.outbox(primary).offer_lost(now, |counter| {
            if self.primary_of(counter.matched.slot) != primary {
                // The slot has moved, and the instants of the loss say nothing at another primary.
                self.reports.metrics().lost_forgotten.add(1);
                return Offered::Skipped;
            }
            let LostCounter { matched, generation, floor, .. } = &counter;
            let look = |view: &mut CounterView| (view.has_unsynced(), view.known_units(&matched.policy, at));
            let (has_unsynced, known) = self.counters.with(matched.counter, look);
            if has_unsynced {
                unsynced.push(counter);
                return Offered::Skipped;
            }
            let known = known.map(|known| reopening(&matched.policy, &known, at)).unwrap_or_default();
            let floor = Some(*floor).filter(|(at, units)| {
                let window = matched.policy.window;
                let of_floor = known.iter().find(|(known, _)| window.sub_window(*known) == window.sub_window(*at));
                *units > of_floor.map_or(0, |(_, units)| *units)
            });
            let reopen = |(at, units)| matched.charge(*generation, units, ChargeMode::Reopen { at });
            charges.extend(known.into_iter().chain(floor).map(reopen));
            counters.push(counter);
            let has_room = counters.len() < REQUEST_COUNTERS_MAX && charges.len() < REQUEST_CHARGES_LEN;
            if has_room { Offered::Added } else { Offered::Full }
        });
        self.outbox(primary).put_back_lost(unsynced, Turn::First);
        (charges, counters)
    }

    /// Finishes the opening of counters, of which each is opened twice. Those that the store has not opened are sent
    /// again; one whose value it cannot use is counted as forgotten.
    pub(crate) fn finish_reopening(
        &self,
        primary: PrimaryIndex,
        now: Timestamp,
        counters: Vec<LostCounter>,
        answers: &[ChargeAnswer],
    ) -> Result<(), StoreError> {
        let outbox = self.outbox(primary);
        let Some(error) = answers.iter().find_map(|answer| answer.err()) else {
            outbox.opened(now, counters);
            return Ok(());
        };
        if error == StoreError::Unreadable && counters.len() == 1 {
            self.reports.metrics().lost_forgotten.add(1);
            return Ok(());
        }
        outbox.put_back_lost(counters, if error.is_of_counter() { Turn::Alone } else { Turn::First });
        Err(error)
    }
}
