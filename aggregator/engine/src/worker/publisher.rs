//! The pace of signals: batches in flight, and batches that the bus refused.
//!
//! The next batches are published once the previous ones are acknowledged, or after 100 ms. When the bus is slow, each batch
//! therefore holds more signals and there are fewer of them: each is a request to the bus and one more fetch of every agent.

use std::collections::VecDeque;

use tollgate_core::clock::Timestamp;
use tollgate_core::counter::{CounterId, Partition};
use tollgate_core::in_flight::InFlight;
use tollgate_core::messages::signals::SignalBatch;

use super::effects::WorkerEffect;

/// Maximum time between two ticks, in ms; signals that are due by time leave with a tick.
const WAIT_MS: u64 = 20;
/// Maximum time between two ticks while counted records wait for their signals, in ms.
const WAIT_UNPUBLISHED_MS: u64 = 1;

/// The counters that a batch signals.
pub(super) type SignalledCounters = (Partition, Vec<CounterId>);

#[derive(Clone, Debug, Default)]
pub(super) struct SignalPublisher {
    refused: VecDeque<SignalBatch>,
    /// Batches that were published and not reported on, by their tags.
    in_flight: InFlight<u64, SignalledCounters>,
    /// The tag of the last batch.
    last_tag: u64,
    /// True if records were counted since signals were published.
    unpublished: bool,
}

impl SignalPublisher {
    pub(super) fn note_record(&mut self) {
        self.unpublished = true;
    }

    /// Takes a batch that reached the log, or was lost, out of flight. Returns the counters whose signals were lost.
    pub(super) fn on_reported(&mut self, tag: u64, is_lost: bool) -> Option<SignalledCounters> {
        self.in_flight.remove(tag).filter(|_| is_lost)
    }

    /// Keeps a batch that the bus did not take, after those that it refused before.
    pub(super) fn on_refused(&mut self, tag: u64, batch: SignalBatch) {
        self.in_flight.remove(tag);
        self.refused.push_back(batch);
    }

    pub(super) fn has_refused(&self) -> bool {
        !self.refused.is_empty()
    }

    pub(super) fn may_publish(&self, now: Timestamp) -> bool {
        self.in_flight.may_send(now)
    }

    pub(super) fn wait_ms(&self) -> u64 {
        if self.unpublished { WAIT_UNPUBLISHED_MS } else { WAIT_MS }
    }

    /// Publishes the refused batches again, in their order.
    pub(super) fn retry(&mut self, now: Timestamp, effects: &mut Vec<WorkerEffect>) {
        let refused = std::mem::take(&mut self.refused);
        self.publish(now, refused, effects);
    }

    /// Publishes batches. Earlier ones that are still in flight do not delay the next ones any longer.
    pub(super) fn publish(
        &mut self,
        now: Timestamp,
        batches: impl IntoIterator<Item = SignalBatch>,
        effects: &mut Vec<WorkerEffect>,
    ) {
        self.in_flight.begin_round(now);
        for batch in batches {
            self.last_tag += 1;
            let counters = batch.signals.iter().map(|signal| signal.counter).collect();
            // The counters of a batch that is given up past the cap wait for the repetition of their signals.
            self.in_flight.add(self.last_tag, (batch.partition, counters));
            effects.push(WorkerEffect::Publish { tag: self.last_tag, batch });
        }
        self.unpublished = false;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn batch(partition: u32) -> SignalBatch {
        SignalBatch {
            aggregator: "a".into(),
            partition,
            log: 1,
            as_of: 0,
            as_of_appended: Timestamp::default(),
            threshold_permille: 0,
            signals: Vec::new(),
        }
    }

    fn at(ms: u64) -> Timestamp {
        Timestamp::from_ms(ms)
    }

    #[test]
    fn the_next_batches_wait_for_acknowledgements_for_at_most_100_ms() {
        // Published batches, tags that are reported, ms since the publishing; whether the next ones may follow.
        let cases: [(u32, &[u64], u64, bool); 7] = [
            (0, &[], 0, true),
            (2, &[], 99, false),
            (2, &[1], 99, false),
            (2, &[1, 1], 99, false),
            (2, &[2, 1], 0, true),
            (2, &[1, 3, 2], 0, true),
            (2, &[1], 100, true),
        ];
        for (published, reported, ms, may_publish) in cases {
            let mut publisher = SignalPublisher::default();
            publisher.publish(at(1_000), (0..published).map(batch), &mut Vec::new());
            for tag in reported {
                publisher.on_reported(*tag, false);
            }
            assert_eq!(publisher.may_publish(at(1_000 + ms)), may_publish, "{reported:?} of {published}, {ms} ms");
        }
    }

    #[test]
    fn late_acknowledgements_of_earlier_batches_do_not_admit_the_next_ones() {
        let mut publisher = SignalPublisher::default();
        publisher.publish(at(0), [batch(0)], &mut Vec::new());
        publisher.publish(at(100), [batch(0)], &mut Vec::new());
        publisher.on_reported(1, false);
        assert!(!publisher.may_publish(at(110)));
        publisher.on_reported(2, false);
        assert!(publisher.may_publish(at(110)));
    }

    #[test]
    fn refused_batches_are_not_in_flight_and_keep_their_order() {
        let (mut publisher, mut effects) = (SignalPublisher::default(), Vec::new());
        publisher.publish(at(0), [0, 1, 2].map(batch), &mut effects);
        publisher.on_refused(2, batch(1));
        publisher.on_refused(3, batch(2));
        assert!(!publisher.may_publish(at(1)) && publisher.has_refused());
        publisher.on_reported(1, false);
        assert!(publisher.may_publish(at(1)));
        effects.clear();
        publisher.retry(at(1), &mut effects);
        assert_eq!(effects, [(4, 1), (5, 2)].map(|(tag, of)| WorkerEffect::Publish { tag, batch: batch(of) }));
        assert!(!publisher.has_refused() && !publisher.may_publish(at(2)));
    }

    #[test]
    fn ticks_follow_at_once_while_counted_records_wait_for_their_signals() {
        let mut publisher = SignalPublisher::default();
        assert_eq!(publisher.wait_ms(), WAIT_MS);
        publisher.note_record();
        assert_eq!(publisher.wait_ms(), WAIT_UNPUBLISHED_MS);
        publisher.publish(at(0), [], &mut Vec::new());
        assert_eq!(publisher.wait_ms(), WAIT_MS);
    }
}
