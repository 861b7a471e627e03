//! Resets that this agent announces to the others, and those that it knows.
//!
//! Each reset is in the heartbeats of 3 s, because one may be lost. It is applied once: a repetition would forget what the caller
//! has used since. For as long as it is known, older facts about its counter, such as the answer to a request that was under way,
//! are dropped.

use std::collections::{HashMap, VecDeque};

use foldhash::fast::RandomState;
use tollgate_core::clock::Timestamp;
use tollgate_core::counter::CounterId;
use tollgate_core::messages::presence::{CounterReset, INTERVAL_MS, RESETS_LEN_MAX};

/// Time for which a reset is announced, in ms.
const ANNOUNCED_MS: u64 = 3 * INTERVAL_MS;
/// Time for which a reset is known, in ms: longer than a request to the store waits for its answer, and than announcements last.
const KNOWN_MS: u64 = 65_000;
/// Maximum number of resets that are known. Past the cap, the oldest is forgotten.
const KNOWN_LEN_MAX: usize = 10_000;

#[derive(Debug, Default)]
pub(crate) struct ResetAnnouncements {
    /// Own resets, and the instants of the agent's clock until which they are announced.
    own: VecDeque<(Timestamp, CounterReset)>,
    known: HashMap<CounterId, LastReset, RandomState>,
    /// Counters in the order in which their resets were learned, for the cap.
    order: VecDeque<(CounterId, Timestamp)>,
    /// True if a reset was in no heartbeat yet.
    is_due: bool,
}

#[derive(Clone, Copy, Debug)]
struct LastReset {
    /// Instant of the reset, in store time.
    at: Timestamp,
    /// Instant of the agent's own clock until which it is known.
    until: Timestamp,
}

impl ResetAnnouncements {
    /// Adds a reset of this agent. Past the cap, the oldest one is announced no longer: the others learn of it when they ask the
    /// store again.
    pub(crate) fn announce(&mut self, now: Timestamp, reset: CounterReset) {
        self.is_due = true;
        if self.own.len() >= RESETS_LEN_MAX {
            self.own.pop_front();
        }
        self.own.push_back((now.plus_ms(ANNOUNCED_MS), reset));
        self.learn(now, &reset);
    }

    /// Learns a reset; returns false if it, or a later one of the counter, is known.
    pub(crate) fn learn(&mut self, now: Timestamp, reset: &CounterReset) -> bool {
        while self.order.front().is_some_and(|(_, until)| *until <= now) || self.order.len() >= KNOWN_LEN_MAX {
            let Some((counter, until)) = self.order.pop_front() else { break };
            if self.known.get(&counter).is_some_and(|known| known.until == until) {
                self.known.remove(&counter);
            }
        }
        if self.known.get(&reset.counter).is_some_and(|known| known.at >= reset.at) {
            return false;
        }
        let until = now.plus_ms(KNOWN_MS);
        self.known.insert(reset.counter, LastReset { at: reset.at, until });
        self.order.push_back((reset.counter, until));
        true
    }

    /// Returns the instant of the last known reset of a counter, in store time.
    pub(crate) fn last(&self, counter: CounterId) -> Option<Timestamp> {
        self.known.get(&counter).map(|known| known.at)
    }

    /// Returns true if a reset is known at `now`.
    pub(crate) fn are_known(&self, now: Timestamp) -> bool {
        self.order.back().is_some_and(|(_, until)| now < *until)
    }

    /// Returns true if a heartbeat is due at once.
    pub(crate) fn is_due(&self) -> bool {
        self.is_due
    }

    /// Returns the resets for a heartbeat.
    pub(crate) fn for_heartbeat(&mut self, now: Timestamp) -> Vec<CounterReset> {
        self.is_due = false;
        while self.own.front().is_some_and(|(until, _)| *until <= now) {
            self.own.pop_front();
        }
        self.own.iter().map(|(_, reset)| *reset).collect()
    }

    /// Forgets all resets, whose instants say nothing once the store's clock was set.
    pub(crate) fn clock_was_set(&mut self) {
        self.own.clear();
        self.known.clear();
        self.order.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const START: Timestamp = Timestamp::from_ms(1_000_000);

    fn reset(counter: u128, ms: u64) -> CounterReset {
        CounterReset { counter: CounterId::from_u128(counter), at: START.plus_ms(ms) }
    }

    #[test]
    fn a_reset_is_announced_for_a_few_heartbeats_and_learned_once() {
        let (mut one, mut other) = (ResetAnnouncements::default(), ResetAnnouncements::default());
        one.announce(START, reset(1, 0));
        assert!(one.is_due());
        let mut learned = 0;
        for heartbeat in 0..5 {
            let now = START.plus_ms(heartbeat * INTERVAL_MS);
            let announced = one.for_heartbeat(now);
            assert_eq!((announced.len(), one.is_due()), (usize::from(heartbeat < 3), false));
            learned += announced.iter().filter(|reset| other.learn(now, reset)).count();
            assert!(announced.iter().all(|reset| !one.learn(now, reset)), "its own come back");
        }
        assert_eq!((learned, other.last(CounterId::from_u128(1))), (1, Some(START)));
        assert!(other.learn(START, &reset(1, 5)), "a later reset");
        assert!(!other.learn(START, &reset(1, 3)), "one before it comes late");
    }

    #[test]
    fn both_lists_have_a_cap_and_an_end() {
        let mut resets = ResetAnnouncements::default();
        for counter in 0..2 * KNOWN_LEN_MAX as u128 {
            resets.announce(START, reset(counter, 0));
        }
        assert_eq!((resets.for_heartbeat(START).len(), resets.known.len()), (RESETS_LEN_MAX, KNOWN_LEN_MAX));
        assert!(resets.learn(START.plus_ms(KNOWN_MS), &reset(0, 0)));
        assert_eq!((resets.known.len(), resets.order.len()), (1, 1));
    }
}
