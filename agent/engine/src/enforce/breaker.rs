//! Whether a store is worth asking: after enough unanswered questions no call pays a time-out any more, until a ping that no
//! call waits for is answered.
//!
//! Pure: a score that every miss raises by two and every answer lowers by one. So it opens after five misses in a row, and
//! at any lasting rate of misses above one in three. What surely cannot answer opens it at once.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use crate::store_error::StoreError;

const MISS_WEIGHT: u32 = 2;
const OPEN_AT: u32 = 10;

/// Whether a store is worth asking.
#[derive(Debug, Default)]
pub(crate) struct Breaker {
    score: AtomicU32,
    open: AtomicBool,
}

impl Breaker {
    /// Whether questions are held back.
    #[must_use]
    pub(crate) fn is_open(&self) -> bool {
        self.open.load(Ordering::Relaxed)
    }

    /// A question was answered in time.
    pub(crate) fn answered(&self) {
        if self.score.load(Ordering::Relaxed) > 0 {
            let lower = |score: u32| score.checked_sub(1);
            let _ = self.score.fetch_update(Ordering::Relaxed, Ordering::Relaxed, lower);
        }
    }

    /// A question was not answered; whether that opened the breaker.
    pub(crate) fn missed(&self, error: StoreError) -> bool {
        let opens = match error {
            StoreError::TimedOut | StoreError::Expired | StoreError::Busy => {
                self.score.fetch_add(MISS_WEIGHT, Ordering::Relaxed) + MISS_WEIGHT >= OPEN_AT
            }
            StoreError::Unreachable | StoreError::Refused => true,
            // It answers; it only has no place for this counter.
            StoreError::Full | StoreError::Unreadable => false,
        };
        opens && !self.open.swap(true, Ordering::Relaxed)
    }

    /// A ping was answered; whether that closed the breaker. While it is closed, questions alone are counted.
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
        assert!(!breaker.missed(StoreError::TimedOut), "told once");
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
    fn who_cannot_be_reached_is_not_asked_again() {
        let breaker = Breaker::default();
        assert!(!breaker.missed(StoreError::Full));
        assert!(breaker.missed(StoreError::Unreachable) && breaker.is_open());
    }
}
