//! The breaker before the store: after enough requests in a row without an answer in time, no call waits for a time-out any
//! more, until a ping that no call waits for is answered.
//!
//! A late store is not a store that is down, so one answer in time takes back all misses before it. A late answer does not:
//! calls do not wait for it. Five misses in a row open the breaker. Each of them may deny a `strict` call that had room, so
//! more would cost too many; fewer would open it at each short pause. An error after which no request can succeed opens it at
//! once.
//!
//! A miss calls for pings, whose misses count like those of calls: an agent with few calls loses a silent store by its pings,
//! and not by five callers. So the breaker is open [`OPEN_AT`] deadlines after the first call that the store does not answer.
//! A ping closes it only if it was answered within the deadline that calls missed: they would miss it again.
//!
//! Agents do not reach a store that is back at the same instant. For [`RECOVERY_MS`] it may lack units that other agents have
//! admitted without it.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use tollgate_core::clock::Timestamp;
use tollgate_core::counter::StoreError;

/// Number of misses in a row at which the breaker opens.
pub(crate) const OPEN_AT: u32 = 5;

/// Time after which a store that is back has the units of all agents, in ms: they probe it at least twice a second.
const RECOVERY_MS: u64 = 1_000;

/// Breaker before the store.
#[derive(Debug, Default)]
pub(crate) struct Breaker {
    misses: AtomicU32,
    open: AtomicBool,
    /// True from a miss until a ping is sent, or answered in time.
    is_suspected: AtomicBool,
    /// Deadline of the last call that missed it, in ms. It is replaced by the next one, and has no effect while no call misses
    /// its deadline.
    deadline_ms: AtomicU32,
    /// Instant of the agent's own clock, in ms, until which the store may lack units of other agents. It begins when the
    /// breaker closes.
    recovering_until_ms: AtomicU64,
}

impl Breaker {
    /// Returns true if no request is sent.
    #[inline]
    pub(crate) fn is_open(&self) -> bool {
        self.open.load(Ordering::Acquire)
    }

    /// Records an answer in time.
    pub(crate) fn answered(&self) {
        if self.misses.load(Ordering::Relaxed) > 0 {
            self.misses.store(0, Ordering::Relaxed);
        }
    }

    /// Records that a call missed its deadline.
    pub(crate) fn missed_deadline(&self, deadline: Duration) {
        self.deadline_ms.store(u32::try_from(deadline.as_millis()).unwrap_or(u32::MAX), Ordering::Relaxed);
    }

    /// Returns the deadline of the last call that missed it; none if no call did.
    pub(crate) fn deadline(&self) -> Option<Duration> {
        let deadline_ms = self.deadline_ms.load(Ordering::Relaxed);
        (deadline_ms > 0).then(|| Duration::from_millis(deadline_ms.into()))
    }

    /// Returns true if a request was missed and no ping has been sent since, or was answered in time.
    pub(crate) fn is_suspected(&self) -> bool {
        self.is_suspected.load(Ordering::Relaxed)
    }

    /// Records that a ping is sent, or answered in time.
    pub(crate) fn pinged(&self) {
        self.is_suspected.store(false, Ordering::Relaxed);
    }

    /// Records a miss; returns true if it opened the breaker.
    pub(crate) fn missed(&self, error: StoreError) -> bool {
        let opens = match error {
            error if error.is_late() => {
                self.is_suspected.store(true, Ordering::Relaxed);
                self.misses.fetch_add(1, Ordering::Relaxed) + 1 >= OPEN_AT
            }
            error => !error.is_of_counter(),
        };
        opens && !self.open.swap(true, Ordering::Relaxed)
    }

    /// Records an answered ping; returns true if it closed the breaker. A closed breaker counts requests only.
    pub(crate) fn close(&self, now: Timestamp) -> bool {
        let was_open = self.is_open();
        if was_open {
            self.misses.store(0, Ordering::Relaxed);
            // First, so that no call finds the breaker closed and the store complete.
            self.recovering_until_ms.store(now.plus_ms(RECOVERY_MS).as_ms(), Ordering::Relaxed);
            self.open.store(false, Ordering::Release);
        }
        was_open
    }

    /// Returns true if the store may lack units that other agents have admitted without it.
    pub(crate) fn is_recovering(&self, now: Timestamp) -> bool {
        now.as_ms() < self.recovering_until_ms.load(Ordering::Relaxed)
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
        let now = Timestamp::from_ms(1_000_000);
        assert!(!breaker.is_recovering(now) && breaker.close(now) && !breaker.is_open() && !breaker.close(now));
        assert!(breaker.is_recovering(now.plus_ms(999)) && !breaker.is_recovering(now.plus_ms(1_000)));
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
