//! Batches in flight: handed to the bus, and neither acknowledged nor lost yet. Agents and aggregators send by it.
//!
//! Batches go out in rounds. A round is sent once the previous one is acknowledged, or after [`ROUND_MS_MAX`]: when the bus
//! is slow, batches become longer and not more. Each batch is a request at a Kafka broker, and librdkafka's thread spins
//! while more batches wait for a partition than it may have in flight.

use std::collections::BTreeMap;

use crate::clock::Timestamp;

/// Maximum time for which a round waits for the acknowledgement, or the acceptance, of the previous one, in ms.
pub const ROUND_MS_MAX: u64 = 100;
/// Maximum number of batches in flight; more than librdkafka keeps for its delivery time-out. Past it, the fate of the
/// oldest is taken for lost.
const IN_FLIGHT_LEN_MAX: usize = 65_536;

/// Batches in flight, by the keys that their delivery reports contain. `B` is what the writer needs once the fate of a
/// batch is known.
#[derive(Clone, Debug, Default)]
pub struct InFlight<K, B> {
    /// Each batch, after its number.
    batches: BTreeMap<K, (u64, B)>,
    /// The keys of the batches, by their numbers.
    keys: BTreeMap<u64, K>,
    /// The number of batches that were ever sent.
    sent: u64,
    /// The value of `sent` when the newest round began.
    sent_before_round: u64,
    round_at: Timestamp,
    /// Batches of the newest round that are neither acknowledged nor lost.
    unacknowledged: usize,
    /// True if the bus had no room for a batch of the newest round.
    refused: bool,
}

impl<K: Copy + Ord, B> InFlight<K, B> {
    /// Returns true if a round may be sent now.
    #[must_use]
    pub fn may_send(&self, now: Timestamp) -> bool {
        now >= self.may_send_at()
    }

    /// Returns the time from which a round may be sent if no report arrives earlier.
    #[must_use]
    pub fn may_send_at(&self) -> Timestamp {
        let waits = self.unacknowledged > 0 || self.refused;
        if waits { self.round_at.plus_ms(ROUND_MS_MAX) } else { Timestamp::default() }
    }

    /// Begins a round.
    pub fn begin_round(&mut self, now: Timestamp) {
        self.sent_before_round = self.sent;
        self.round_at = now;
        self.unacknowledged = 0;
        self.refused = false;
    }

    /// Adds a batch to the newest round. Returns the oldest batch, which is given up for it, past the cap.
    pub fn add(&mut self, key: K, batch: B) -> Option<(K, B)> {
        self.sent += 1;
        self.batches.insert(key, (self.sent, batch));
        self.keys.insert(self.sent, key);
        self.unacknowledged += 1;
        if self.batches.len() <= IN_FLIGHT_LEN_MAX {
            return None;
        }
        let oldest = *self.keys.first_key_value()?.1;
        Some((oldest, self.remove(oldest)?))
    }

    /// Removes a batch that is acknowledged or lost; returns nothing if it is not in flight.
    pub fn remove(&mut self, key: K) -> Option<B> {
        let (number, batch) = self.batches.remove(&key)?;
        self.keys.remove(&number);
        if number > self.sent_before_round {
            self.unacknowledged -= 1;
        }
        Some(batch)
    }

    /// Removes a batch that the bus had no room for: the next round waits for [`ROUND_MS_MAX`].
    pub fn refuse(&mut self, key: K) -> Option<B> {
        self.refused = true;
        self.remove(key)
    }

    /// Returns the batch in flight with the smallest key.
    #[must_use]
    pub fn first(&self) -> Option<(K, &B)> {
        self.batches.first_key_value().map(|(key, (_, batch))| (*key, batch))
    }

    /// Returns the time at which the newest round was sent, if batches are in flight.
    #[must_use]
    pub fn waits_since(&self) -> Option<Timestamp> {
        (!self.batches.is_empty()).then_some(self.round_at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    type Batches = InFlight<(u32, u64), usize>;

    const fn at(ms: u64) -> Timestamp {
        Timestamp::from_ms(ms)
    }

    #[test]
    fn a_round_waits_for_the_one_before_it_but_not_for_ever() {
        let mut in_flight = Batches::default();
        assert!(in_flight.may_send(at(0)));
        in_flight.begin_round(at(1_000));
        assert!(in_flight.add((0, 1), 3).is_none() && in_flight.add((1, 1), 4).is_none());
        assert!(!in_flight.may_send(at(1_099)) && in_flight.may_send(at(1_100)));
        assert_eq!(in_flight.remove((0, 1)), Some(3));
        assert!(!in_flight.may_send(at(1_010)), "one of two");
        assert_eq!((in_flight.remove((1, 1)), in_flight.remove((1, 1))), (Some(4), None));
        assert!(in_flight.may_send(at(1_010)) && in_flight.waits_since().is_none());
    }

    #[test]
    fn a_report_of_an_older_round_does_not_open_the_next_one() {
        let mut in_flight = Batches::default();
        in_flight.begin_round(at(1_000));
        in_flight.add((0, 1), 1);
        in_flight.begin_round(at(1_100));
        in_flight.add((0, 2), 1);
        in_flight.remove((0, 1));
        assert!(!in_flight.may_send(at(1_150)));
        in_flight.remove((0, 2));
        assert!(in_flight.may_send(at(1_150)));
    }

    #[test]
    fn a_full_bus_is_tried_again_after_a_while() {
        let mut in_flight = Batches::default();
        in_flight.begin_round(at(1_000));
        in_flight.add((0, 1), 1);
        in_flight.refuse((0, 1));
        assert!(!in_flight.may_send(at(1_099)) && in_flight.may_send(at(1_100)));
        assert!(in_flight.waits_since().is_none());
    }

    #[test]
    fn past_the_cap_the_batch_that_was_sent_first_is_given_up() {
        let mut in_flight = Batches::default();
        in_flight.add((1, 0), 3);
        for sequence in 1..IN_FLIGHT_LEN_MAX as u64 {
            assert!(in_flight.add((0, sequence), 2).is_none());
        }
        assert_eq!(in_flight.add((0, IN_FLIGHT_LEN_MAX as u64), 2), Some(((1, 0), 3)));
        assert_eq!(in_flight.add((2, 0), 2), Some(((0, 1), 2)));
    }
}
