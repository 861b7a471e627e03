//! The breaker before the store: after enough requests in a row without an answer in time, no call waits for a time-out any
//! more, until a ping that no call waits for is answered.
//!
//! A late store is not a store that is down, so one answer in time takes back all misses before it. A late answer does not:
//! calls do not wait for it. Five misses in a row open the breaker. Each of them may deny a `strict` call that had room, so
//! more would cost too many; fewer would open it at each short pause. An error after which no request can succeed opens it at
//! once.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use tollgate_core::counter::StoreError;

/// Number of misses in a row at which the breaker opens.
const OPEN_AT: u32 = 5;

/// Breaker before the store.
#[derive(Debug, Default)]
pub(crate) struct Breaker {
    misses: AtomicU32,
    open: AtomicBool,
}

impl Breaker {
    /// Returns true if no request is sent.
    pub(crate) fn is_open(&self) -> bool {
        self.open.load(Ordering::Relaxed)
    }

    /// Records an answer in time.
    pub(crate) fn answered(&self) {
        if self.misses.load(Ordering::Relaxed) > 0 {
            self.misses.store(0, Ordering::Relaxed);
        }
    }

    /// Records a miss; returns true if it opened the breaker.
    pub(crate) fn missed(&self, error: StoreError) -> bool {
        let opens = match error {
            error if error.is_late() => self.misses.fetch_add(1, Ordering::Relaxed) + 1 >= OPEN_AT,
            error => !error.is_of_counter(),
        };
        opens && !self.open.swap(true, Ordering::Relaxed)
    }

    /// Records an answered ping; returns true if it closed the breaker. A closed breaker counts requests only.
    pub(crate) fn close(&self) -> bool {
        let closed = self.open.swap(false, Ordering::Relaxed);
        if closed {
            self.misses.store(0, Ordering::Relaxed);
        }
        closed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_opens_after_five_misses_in_a_row_and_a_ping_closes_it() {
        let breaker = Breaker::default();
        assert!((0..4).all(|_| !breaker.missed(StoreError::TimedOut)));
        assert!(breaker.missed(StoreError::TimedOut) && breaker.is_open());
        assert!(!breaker.missed(StoreError::TimedOut), "reported once");
        assert!(breaker.close() && !breaker.is_open() && !breaker.close());
    }

    /// A store that pauses before every fifth request is late and not down.
    #[test]
    fn an_answer_in_time_takes_back_all_misses_before_it() {
        let breaker = Breaker::default();
        for _ in 0..200 {
            assert!((0..4).all(|_| !breaker.missed(StoreError::TimedOut)));
            breaker.answered();
        }
    }

    #[test]
    fn an_unreachable_store_opens_it_at_once() {
        let breaker = Breaker::default();
        assert!((0..9).all(|_| !breaker.missed(StoreError::Full) && !breaker.missed(StoreError::Contended)));
        assert!(breaker.missed(StoreError::Unreachable) && breaker.is_open());
    }
}
