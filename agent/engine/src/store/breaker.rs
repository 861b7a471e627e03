//! The breaker before the store: after enough requests in a row without an answer in time, no call waits for a time-out any
//! more, until a ping that no call waits for is answered.
//!
//! A late store is not a store that is down, so one answer in time takes back all misses before it. A late answer does
//! not: calls do not wait for it. Four misses in a row open the breaker, each of a request that was sent after the miss
//! before it. Requests that are in flight together are one miss, or a pause of one deadline would open the breaker of a
//! busy agent. More misses would deny too many `strict` calls that had room; fewer would open it at each short pause. An
//! error after which no request can succeed opens it at once.
//!
//! A miss calls for pings, whose misses count like those of calls: an agent with few calls loses a silent store by its
//! pings, and not by four callers. So, at any rate of calls, the breaker is open within [`OPEN_WITHIN_DEADLINES`]
//! deadlines of the first call that the store does not answer. A ping closes it only if it was answered within the
//! deadline that calls missed: they would miss it again.
//!
//! **Deadlines.** Rules may have different deadlines. Four misses open the breaker for all calls whose deadline is at
//! most the shortest of the missed ones. So a rule with a short deadline does not take the store from a rule that waits
//! longer. A ping that comes too late for some calls closes the breaker for the calls that wait as long as the ping
//! took. The missed deadline is forgotten with new rules, and when an answer comes within it.
//!
//! Agents do not reach a store that is back at the same instant. For [`RECOVERY_MS`] it may lack units that other
//! agents have admitted without it.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use tollgate_core::clock::Timestamp;
use tollgate_core::counter::StoreError;

use crate::counters::OPEN_WITHIN_DEADLINES;

/// Number of misses in a row at which the breaker opens.
const OPEN_AT: u32 = OPEN_WITHIN_DEADLINES - 1;

/// Time after which a store that is back has the units of all agents, in ms: they probe it at least twice a second.
const RECOVERY_MS: u64 = 1_000;

/// Longest deadline for which the breaker is open after an error with which no request can succeed.
const ALL_DEADLINES_MS: u32 = u32::MAX;

#[derive(Debug, Default)]
pub(crate) struct Breaker {
    misses: AtomicU32,
    /// Instant of the agent's own clock, which never steps back, at which the last of them was counted, in ms.
    missed_at_ms: AtomicU64,
    /// Shortest deadline of these misses, in ms.
    missed_ms: AtomicU32,
    /// Longest deadline of calls for which the breaker is open, in ms; 0 if it is closed.
    open_ms: AtomicU32,
    /// True from a miss until a ping is sent, or answered in time.
    is_suspected: AtomicBool,
    /// Shortest deadline that calls missed, in ms; 0 if they missed none.
    deadline_ms: AtomicU32,
    /// Instant of the agent's own clock, in ms, until which the store may lack units of other agents. It begins when the
    /// breaker closes.
    recovering_until_ms: AtomicU64,
}

impl Breaker {
    /// Returns true if some calls are not sent.
    #[inline]
    pub(crate) fn is_open(&self) -> bool {
        self.open_ms.load(Ordering::Acquire) > 0
    }

    pub(crate) fn is_open_for(&self, deadline: Duration) -> bool {
        let open_ms = self.open_ms.load(Ordering::Acquire);
        open_ms > 0 && in_ms(deadline) <= open_ms
    }

    /// Records an answer to a call in time.
    pub(crate) fn answered(&self, took_ms: u64) {
        if self.misses.load(Ordering::Relaxed) > 0 && took_ms <= self.missed_ms.load(Ordering::Relaxed).into() {
            self.misses.store(0, Ordering::Relaxed);
            if !self.is_open() {
                self.forget_deadline();
            }
        }
    }

    /// Forgets which deadline calls missed: the next ping in any time closes the breaker.
    pub(crate) fn forget_deadline(&self) {
        self.deadline_ms.store(0, Ordering::Relaxed);
    }

    pub(crate) fn missed_deadline(&self, deadline: Duration) {
        let shorter = |known| (known == 0 || in_ms(deadline) < known).then(|| in_ms(deadline));
        let _ = self.deadline_ms.fetch_update(Ordering::Relaxed, Ordering::Relaxed, shorter);
    }

    /// Returns the shortest deadline that calls missed; none if they missed none.
    pub(crate) fn deadline(&self) -> Option<Duration> {
        let deadline_ms = self.deadline_ms.load(Ordering::Relaxed);
        (deadline_ms > 0).then(|| Duration::from_millis(deadline_ms.into()))
    }

    /// Returns true if a request was missed and no ping has been sent since, or was answered in time.
    pub(crate) fn is_suspected(&self) -> bool {
        self.is_suspected.load(Ordering::Relaxed)
    }

    /// Records that a request was not answered.
    pub(crate) fn suspect(&self) {
        self.is_suspected.store(true, Ordering::Relaxed);
    }

    /// Records that a ping is sent, or answered in time.
    pub(crate) fn pinged(&self) {
        self.is_suspected.store(false, Ordering::Relaxed);
    }

    /// Records a miss of a request with this deadline, which was sent and missed at these instants; returns true if it
    /// opened a closed breaker.
    pub(crate) fn missed(&self, sent: Timestamp, deadline: Duration, now: Timestamp, error: StoreError) -> bool {
        let open_ms = if error.may_pass() {
            self.suspect();
            self.late(sent, in_ms(deadline), now)
        } else if error.is_of_counter() {
            0
        } else {
            ALL_DEADLINES_MS
        };
        open_ms > 0 && self.open_ms.fetch_max(open_ms, Ordering::AcqRel) == 0
    }

    /// Counts a late answer; returns the longest deadline for which the breaker opens, 0 for none.
    fn late(&self, sent: Timestamp, deadline_ms: u32, now: Timestamp) -> u32 {
        if deadline_ms <= self.open_ms.load(Ordering::Relaxed) {
            return 0;
        }
        let was_sent_after = |missed_at_ms| (sent.as_ms() >= missed_at_ms).then_some(now.as_ms());
        let is_next = self.missed_at_ms.fetch_update(Ordering::Relaxed, Ordering::Relaxed, was_sent_after).is_ok();
        if !is_next {
            self.missed_ms.fetch_min(deadline_ms, Ordering::Relaxed);
            return 0;
        }
        let misses = self.misses.fetch_add(1, Ordering::Relaxed) + 1;
        let missed_ms = if misses == 1 {
            self.missed_ms.store(deadline_ms, Ordering::Relaxed);
            deadline_ms
        } else {
            self.missed_ms.fetch_min(deadline_ms, Ordering::Relaxed).min(deadline_ms)
        };
        if misses < OPEN_AT {
            return 0;
        }
        self.misses.store(0, Ordering::Relaxed);
        missed_ms
    }

    /// Records a ping in time; returns true if it closed the breaker. A closed breaker counts requests only.
    pub(crate) fn close(&self, now: Timestamp) -> bool {
        let was_open = self.is_open();
        if was_open {
            self.misses.store(0, Ordering::Relaxed);
            self.forget_deadline();
            self.open_until(now, 0);
        }
        was_open
    }

    /// Records a ping that took so long, which is too late for some calls: the others ask the store again.
    pub(crate) fn answered_late(&self, now: Timestamp, took_ms: u64) {
        let took_ms = u32::try_from(took_ms).unwrap_or(u32::MAX).max(self.deadline_ms.load(Ordering::Relaxed));
        if took_ms < self.open_ms.load(Ordering::Relaxed) {
            self.open_until(now, took_ms);
        }
    }

    fn open_until(&self, now: Timestamp, deadline_ms: u32) {
        // First, so that no call finds the breaker closed and the store complete.
        self.recovering_until_ms.store(now.plus_ms(RECOVERY_MS).as_ms(), Ordering::Relaxed);
        self.open_ms.store(deadline_ms, Ordering::Release);
    }

    /// Returns true if the store may lack units that other agents have admitted without it.
    pub(crate) fn is_recovering(&self, now: Timestamp) -> bool {
        now.as_ms() < self.recovering_until_ms.load(Ordering::Relaxed)
    }
}

/// Returns a deadline in ms, at least 1.
fn in_ms(deadline: Duration) -> u32 {
    u32::try_from(deadline.as_millis()).unwrap_or(u32::MAX).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    const DEADLINE: Duration = Duration::from_millis(15);
    const SHORT: Duration = Duration::from_millis(5);

    /// Misses so many requests, each sent after the miss before it; returns true if one opened the breaker.
    fn miss(breaker: &Breaker, requests: u32, deadline: Duration) -> bool {
        (0..requests).fold(false, |has_opened, _| {
            let sent = Timestamp::from_ms(breaker.missed_at_ms.load(Ordering::Relaxed));
            has_opened | breaker.missed(sent, deadline, sent.plus_ms(in_ms(deadline).into()), StoreError::TimedOut)
        })
    }

    #[test]
    fn it_opens_after_four_misses_in_a_row_and_a_ping_closes_it() {
        let breaker = Breaker::default();
        assert!(!miss(&breaker, 3, DEADLINE));
        assert!(miss(&breaker, 1, DEADLINE) && breaker.is_open());
        assert!(!miss(&breaker, 1, DEADLINE), "reported once");
        let now = Timestamp::from_ms(1_000_000);
        assert!(!breaker.is_recovering(now) && breaker.close(now) && !breaker.is_open() && !breaker.close(now));
        assert!(breaker.is_recovering(now.plus_ms(999)) && !breaker.is_recovering(now.plus_ms(1_000)));
    }

    /// A store that pauses before every fourth request is late and not down.
    #[test]
    fn an_answer_in_time_takes_back_all_misses_before_it() {
        let breaker = Breaker::default();
        for _ in 0..200 {
            assert!(!miss(&breaker, 3, DEADLINE));
            breaker.answered(1);
        }
    }

    /// A busy agent has more requests in flight than misses open the breaker. A pause of three deadlines does not open it.
    #[test]
    fn requests_in_flight_together_are_one_miss() {
        let breaker = Breaker::default();
        let at = Timestamp::from_ms;
        for missed_ms in 1_015..1_060 {
            let (sent, missed) = (at(missed_ms - 15), at(missed_ms));
            assert!(
                (0..10).all(|_| !breaker.missed(sent, DEADLINE, missed, StoreError::TimedOut)),
                "at {missed_ms} ms"
            );
        }
        assert!(breaker.missed(at(1_045), DEADLINE, at(1_060), StoreError::TimedOut));
    }

    #[test]
    fn an_unreachable_store_opens_it_at_once() {
        let breaker = Breaker::default();
        let now = Timestamp::from_ms(1_000_000);
        let missed = |error| breaker.missed(now, DEADLINE, now, error);
        assert!((0..9).all(|_| !missed(StoreError::Full) && !missed(StoreError::Contended)));
        assert!(missed(StoreError::Unreachable) && breaker.is_open());
    }

    /// A rule that waits 5 ms for a store that takes 10 ms does not keep a rule that waits longer from asking it.
    #[test]
    fn misses_open_it_for_no_longer_deadlines() {
        let breaker = Breaker::default();
        for _ in 0..OPEN_AT {
            assert!(!breaker.is_open_for(SHORT));
            breaker.missed_deadline(SHORT);
            miss(&breaker, 1, SHORT);
            breaker.answered(10);
        }
        assert!(breaker.is_open_for(SHORT) && !breaker.is_open_for(DEADLINE) && breaker.is_open());
        assert!(!miss(&breaker, OPEN_AT, DEADLINE), "it was open already");
        assert!(breaker.is_open_for(DEADLINE) && !breaker.is_open_for(DEADLINE * 2));
        let now = Timestamp::from_ms(1_000_000);
        breaker.answered_late(now, 10);
        assert!(breaker.is_open_for(SHORT) && !breaker.is_open_for(DEADLINE) && breaker.is_recovering(now));
        breaker.answered_late(now, 1);
        assert!(breaker.is_open_for(SHORT), "only a ping that is in time for all closes it");
        assert_eq!(breaker.deadline(), Some(SHORT));
        assert!(breaker.close(now) && breaker.deadline().is_none());
    }

    #[test]
    fn a_missed_deadline_is_forgotten_with_an_answer_that_is_as_quick() {
        let breaker = Breaker::default();
        breaker.missed_deadline(SHORT);
        assert!(!miss(&breaker, 1, SHORT));
        breaker.answered(6);
        assert_eq!(breaker.deadline(), Some(SHORT));
        breaker.answered(5);
        assert_eq!(breaker.deadline(), None);
    }
}
