//! The breaker before the store: after enough unanswered requests no call waits for a time-out any more, until a ping that no
//! call waits for is answered.
//!
//! A miss raises a score by two and an answer lowers it by one. The breaker opens after five misses in a row, and at any
//! lasting rate of misses above one in three. An error after which no request can succeed opens it at once.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use tollgate_core::counter::StoreError;

/// Points of a miss.
const MISS_WEIGHT: u32 = 2;
/// Score at which the breaker opens.
const OPEN_AT: u32 = 10;

/// Breaker before the store.
#[derive(Debug, Default)]
pub(crate) struct Breaker {
    score: AtomicU32,
    open: AtomicBool,
}

impl Breaker {
    /// Returns true if no request is sent.
    pub(crate) fn is_open(&self) -> bool {
        self.open.load(Ordering::Relaxed)
    }

    /// Records an answer in time.
    pub(crate) fn answered(&self) {
        if self.score.load(Ordering::Relaxed) > 0 {
            let lower = |score: u32| score.checked_sub(1);
            let _ = self.score.fetch_update(Ordering::Relaxed, Ordering::Relaxed, lower);
        }
    }

    /// Records a miss; returns true if it opened the breaker.
    pub(crate) fn missed(&self, error: StoreError) -> bool {
        let opens = match error {
            StoreError::TimedOut | StoreError::Expired | StoreError::Busy => {
                self.score.fetch_add(MISS_WEIGHT, Ordering::Relaxed) + MISS_WEIGHT >= OPEN_AT
            }
            error => !error.is_of_counter(),
        };
        opens && !self.open.swap(true, Ordering::Relaxed)
    }

    /// Records an answered ping; returns true if it closed the breaker. A closed breaker counts requests only.
    pub(crate) fn close(&self) -> bool {
        let closed = self.open.swap(false, Ordering::Relaxed);
        if closed {
            self.score.store(0, Ordering::Relaxed);
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

    #[test]
    fn it_opens_at_a_lasting_rate_of_misses_and_not_at_a_low_one() {
        let opens = |answers_per_miss: u32| {
            let breaker = Breaker::default();
            (0..200).any(|_| {
                (0..answers_per_miss).for_each(|_| breaker.answered());
                breaker.missed(StoreError::TimedOut)
            })
        };
        assert!(opens(1) && !opens(2) && !opens(10));
    }

    #[test]
    fn an_unreachable_store_opens_it_at_once() {
        let breaker = Breaker::default();
        assert!((0..9).all(|_| !breaker.missed(StoreError::Full) && !breaker.missed(StoreError::Contended)));
        assert!(breaker.missed(StoreError::Unreachable) && breaker.is_open());
    }
}
