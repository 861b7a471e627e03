//! The pace of signals: batches in flight, and batches that the bus refused.
//!
//! The next batches are published once the previous ones are acknowledged, or after 100 ms. When the bus is slow, each batch
//! therefore holds more signals and there are fewer of them: each is a request to the bus and one more fetch of every agent.

use std::collections::VecDeque;

use tollgate_core::clock::Timestamp;
use tollgate_core::messages::signals::SignalBatch;

use super::effects::WorkerEffect;

/// Maximum time for which the acknowledgement of the previous batches is awaited, in ms.
const IN_FLIGHT_MS_MAX: u64 = 100;
/// Maximum time between two ticks, in ms; signals that are due by time leave with a tick.
const WAIT_MS: u64 = 20;
/// The same while counted records wait for their signals, in ms.
const WAIT_UNPUBLISHED_MS: u64 = 1;

#[derive(Clone, Debug, Default)]
pub(super) struct SignalPublisher {
    refused: VecDeque<SignalBatch>,
    /// The number of batches that were published and not acknowledged.
    in_flight: usize,
    published_at: Timestamp,
    /// True if records were counted since signals were published.
    unpublished: bool,
}

impl SignalPublisher {
    pub(super) fn note_record(&mut self) {
        self.unpublished = true;
    }

    pub(super) fn on_acknowledged(&mut self, batches: usize) {
        self.in_flight = self.in_flight.saturating_sub(batches);
    }

    /// Keeps a batch that the bus did not take, after those that it refused before.
    pub(super) fn on_refused(&mut self, batch: SignalBatch) {
        self.in_flight = self.in_flight.saturating_sub(1);
        self.refused.push_back(batch);
    }

    pub(super) fn has_refused(&self) -> bool {
        !self.refused.is_empty()
    }

    pub(super) fn may_publish(&self, now: Timestamp) -> bool {
        self.in_flight == 0 || now.ms_since(self.published_at) >= IN_FLIGHT_MS_MAX
    }

    pub(super) fn wait_ms(&self) -> u64 {
        if self.unpublished { WAIT_UNPUBLISHED_MS } else { WAIT_MS }
    }

    /// Publishes the refused batches again, in their order.
    pub(super) fn retry(&mut self, now: Timestamp, effects: &mut Vec<WorkerEffect>) {
        let refused = std::mem::take(&mut self.refused);
        self.publish(now, refused, effects);
    }

    /// Publishes batches. Earlier ones that are still in flight are not awaited any longer.
    pub(super) fn publish(
        &mut self,
        now: Timestamp,
        batches: impl IntoIterator<Item = SignalBatch>,
        effects: &mut Vec<WorkerEffect>,
    ) {
        let before = effects.len();
        effects.extend(batches.into_iter().map(WorkerEffect::Publish));
        self.in_flight = effects.len() - before;
        self.published_at = now;
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
        // Published and acknowledged batches, ms since the publishing; whether the next ones may follow.
        let cases = [
            (0, 0, 0, true),
            (2, 0, 99, false),
            (2, 1, 99, false),
            (2, 2, 0, true),
            (2, 5, 0, true),
            (2, 1, 100, true),
        ];
        for (published, acknowledged, ms, may_publish) in cases {
            let mut publisher = SignalPublisher::default();
            publisher.publish(at(1_000), (0..published).map(batch), &mut Vec::new());
            publisher.on_acknowledged(acknowledged);
            assert_eq!(publisher.may_publish(at(1_000 + ms)), may_publish, "{acknowledged} of {published}, {ms} ms");
        }
    }

    #[test]
    fn refused_batches_are_not_in_flight_and_keep_their_order() {
        let (mut publisher, mut effects) = (SignalPublisher::default(), Vec::new());
        publisher.publish(at(0), [0, 1, 2].map(batch), &mut effects);
        publisher.on_refused(batch(1));
        publisher.on_refused(batch(2));
        assert!(!publisher.may_publish(at(1)) && publisher.has_refused());
        publisher.on_acknowledged(1);
        assert!(publisher.may_publish(at(1)));
        effects.clear();
        publisher.retry(at(1), &mut effects);
        assert_eq!(effects, [1, 2].map(|partition| WorkerEffect::Publish(batch(partition))));
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
