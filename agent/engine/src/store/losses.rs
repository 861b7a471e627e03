//! Losses of the store, and the queue of counters that must be opened again; [`reopen`](crate::call::reopen) works on it.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;
use tollgate_core::clock::Timestamp;
use tollgate_core::counter::CounterId;
use tollgate_core::rules::Generation;

use crate::rules::MatchedRule;

/// Maximum number of lost counters that wait to be opened again. Past the cap, further ones are counted as forgotten.
const LOST_COUNTERS_MAX: usize = 100_000;
/// Time after which an opened counter is compared with the signals once more, in ms. By then, the signals contain the
/// calls that were decided before it was open, and the backfill of other agents.
const SECOND_PASS_MS: u64 = 2_000;
pub(crate) const NOTICE_INTERVAL_MS: u64 = 60_000;

/// Losses of the store, and the counters to be opened again.
#[derive(Debug, Default)]
pub(crate) struct Losses {
    /// The store's time at which a loss of the whole store was noticed last, in ms; 0 if there was none.
    noticed_ms: AtomicU64,
    witnessed: Mutex<Option<WitnessedLoss>>,
    /// Instant up to which acknowledged charges prove nothing, in ms: the latest one that the store's clock may have
    /// shown before it was set back.
    shown_ms: AtomicU64,
    /// Instant up to which this agent's own acknowledged charges prove nothing, in ms. The agent forgets them after a
    /// large step back of the clock, so only small steps move this instant.
    own_shown_ms: AtomicU64,
    /// Store's time from which lost counters are worth another notice, in ms.
    notice_at_ms: AtomicU64,
    waiting: Mutex<WaitingCounters>,
}

/// Loss of units of the whole store, in its own time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct WitnessedLoss {
    /// Instant of the last write that is known to have been acknowledged before the loss.
    pub(crate) proven: Timestamp,
    pub(crate) noticed: Timestamp,
}

#[derive(Debug)]
pub(crate) struct LostCounter {
    pub(crate) matched: MatchedRule<'static>,
    pub(crate) generation: Generation,
    /// Count with which it opens at least, and the instant of these units.
    pub(crate) floor: (Timestamp, u64),
    /// Agent's own time from which it is opened a second time; nothing before the first.
    pub(crate) second_pass_at: Option<Timestamp>,
}

#[derive(Debug, Default)]
struct WaitingCounters {
    counters: VecDeque<LostCounter>,
    /// Counters that are open and will be compared once more, in the order of their times.
    opened: VecDeque<LostCounter>,
    /// Number of the next counters that are sent alone, because the store could not charge one of them.
    alone: usize,
}

impl Losses {
    pub(crate) fn note(&self, loss: WitnessedLoss) {
        *self.witnessed.lock() = Some(loss);
        self.noticed_ms.store(loss.noticed.as_ms(), Ordering::Relaxed);
    }

    /// Returns the store's time at which a loss of the whole store was noticed last; time 0 if there was none.
    pub(crate) fn noticed(&self) -> Timestamp {
        Timestamp::from_ms(self.noticed_ms.load(Ordering::Relaxed))
    }

    /// Returns true if lost counters are worth a notice. After that, it returns false for a while.
    pub(crate) fn takes_notice(&self, now: Timestamp) -> bool {
        let is_due = now.as_ms() >= self.notice_at_ms.load(Ordering::Relaxed);
        if is_due {
            self.notice_at_ms.store(now.plus_ms(NOTICE_INTERVAL_MS).as_ms(), Ordering::Relaxed);
        }
        is_due
    }

    pub(crate) fn is_next_alone(&self) -> bool {
        self.waiting.lock().alone > 0
    }

    /// Returns the agent's own time from which a counter waits to be opened, if there is one.
    pub(crate) fn due_at(&self) -> Option<Timestamp> {
        let waiting = self.waiting.lock();
        let next = waiting.counters.front().or(waiting.opened.front());
        next.map(|counter| counter.second_pass_at.unwrap_or_default())
    }

    /// Returns the instant up to which acknowledged charges prove nothing.
    pub(crate) fn shown(&self) -> Timestamp {
        Timestamp::from_ms(self.shown_ms.load(Ordering::Relaxed))
    }

    /// Returns the same for charges that this agent remembers.
    pub(crate) fn own_shown(&self) -> Timestamp {
        Timestamp::from_ms(self.own_shown_ms.load(Ordering::Relaxed))
    }

    /// Records the latest instant that the store's clock may have shown before it was set back. `by_small_steps` is the
    /// latest one before it was set back by so little that the agent has forgotten nothing.
    pub(crate) fn note_shown(&self, shown: Timestamp, by_small_steps: Timestamp) {
        self.shown_ms.fetch_max(shown.as_ms(), Ordering::Relaxed);
        self.own_shown_ms.store(by_small_steps.as_ms(), Ordering::Relaxed);
    }

    /// Forgets a loss, whose instant says nothing once the store's clock was set.
    pub(crate) fn clock_was_set(&self) {
        self.noticed_ms.store(0, Ordering::Relaxed);
        self.notice_at_ms.store(0, Ordering::Relaxed);
        *self.witnessed.lock() = None;
    }

    /// Returns the last loss of the whole store, if it was noticed less than `width_ms` before `at`.
    pub(crate) fn witnessed(&self, at: Timestamp, width_ms: u64) -> Option<WitnessedLoss> {
        if self.noticed().plus_ms(width_ms) > at { *self.witnessed.lock() } else { None }
    }

    pub(crate) fn len(&self) -> usize {
        let waiting = self.waiting.lock();
        waiting.counters.len() + waiting.opened.len()
    }

    /// Adds a counter; returns false if there are too many.
    pub(crate) fn add(&self, counter: LostCounter) -> bool {
        let mut waiting = self.waiting.lock();
        let has_room = waiting.counters.len() + waiting.opened.len() < LOST_COUNTERS_MAX;
        if has_room {
            waiting.counters.push_back(counter);
        }
        has_room
    }

    pub(crate) fn next(&self, now: Timestamp) -> Option<LostCounter> {
        let mut waiting = self.waiting.lock();
        waiting.alone = waiting.alone.saturating_sub(1);
        if let Some(counter) = waiting.counters.pop_front() {
            return Some(counter);
        }
        let is_due = waiting.opened.front()?.second_pass_at.is_none_or(|at| now >= at);
        if is_due { waiting.opened.pop_front() } else { None }
    }

    /// Drops a counter that waits, because it was emptied.
    pub(crate) fn forget(&self, counter: CounterId) {
        let mut waiting = self.waiting.lock();
        waiting.counters.retain(|lost| lost.matched.counter != counter);
        waiting.opened.retain(|lost| lost.matched.counter != counter);
    }

    /// Records that counters are open. Each is due once more, unless it was the second time.
    pub(crate) fn opened(&self, now: Timestamp, counters: Vec<LostCounter>) {
        let second_pass_at = Some(now.plus_ms(SECOND_PASS_MS));
        let first_pass = counters.into_iter().filter(|counter| counter.second_pass_at.is_none());
        let again = first_pass.map(|counter| LostCounter { second_pass_at, ..counter });
        self.waiting.lock().opened.extend(again);
    }

    /// Puts counters back that are not open yet, each to be sent alone if the store could not charge one of them.
    pub(crate) fn put_back(&self, counters: Vec<LostCounter>, are_alone: bool) {
        let mut waiting = self.waiting.lock();
        if are_alone {
            waiting.alone = counters.len();
        }
        counters.into_iter().rev().for_each(|counter| waiting.counters.push_front(counter));
    }
}
