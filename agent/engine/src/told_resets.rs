//! Resets that this agent tells the others, and those that it has heard.
//!
//! A reset is repeated in each heartbeat for a few seconds, so that a heartbeat which finds no room or is lost costs nothing. It is
//! applied once: a repetition would forget what the caller has used since.

use std::collections::VecDeque;

use tollgate_core::clock::Timestamp;
use tollgate_core::messages::presence::{CounterReset, INTERVAL_MS};

/// Time for which a reset is repeated, in ms.
const TOLD_MS: u64 = 3 * INTERVAL_MS;
/// Time for which a reset that was heard is known, in ms: far longer than it is repeated.
const KNOWN_MS: u64 = 15_000;
/// Maximum number of resets that are told at a time. Past the cap, the oldest is told no longer; the others learn of it when
/// their cached denials end.
const TOLD_LEN_MAX: usize = 1_000;
/// Maximum number of resets that are known. Past the cap, the oldest is forgotten, and a repetition of it is applied again.
const KNOWN_LEN_MAX: usize = 5_000;

#[derive(Debug, Default)]
pub(crate) struct ToldResets {
    /// Own resets, and the instants until which they are told.
    own: VecDeque<(Timestamp, CounterReset)>,
    /// Resets that were heard, or are the agent's own, and the instants until which they are known.
    known: VecDeque<(Timestamp, CounterReset)>,
    /// True if a reset was in no heartbeat yet.
    is_new: bool,
}

impl ToldResets {
    /// Adds a reset of this agent.
    pub(crate) fn tell(&mut self, now: Timestamp, reset: CounterReset) {
        self.is_new = true;
        push(&mut self.own, (now.plus_ms(TOLD_MS), reset), TOLD_LEN_MAX);
        push(&mut self.known, (now.plus_ms(KNOWN_MS), reset), KNOWN_LEN_MAX);
    }

    /// Returns true if a reset that was heard is not known yet; from then on it is.
    pub(crate) fn is_news(&mut self, now: Timestamp, reset: &CounterReset) -> bool {
        drop_old(&mut self.known, now);
        let is_news = self.known.iter().rev().all(|(_, known)| known != reset);
        if is_news {
            push(&mut self.known, (now.plus_ms(KNOWN_MS), *reset), KNOWN_LEN_MAX);
        }
        is_news
    }

    /// Returns true if a heartbeat is due at once.
    pub(crate) fn is_new(&self) -> bool {
        self.is_new
    }

    /// Returns the resets for a heartbeat.
    pub(crate) fn for_heartbeat(&mut self, now: Timestamp) -> Vec<CounterReset> {
        self.is_new = false;
        drop_old(&mut self.own, now);
        self.own.iter().map(|(_, reset)| *reset).collect()
    }
}

fn push(resets: &mut VecDeque<(Timestamp, CounterReset)>, reset: (Timestamp, CounterReset), len_max: usize) {
    if resets.len() >= len_max {
        resets.pop_front();
    }
    resets.push_back(reset);
}

fn drop_old(resets: &mut VecDeque<(Timestamp, CounterReset)>, now: Timestamp) {
    while resets.front().is_some_and(|(until, _)| *until <= now) {
        resets.pop_front();
    }
}

#[cfg(test)]
mod tests {
    use tollgate_core::counter::CounterId;

    use super::*;

    const START: Timestamp = Timestamp::from_ms(1_000_000);

    fn reset(counter: u128) -> CounterReset {
        CounterReset { counter: CounterId::from_u128(counter), at: START }
    }

    #[test]
    fn a_reset_is_told_for_a_few_heartbeats_and_applied_once() {
        let (mut teller, mut hearer) = (ToldResets::default(), ToldResets::default());
        teller.tell(START, reset(1));
        assert!(teller.is_new());
        let mut applied = 0;
        for heartbeat in 0..5 {
            let now = START.plus_ms(heartbeat * INTERVAL_MS);
            let told = teller.for_heartbeat(now);
            assert_eq!((told.len(), teller.is_new()), (usize::from(heartbeat < 3), false));
            applied += told.iter().filter(|reset| hearer.is_news(now, reset)).count();
            assert!(told.iter().all(|reset| !teller.is_news(now, reset)), "its own come back");
        }
        assert_eq!(applied, 1);
    }

    #[test]
    fn both_lists_have_a_cap() {
        let mut resets = ToldResets::default();
        for counter in 0..2 * KNOWN_LEN_MAX as u128 {
            resets.tell(START, reset(counter));
        }
        assert_eq!((resets.for_heartbeat(START).len(), resets.known.len()), (TOLD_LEN_MAX, KNOWN_LEN_MAX));
    }
}
