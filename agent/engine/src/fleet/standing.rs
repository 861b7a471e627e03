//! Place of an agent in its fleet: from it follows whether the agent has a part of each quota.

use crate::report::Notice;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Standing {
    /// Not heard by the others yet. Ends when own heartbeats came back for `JOINED_AFTER_MS`, or when a complete
    /// presence set names no other agent: whoever comes later finds this agent there.
    #[default]
    New,
    /// Heard by the others, if there are any. Ends when own heartbeats do not come back for `MUTE_MS` while
    /// others do.
    Joined,
    /// Removed by the others. Ends as [`Standing::New`] does.
    Removed,
}

impl Standing {
    pub(super) fn notice_after(self, before: Self) -> Option<Notice> {
        match (before, self) {
            (Self::New | Self::Joined, Self::Removed) => Some(Notice::HeartbeatsLost),
            (Self::Removed, Self::Joined) => Some(Notice::HeartbeatsBack),
            _ => None,
        }
    }
}
