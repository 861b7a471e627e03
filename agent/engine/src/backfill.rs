//! Backfill: units that were admitted without the store are charged once it has recovered.
//!
//! A queue holds the counters with unsynced units; the units themselves are in each counter's view. Until they are charged, no
//! call asks the store about such a counter, because its count is too low.

use tollgate_core::counter::{Charge, ChargeMode, ChargeResults};
use tollgate_core::rules::Generation;

use crate::engine::Engine;
use crate::matched_rule::MatchedRule;
use crate::stage::{Charges, Stage, UNATTENDED_DEADLINE};
use crate::store_error::StoreError;
use crate::unsynced_queue::UnsyncedCounter;
use crate::view::{Unsynced, ViewEvent, update};

/// Maximum number of counters in one request.
const REQUEST_COUNTERS_MAX: usize = 64;
/// Number of charges after which a request gets no further counter, so that it does not delay others in the store.
const REQUEST_CHARGES_LEN: usize = 256;

impl Engine {
    /// Returns true if units were admitted without the store and are not charged yet.
    pub(crate) fn has_unsynced(&self) -> bool {
        !self.unsynced.is_empty()
    }

    /// Begins to charge the units of the next few counters. They stay unsynced until the store answers, so that no call
    /// overtakes the backfill.
    pub(crate) fn begin_backfill(&self) -> Stage<Result<(), StoreError>, Vec<UnsyncedCounter>> {
        let (mut counters, mut charges) = (Vec::new(), Charges::new());
        let counters_max = if self.unsynced.is_one_by_one() { 1 } else { REQUEST_COUNTERS_MAX };
        while counters.len() < counters_max && charges.len() < REQUEST_CHARGES_LEN {
            let Some(counter) = self.unsynced.next() else { break };
            let UnsyncedCounter { matched, generation } = &counter;
            let charge = |unsynced: Unsynced| {
                matched.charge(*generation, unsynced.units, ChargeMode::Backfill { at: unsynced.at })
            };
            self.table.with(matched.counter, |view| {
                charges.extend(view.unsynced().map(charge));
                update(&matched.policy, view, ViewEvent::BackfillSent);
            });
            counters.push(counter);
        }
        if charges.is_empty() {
            return Stage::Done(self.finish_backfill(counters, &charges, &Ok(ChargeResults::new())));
        }
        Stage::NeedsStore(charges, UNATTENDED_DEADLINE, counters)
    }

    /// Finishes a backfill. If it is not known whether the store has charged, the units count as charged: sent again, they
    /// would count twice.
    pub(crate) fn finish_backfill(
        &self,
        counters: Vec<UnsyncedCounter>,
        charges: &[Charge],
        answer: &Result<ChargeResults, StoreError>,
    ) -> Result<(), StoreError> {
        if matches!(answer, Err(StoreError::Unreadable)) {
            self.send_one_by_one(counters);
            return Ok(());
        }
        let is_charged = matches!(answer, Ok(_) | Err(StoreError::TimedOut));
        if is_charged {
            self.metrics.unsynced_units.add(charges.iter().map(|charge| charge.cost).sum());
        }
        let event = || if is_charged { ViewEvent::BackfillCharged } else { ViewEvent::BackfillFailed };
        let still_unsynced = |counter: &UnsyncedCounter| {
            self.table.with(counter.matched.counter, |view| {
                update(&counter.matched.policy, view, event());
                view.has_unsynced()
            })
        };
        let unsynced = counters.into_iter().filter(still_unsynced).collect();
        self.unsynced.put_back(unsynced);
        answer.as_ref().map(|_| ()).map_err(|error| *error)
    }

    /// The store cannot charge one of the counters: each is sent alone, and the units of that one are dropped.
    fn send_one_by_one(&self, counters: Vec<UnsyncedCounter>) {
        let is_alone = counters.len() == 1;
        self.unsynced.set_one_by_one(!is_alone);
        for UnsyncedCounter { matched, .. } in &counters {
            let event = if is_alone { ViewEvent::UnsyncedDropped } else { ViewEvent::BackfillFailed };
            self.table.with(matched.counter, |view| update(&matched.policy, view, event));
        }
        if is_alone {
            self.metrics.unsynced_forgotten.add(1);
        }
        self.unsynced.put_back(if is_alone { Vec::new() } else { counters });
    }

    /// Updates the view of a counter, and queues the counter if it has its first unsynced units.
    pub(crate) fn update_counter(&self, matched: &MatchedRule, generation: Generation, event: ViewEvent<'_>) {
        let became_unsynced = self.table.with(matched.counter, |view| {
            let before = view.has_unsynced();
            update(&matched.policy, view, event);
            !before && view.has_unsynced()
        });
        if !became_unsynced {
            return;
        }
        if let Some(dropped) = self.unsynced.add(UnsyncedCounter { matched: matched.clone(), generation }) {
            self.metrics.unsynced_forgotten.add(1);
            let MatchedRule { counter, policy, .. } = &dropped.matched;
            self.table.with(*counter, |view| update(policy, view, ViewEvent::UnsyncedDropped));
        }
        self.health.waker.wake();
    }

    /// Returns true if a counter of a call has units that the store does not know.
    pub(crate) fn any_unsynced(&self, matched: &[MatchedRule]) -> bool {
        let has_unsynced = |matched: &MatchedRule| self.table.with(matched.counter, |view| view.has_unsynced());
        self.has_unsynced() && matched.iter().any(has_unsynced)
    }
}
