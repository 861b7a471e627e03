//! Losses of the store: those of all its data, and the instants up to which acknowledged charges prove none.

use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;
use tollgate_core::clock::Timestamp;

/// Losses of the store that are known.
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
}

/// Loss of units of the whole store, in its own time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct WitnessedLoss {
    /// Instant of the last write that is known to have been acknowledged before the loss.
    pub(crate) proven: Timestamp,
    pub(crate) noticed: Timestamp,
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
        *self.witnessed.lock() = None;
    }

    /// Returns the last loss of the whole store, if it was noticed less than `width_ms` before `at`.
    pub(crate) fn witnessed(&self, at: Timestamp, width_ms: u64) -> Option<WitnessedLoss> {
        if self.noticed().plus_ms(width_ms) > at { *self.witnessed.lock() } else { None }
    }
}
