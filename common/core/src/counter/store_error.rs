//! Reasons for which a store did not answer. Each tells whether the request may have charged.

use super::PrimaryIndex;
use crate::clock::Timestamp;

/// Reason for which a store did not answer. None of these is ever a denial.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
pub enum StoreError {
    /// It did not answer before the deadline. Its late answer tells if it charged.
    #[error("the store did not answer in time")]
    TimedOut,
    /// The connection was lost before the answer, or the answer cannot be read. It will never be known if it charged.
    #[error("the answer of the store was lost")]
    AnswerLost,
    /// It read the request after its expiry, at this instant of store time, and charged nothing.
    #[error("the store read the request too late")]
    Expired(Timestamp),
    /// It cannot be reached; nothing was charged.
    #[error("the store cannot be reached")]
    Unreachable,
    /// It holds its maximum number of counters, or its memory is full; nothing was charged.
    #[error("the store is full")]
    Full,
    /// The request was not sent, because too many others wait for the store.
    #[error("too many requests wait for the store")]
    Busy,
    /// Other agents changed a counter's value each time that the step had to replace it; nothing was charged. Other counters
    /// are not concerned.
    #[error("too many agents change a counter at once")]
    Contended,
    /// The value under a counter's key is not a counter; nothing was charged. Other counters are not concerned.
    #[error("the value under a counter's key is not a counter")]
    Unreadable,
    /// The slot of a counter is at another primary; nothing was charged.
    #[error("the counter has moved to another server of the store")]
    Moved,
    /// The slot of a counter is on its way to this primary, which holds the counter; nothing was charged.
    #[error("the counter is on its way to another server of the store")]
    Asked(PrimaryIndex),
    /// It answered with an error; nothing was charged. The log has the error and the remedy.
    #[error("the store refuses to answer")]
    Refused,
}

impl StoreError {
    /// Names of all reasons in metrics.
    pub const NAMES: [&'static str; 10] = [
        "timed_out",
        "answer_lost",
        "expired",
        "unreachable",
        "full",
        "busy",
        "contended",
        "unreadable",
        "refused",
        "moved",
    ];

    /// Returns the place of the reason among the [names](Self::NAMES).
    #[must_use]
    pub const fn place(self) -> usize {
        match self {
            Self::TimedOut => 0,
            Self::AnswerLost => 1,
            Self::Expired(_) => 2,
            Self::Unreachable => 3,
            Self::Full => 4,
            Self::Busy => 5,
            Self::Contended => 6,
            Self::Unreadable => 7,
            Self::Refused => 8,
            Self::Moved | Self::Asked(_) => 9,
        }
    }

    /// Returns true if units that are admitted without the store must be backfilled now. After a missed deadline, the late
    /// answer decides; a counter without a valid value cannot be charged.
    #[doc(hidden)]
    #[must_use]
    pub const fn needs_backfill(self) -> bool {
        !matches!(self, Self::TimedOut | Self::Unreadable)
    }

    /// Returns true if the store may have charged the request.
    #[must_use]
    pub const fn may_have_charged(self) -> bool {
        matches!(self, Self::TimedOut | Self::AnswerLost)
    }

    /// Returns true if the store may be late and not down.
    #[must_use]
    pub const fn is_late(self) -> bool {
        matches!(self, Self::TimedOut | Self::Expired(_) | Self::Busy)
    }

    /// Returns true if the store may answer the next request: it is late, or only a connection to it was lost.
    #[must_use]
    pub const fn may_pass(self) -> bool {
        self.is_late() || matches!(self, Self::AnswerLost)
    }

    /// Returns true if another primary holds the counter.
    #[must_use]
    pub const fn is_redirection(self) -> bool {
        matches!(self, Self::Moved | Self::Asked(_))
    }

    /// Returns true if the store answers and only a counter of the request cannot be charged.
    #[must_use]
    pub const fn is_of_counter(self) -> bool {
        matches!(self, Self::Full | Self::Contended | Self::Unreadable) || self.is_redirection()
    }
}
