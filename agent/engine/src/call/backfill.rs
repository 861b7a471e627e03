//! Backfill: units that were admitted without the store are charged once it has recovered.
//!
//! A queue holds the counters with unsynced units; the units themselves are in each counter's view. They travel with
//! the next call on the counter, and the maintenance sends those of counters without calls. Each has an id under which
//! the store charges it once, so both may send it. A call with more units than it can carry is decided without the
//! store until then. A request holds up the store for other agents, so it has few charges, and a counter with more is
//! sent in several requests. If a request fails because of one counter, each of its counters is sent alone, so that no
//! counter keeps the units of the others from the store.

use tollgate_core::counter::{Charge, ChargeMode, ChargeResults};
use tollgate_core::rules::Generation;

use crate::call::carried_units::{BACKFILL_CHARGES_MAX, backfill_charge};
use crate::counters::{UnsyncedRefund, ViewEvent, end_denial, send_unsynced, update};
use crate::engine::Engine;
use crate::rules::{Charges, MatchedRule};
use crate::store::{ChargeKind, ChargeTraits, Fate, InStore, Standing, UnsyncedCounter, UnsyncedTurn, fate};
use tollgate_core::counter::StoreError;

#[cfg(test)]
mod tests;

impl Engine {
    /// Returns true if units were admitted without the store and are not charged yet.
    #[inline]
    pub fn has_unsynced(&self) -> bool {
        !self.unsynced.is_empty()
    }

    /// Begins to charge the units of the next few counters. There are no charges once the round is over. The units stay
    /// unsynced until the store has confirmed them.
    pub(crate) fn begin_backfill(&self) -> (Charges, Vec<UnsyncedCounter>) {
        let (mut counters, mut charges) = (Vec::new(), Charges::new());
        let counters_max = if self.unsynced.is_next_alone() { 1 } else { usize::MAX };
        while counters.len() < counters_max && charges.len() < BACKFILL_CHARGES_MAX {
            let Some(counter) = self.unsynced.next() else { break };
            let UnsyncedCounter { matched, generation } = &counter;
            let len = charges.len();
            let (is_queued, (units, refunds)) = self.counting_unsynced(matched.counter, |view| {
                let sent = send_unsynced(view, BACKFILL_CHARGES_MAX - len);
                if sent.0.is_empty() && sent.1.is_empty() {
                    update(&matched.policy, view, ViewEvent::LeavesQueue);
                }
                (view.is_queued(), sent)
            });
            charges.extend(units.iter().map(|unsynced| backfill_charge(matched, *generation, unsynced)));
            let refund = |UnsyncedRefund { at, units, request, whole }| Charge {
                request,
                ..matched.charge(*generation, units, ChargeMode::Refund { at, whole })
            };
            charges.extend(refunds.into_iter().map(refund));
            // The others were confirmed or refunded meanwhile.
            if is_queued {
                debug_assert!(charges.len() > len);
                counters.push(counter);
            }
        }
        if charges.is_empty() {
            self.unsynced.end_round();
        }
        (charges, counters)
    }

    /// Finishes a backfill. Units that the store has not confirmed are sent again under their ids. A refund that names
    /// its request is sent again, too. Any other refund is sent again only if the store has surely not made it. If the
    /// store cannot charge one of the counters, each counter is sent alone. The units of a counter without a valid
    /// value are dropped. A counter that the store has no room for waits for the next round.
    pub(crate) fn finish_backfill(
        &self,
        counters: Vec<UnsyncedCounter>,
        charges: &[Charge],
        answer: &Result<ChargeResults, StoreError>,
    ) -> Result<(), StoreError> {
        let error = answer.as_ref().err().copied();
        let is_unreadable = error == Some(StoreError::Unreadable) && counters.len() == 1;
        let in_store = match error {
            None => InStore::Charged,
            // Any of the counters may be the one.
            Some(StoreError::Unreadable) if !is_unreadable => InStore::Failed,
            Some(error) => error.into(),
        };
        for charge in charges {
            let traits = ChargeTraits::of(charge.request);
            match (charge.mode, fate(ChargeKind::of(charge), Standing::Counts, in_store, traits)) {
                (ChargeMode::Backfill { .. }, Fate::Keep | Fate::Drop) => self.backfill_ended(charge),
                (ChargeMode::Refund { .. }, Fate::Keep) => self.table.with(charge.counter, end_denial),
                (ChargeMode::Refund { at, whole }, Fate::Resend) => {
                    let counter = counters.iter().find(|counter| counter.matched.counter == charge.counter);
                    let (units, request) = (charge.cost, charge.request);
                    let event = ViewEvent::UnsyncedRefund(UnsyncedRefund { at, units, request, whole });
                    if let Some(UnsyncedCounter { matched, .. }) = counter {
                        self.counting_unsynced(charge.counter, |view| update(&matched.policy, view, event));
                    }
                }
                _ => {}
            }
        }
        let turn = match error {
            Some(error) if error.is_of_counter() && counters.len() > 1 => UnsyncedTurn::Alone,
            Some(StoreError::Full | StoreError::Contended) => UnsyncedTurn::NextRound,
            _ => UnsyncedTurn::Last,
        };
        self.metrics.unsynced_forgotten.add(is_unreadable.into());
        let still_unsynced = |UnsyncedCounter { matched, .. }: &UnsyncedCounter| {
            self.table.with(matched.counter, |view| {
                update(&matched.policy, view, ViewEvent::LeavesQueue);
                view.is_queued()
            })
        };
        self.unsynced.put_back(counters.into_iter().filter(still_unsynced).collect(), turn);
        error.filter(|error| !error.is_of_counter()).map_or(Ok(()), Err)
    }

    /// Updates the view of a counter. Queues the counter if it has unsynced units and is not queued, or if the store
    /// has lost units of it.
    pub(crate) fn update_counter(&self, matched: &MatchedRule<'_>, generation: Generation, event: ViewEvent<'_>) {
        let (needs_queue, lost) = self.counting_unsynced(matched.counter, |view| {
            let was_queued = view.is_queued();
            let lost = event.acknowledged().and_then(|answer| view.lost_units(&matched.policy, answer));
            update(&matched.policy, view, event);
            if lost.is_some() {
                update(&matched.policy, view, ViewEvent::Lost);
            }
            (view.is_queued() && !was_queued, lost)
        });
        if let Some(lost) = lost {
            self.counter_lost(matched, generation, lost);
        }
        if !needs_queue {
            return;
        }
        if let Some(dropped) = self.unsynced.add(UnsyncedCounter { matched: matched.clone().into_owned(), generation })
        {
            self.metrics.unsynced_forgotten.add(1);
            let MatchedRule { counter, policy, .. } = &dropped.matched;
            self.counting_unsynced(*counter, |view| update(policy, view, ViewEvent::Forgotten));
        }
        self.maintenance_waker.wake();
    }
}
