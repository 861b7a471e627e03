//! Batches in flight: handed to the bus, and neither acknowledged nor lost yet.
//!
//! Batches go out in rounds. A round is sent once the previous one is acknowledged, or after [`ROUND_MS_MAX`]: when the bus
//! is slow, batches become longer and not more. Each batch is a request at a Kafka broker, and librdkafka's thread spins
//! while more batches wait for a partition than it may have in flight.

use std::collections::BTreeMap;

use tollgate_core::clock::Timestamp;
use tollgate_core::counter::Partition;

/// Maximum time for which a round waits for the acknowledgement, or the acceptance, of the previous one, in ms.
pub(super) const ROUND_MS_MAX: u64 = 100;
/// Maximum number of batches in flight; more than librdkafka keeps for its delivery time-out. Past it, the fate of the
/// oldest is taken for lost.
const IN_FLIGHT_LEN_MAX: usize = 65_536;

/// Name of a batch among those of this agent's life.
pub(super) type BatchKey = (Partition, u64);

/// Batches in flight.
#[derive(Debug, Default)]
pub(super) struct InFlight {
    batches: BTreeMap<BatchKey, InFlightBatch>,
    round: u64,
    sent_at: Timestamp,
    /// Batches of the newest round that are neither acknowledged nor lost.
    unacknowledged: usize,
    /// True if the bus had no room for a batch of the newest round.
    refused: bool,
}

/// One batch in flight.
#[derive(Debug)]
struct InFlightBatch {
    rows: usize,
    round: u64,
}

impl InFlight {
    /// Returns true if a round may be sent now.
    pub(super) fn may_send(&self, now: Timestamp) -> bool {
        now >= self.may_send_at()
    }

    /// Returns the time from which a round may be sent if no report arrives earlier.
    pub(super) fn may_send_at(&self) -> Timestamp {
        let waits = self.unacknowledged > 0 || self.refused;
        if waits { self.sent_at.plus_ms(ROUND_MS_MAX) } else { Timestamp::default() }
    }

    /// Begins a round.
    pub(super) fn begin_round(&mut self, now: Timestamp) {
        self.round += 1;
        self.sent_at = now;
        self.unacknowledged = 0;
        self.refused = false;
    }

    /// Adds a batch to the newest round. Returns the batch and the rows that are given up for it, past the cap.
    pub(super) fn add(&mut self, key: BatchKey, rows: usize) -> Option<(BatchKey, usize)> {
        self.batches.insert(key, InFlightBatch { rows, round: self.round });
        self.unacknowledged += 1;
        if self.batches.len() <= IN_FLIGHT_LEN_MAX {
            return None;
        }
        let (oldest, _) = self.batches.iter().min_by_key(|(_, batch)| batch.round)?;
        let oldest = *oldest;
        Some((oldest, self.remove(oldest)))
    }

    /// Removes a batch that is acknowledged or lost. Returns the number of its rows, 0 if it is not in flight.
    pub(super) fn remove(&mut self, key: BatchKey) -> usize {
        let Some(batch) = self.batches.remove(&key) else { return 0 };
        if batch.round == self.round {
            self.unacknowledged -= 1;
        }
        batch.rows
    }

    /// Removes a batch that the bus had no room for: the next round waits for [`ROUND_MS_MAX`].
    pub(super) fn refuse(&mut self, key: BatchKey) {
        self.remove(key);
        self.refused = true;
    }

    /// Returns the time at which the newest round was sent, if batches are in flight.
    pub(super) fn waits_since(&self) -> Option<Timestamp> {
        (!self.batches.is_empty()).then_some(self.sent_at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn at(ms: u64) -> Timestamp {
        Timestamp::from_ms(ms)
    }

    #[test]
    fn a_round_waits_for_the_one_before_it_but_not_for_ever() {
        let mut in_flight = InFlight::default();
        assert!(in_flight.may_send(at(0)));
        in_flight.begin_round(at(1_000));
        assert!(in_flight.add((0, 1), 3).is_none() && in_flight.add((1, 1), 4).is_none());
        assert!(!in_flight.may_send(at(1_099)) && in_flight.may_send(at(1_100)));
        assert_eq!(in_flight.remove((0, 1)), 3);
        assert!(!in_flight.may_send(at(1_010)), "one of two");
        assert_eq!((in_flight.remove((1, 1)), in_flight.remove((1, 1))), (4, 0));
        assert!(in_flight.may_send(at(1_010)) && in_flight.waits_since().is_none());
    }

    #[test]
    fn a_report_of_an_older_round_does_not_open_the_next_one() {
        let mut in_flight = InFlight::default();
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
        let mut in_flight = InFlight::default();
        in_flight.begin_round(at(1_000));
        in_flight.add((0, 1), 1);
        in_flight.refuse((0, 1));
        assert!(!in_flight.may_send(at(1_099)) && in_flight.may_send(at(1_100)));
        assert!(in_flight.waits_since().is_none());
    }

    #[test]
    fn past_the_cap_the_oldest_batch_is_given_up() {
        let mut in_flight = InFlight::default();
        in_flight.begin_round(at(1_000));
        assert!(in_flight.add((1, 0), 2).is_none());
        in_flight.begin_round(at(1_100));
        for sequence in 1..IN_FLIGHT_LEN_MAX as u64 {
            assert!(in_flight.add((0, sequence), 3).is_none());
        }
        let further = [1, 2].map(|sequence| in_flight.add((1, sequence), 3));
        assert_eq!(
            further,
            [Some(((1, 0), 2)), Some(((0, 1), 3))],
            "in the order of the rounds, not of the partitions"
        );
    }
}
