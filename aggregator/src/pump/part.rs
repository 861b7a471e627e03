//! One partition in the hands of the pump: gained, restored, counted, and kept until another one counts it.

use tollgate_core::clock::Timestamp;
use tollgate_core::messages::signals::Offset;

use crate::counting::{Counting, Input, Outbox, Tally};

/// So long a partition that is another's now is counted on at most, in ms, if its new owner never says that it does.
const HANDOVER_MS_MAX: u64 = 600_000;

pub(super) struct Part {
    pub(super) counting: Counting,
    /// What of its tally the metrics know.
    pub(super) shown: Tally,
    /// The end of the log when reading began: from there on what is said may be relied on.
    target: Offset,
    lost_at: Option<Timestamp>,
}

/// Whose a partition is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Owner {
    /// This aggregator's own.
    Own,
    /// Another's, who has not read yet what it needs.
    Coming,
    /// Another's, who counts it.
    Elsewhere,
}

impl Part {
    pub(super) fn new(counting: Counting, target: Offset) -> Self {
        Self { counting, shown: Tally::default(), target, lost_at: None }
    }

    /// Takes it for restored once what there was is read; `next` is what will be read next. Whether that is news.
    pub(super) fn restore(&mut self, now: Timestamp, next: Option<Offset>, out: &mut Outbox) -> bool {
        let restored = !self.counting.is_restored() && next.is_some_and(|next| next >= self.target);
        if restored {
            self.counting.step(now, Input::Restored, out);
        }
        restored
    }

    /// Whether it is kept: agents go on hearing of it until its new owner tells them.
    pub(super) fn is_kept(&mut self, owner: Owner, now: Timestamp) -> bool {
        match owner {
            Owner::Own => {
                self.lost_at = None;
                true
            }
            Owner::Coming => now.ms_since(*self.lost_at.get_or_insert(now)) < HANDOVER_MS_MAX,
            Owner::Elsewhere => false,
        }
    }

    pub(super) fn is_owned(&self) -> bool {
        self.lost_at.is_none()
    }
}
