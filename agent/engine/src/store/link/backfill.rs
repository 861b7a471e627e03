//! Backfill: units that were admitted without the store are charged once it has recovered.
//!
//! A lane of the [outbox](crate::store::outbox) holds the counters with unsynced units; the units themselves are in each counter's view. They travel with
//! the next call on the counter, and the maintenance sends those of counters without calls. Each has an id under which
//! the store charges it once, so both may send it. A call with more units than it can carry is decided without the
//! store until then. A request holds up the store for other agents, so it has few charges, and a counter with more is
//! sent in several requests. If a request fails because of one counter, each of its counters is sent alone, so that no
//! counter keeps the units of the others from the store.

use tollgate_core::counter::{Charge, ChargeMode, PrimaryIndex, StoreError};

use super::pending_units::{BACKFILL_CHARGES_MAX, charge_of};
use super::state::StoreLink;
use crate::counters::{Pending, PendingKind, ViewEvent, end_denial, send_pending, update};
use crate::rules::Charges;
use crate::store::charge_answer::ChargeAnswer;
use crate::store::fate::fate;
use crate::store::fate_facts::{ChargeKind, ChargeStanding, ChargeTraits, Fate, InStore};
use crate::store::outbox::{Offered, Turn, UnsyncedCounter};

impl StoreLink {
    /// Begins to charge the units of the next few counters of a primary. There are no charges once the round is over. The units
    /// stay unsynced until the store has confirmed them.
    pub(crate) fn begin_backfill(&self, primary: PrimaryIndex) -> (Charges, Vec<UnsyncedCounter>) {
        let (mut counters, mut charges) = (Vec::new(), Charges::new());
        self.outbox(primary).offer_unsynced(|counter| {
            if self.primary_of(counter.matched.slot) != primary {
                self.pass_on(counter);
                return Offered::Skipped;
            }
            let UnsyncedCounter { matched, generation } = &counter;
            let len = charges.len();
            let (is_queued, sent) = self.counting_unsynced(matched.counter, |view| {
                let sent = send_pending(view, BACKFILL_CHARGES_MAX - len);
                if sent.is_empty() {
                    update(&matched.policy, view, ViewEvent::LeavesQueue);
                }
                (view.is_queued(), sent)
            });
            charges.extend(sent.iter().map(|pending| charge_of(matched, *generation, pending)));
            // The others were confirmed or refunded meanwhile.
            if !is_queued {
                return Offered::Skipped;
            }
            debug_assert!(charges.len() > len);
            counters.push(counter);
            if charges.len() < BACKFILL_CHARGES_MAX { Offered::Added } else { Offered::Full }
        });
        if charges.is_empty() {
            self.outbox(primary).end_round();
        }
        (charges, counters)
    }

    /// Hands the counters that wait for a primary without slots to the primaries that hold them.
    pub(super) fn hand_over(&self, primary: PrimaryIndex) {
        let outbox = self.outbox(primary);
        outbox.end_round();
        outbox.offer_unsynced(|counter| {
            self.pass_on(counter);
            Offered::Skipped
        });
        outbox.end_round();
        // The instants of the losses say nothing at another primary.
        outbox.forget_all_lost();
    }

    /// Lets a counter whose slot has moved wait for the primary that holds it.
    fn pass_on(&self, mut counter: UnsyncedCounter) {
        counter.matched.primary = self.primary_of(counter.matched.slot);
        if let Some(dropped) = self.outbox(counter.matched.primary).add_unsynced(counter) {
            self.forget_units(&dropped);
        }
    }

    /// Finishes a backfill. Units that the store has not confirmed are sent again under their ids. A refund that names
    /// its request is sent again, too. Any other refund is sent again only if the store has surely not made it. If the
    /// store cannot charge one of the counters, each counter is sent alone. The units of a counter without a valid
    /// value are dropped. A counter that the store has no room for waits for the next round.
    pub(crate) fn finish_backfill(
        &self,
        primary: PrimaryIndex,
        counters: Vec<UnsyncedCounter>,
        charges: &[Charge],
        answers: &[ChargeAnswer],
    ) -> Result<(), StoreError> {
        let error = answers.iter().find_map(|answer| answer.err());
        let is_unreadable = error == Some(StoreError::Unreadable) && counters.len() == 1;
        for (charge, answer) in charges.iter().zip(answers) {
            let in_store = match answer.err() {
                None => InStore::Charged,
                // Any of the counters may be the one.
                Some(StoreError::Unreadable) if !is_unreadable => InStore::Failed,
                Some(error) => error.into(),
            };
            let traits = ChargeTraits::of(charge.request);
            match (charge.mode, fate(ChargeKind::of(charge), ChargeStanding::Counts, in_store, traits)) {
                (ChargeMode::Backfill { .. }, Fate::Keep | Fate::Drop) => self.backfill_ended(charge),
                (ChargeMode::Refund { .. }, Fate::Keep) => self.counters.with(charge.counter, end_denial),
                (ChargeMode::Refund { at, whole }, Fate::Resend) => {
                    let counter = counters.iter().find(|counter| counter.matched.counter == charge.counter);
                    let (id, units, kind) = (charge.request, charge.cost, PendingKind::Returned { whole });
                    let event = ViewEvent::Returned(Pending { id, at, units, kind });
                    if let Some(UnsyncedCounter { matched, .. }) = counter {
                        self.counting_unsynced(charge.counter, |view| update(&matched.policy, view, event));
                    }
                }
                _ => {}
            }
        }
        let turn = match error {
            Some(error) if error.is_of_counter() && counters.len() > 1 => Turn::Alone,
            Some(StoreError::Full | StoreError::Contended | StoreError::Moved | StoreError::Asked(_)) => {
                Turn::NextRound
            }
            _ => Turn::Last,
        };
        self.reports.metrics().unsynced_forgotten.add(is_unreadable.into());
        let still_unsynced = |UnsyncedCounter { matched, .. }: &UnsyncedCounter| {
            self.counters.with(matched.counter, |view| {
                update(&matched.policy, view, ViewEvent::LeavesQueue);
                view.is_queued()
            })
        };
        self.outbox(primary).put_back_unsynced(counters.into_iter().filter(still_unsynced).collect(), turn);
        error.filter(|error| !error.is_of_counter()).map_or(Ok(()), Err)
    }
}
