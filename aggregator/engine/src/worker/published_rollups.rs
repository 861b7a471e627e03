//! The batches of `rollups` on their way to the log.

use std::collections::BTreeMap;

use tollgate_core::clock::Timestamp;
use tollgate_core::counter::Partition;

/// Maximum number of records without a report. Losses of further ones are not repeated.
const UNREPORTED_LEN_MAX: usize = 10_000;
/// Pause after a loss, in ms. Until the topic can be used, each attempt encodes all minutes that are kept.
const PAUSE_MS: u64 = 3_000;

/// The batches of `rollups` that were published and not reported on, by their tags: partition and minute.
#[derive(Clone, Debug, Default)]
pub(super) struct PublishedRollups {
    pub(super) at: Timestamp,
    /// Time of the last loss.
    lost_at: Option<Timestamp>,
    last_tag: u64,
    unreported: BTreeMap<u64, (Partition, u64)>,
}

impl PublishedRollups {
    /// Adds a batch and returns its tag.
    pub(super) fn add(&mut self, partition: Partition, minute: u64) -> u64 {
        self.last_tag += 1;
        if self.unreported.len() < UNREPORTED_LEN_MAX {
            self.unreported.insert(self.last_tag, (partition, minute));
        }
        self.last_tag
    }

    /// Lets closed minutes wait for a while, because one was lost.
    pub(super) fn pause(&mut self, now: Timestamp) {
        self.lost_at = Some(now);
    }

    /// Returns true while closed minutes wait.
    pub(super) fn is_paused(&self, now: Timestamp) -> bool {
        self.lost_at.is_some_and(|lost_at| now.as_ms().abs_diff(lost_at.as_ms()) < PAUSE_MS)
    }

    /// Returns partition and minute of a batch that is reported.
    pub(super) fn reported(&mut self, tag: u64) -> Option<(Partition, u64)> {
        self.unreported.remove(&tag)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// After a loss, closed minutes wait, and no longer than that if the clock is set back or forth meanwhile.
    #[test]
    fn closed_minutes_wait_after_a_loss() {
        let (mut published, now) = (PublishedRollups::default(), Timestamp::from_ms(1_000_000));
        assert!(!published.is_paused(now));
        published.pause(now);
        assert!(published.is_paused(now.plus_ms(PAUSE_MS - 1)));
        for later in [now.plus_ms(PAUSE_MS), now.minus_ms(60_000)] {
            assert!(!published.is_paused(later), "{later:?}");
        }
    }
}
