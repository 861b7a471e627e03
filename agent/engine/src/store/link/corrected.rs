//! Corrections that the store does not know or cannot name, and resets: a counter that was emptied is forgotten here, and older facts about it
//! are dropped.

use tollgate_core::clock::Timestamp;
use tollgate_core::counter::{CounterId, RequestId};
use tollgate_core::messages::presence::CounterReset;

use super::state::StoreLink;
use crate::counters::forget;
use crate::rules::MatchedRule;
use crate::store::resets::Resets;

impl StoreLink {
    /// Returns true if this decision, or a later one, was corrected under the request without the store.
    pub(crate) fn is_corrected(&self, request: Option<RequestId>, decided: Timestamp) -> bool {
        request.is_some_and(|request| self.corrections.lock().contains(request, decided))
    }

    /// Remembers a correction that was made without the store.
    pub(crate) fn note_corrected(&self, request: Option<RequestId>, decided: Timestamp) {
        if let Some(request) = request {
            self.corrections.lock().add(request, decided);
        }
    }

    /// Returns the part of the units of a settlement without an id that may still be charged on this counter.
    pub(crate) fn take_unnamed(&self, matched: &MatchedRule<'_>, units: u64, now: Timestamp) -> u64 {
        let quota = (matched.policy.units_over_regions(), matched.policy.window.width_ms());
        self.unnamed_settlements.lock().take(matched.counter, quota, units, now)
    }

    pub(crate) fn resets(&self) -> &Resets {
        &self.resets
    }

    /// Forgets a counter that was emptied, and announces the reset if there is a bus.
    pub(crate) fn emptied(&self, now: Timestamp, reset: CounterReset) {
        if self.settings.publishes {
            self.resets.announce(now, reset);
        } else {
            let _ = self.resets.learn(now, &reset);
        }
        self.forget_counter(reset);
    }

    /// Forgets what an answer of the store has told about a counter that was emptied after it.
    #[inline]
    pub(crate) fn forget_outdated(&self, now: Timestamp, counter: CounterId, at: Timestamp) {
        if let Some(at) = self.resets.after(now, counter, at) {
            self.forget_counter(CounterReset { counter, at });
        }
    }

    /// Forgets what is remembered of a counter from before it was emptied.
    pub(crate) fn forget_counter(&self, CounterReset { counter, at }: CounterReset) {
        self.all_used().for_each(|primary| primary.outbox.forget_lost(counter));
        if self.counters.holds(counter) {
            self.counting_unsynced(counter, |view| forget(view, at));
        }
    }
}
