//! One partition in the hands of the pump: gained, restored, counted, and kept for a while after it is another's.

use tollgate_common::clock::Timestamp;
use tollgate_common::signal::Offset;

use crate::counting::{Counting, Input, Outbox, Tally};

/// So long a partition that is another's now is counted on, in ms: until its new owner has read what it needs, agents go
/// on hearing of it.
const HANDOVER_MS: u64 = 5_000;
/// When nothing more came for so long, the log holds nothing more to restore from, in ms.
const QUIET_MS: u64 = 1_000;

pub(super) struct Part {
    pub(super) counting: Counting,
    /// What of its tally the metrics know.
    pub(super) shown: Tally,
    /// The end of the log when reading began: from there on what is said may be relied on.
    target: Offset,
    came_at: Timestamp,
    lost_at: Option<Timestamp>,
}

impl Part {
    pub(super) fn new(counting: Counting, target: Offset, now: Timestamp) -> Self {
        Self { counting, shown: Tally::default(), target, came_at: now, lost_at: None }
    }

    /// Something of it was read.
    pub(super) fn came(&mut self, now: Timestamp) {
        self.came_at = now;
    }

    /// Says that it is restored once it has read what there was.
    pub(super) fn restore(&mut self, now: Timestamp, out: &mut Outbox) {
        if self.counting.is_restored() {
            return;
        }
        let next = self.counting.read().map_or(0, |(offset, _)| offset + 1);
        if next >= self.target || now.ms_since(self.came_at) >= QUIET_MS {
            self.counting.step(now, Input::Restored, out);
        }
    }

    /// Whether it is kept, being one's own or another's.
    pub(super) fn is_kept(&mut self, owned: bool, now: Timestamp) -> bool {
        if owned {
            self.lost_at = None;
            return true;
        }
        now.ms_since(*self.lost_at.get_or_insert(now)) < HANDOVER_MS
    }

    pub(super) fn is_owned(&self) -> bool {
        self.lost_at.is_none()
    }
}
