//! Reasons for which a store did not answer. Each tells whether the request may have charged.

/// Why a store did not answer. None of these is ever a denial.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
pub enum StoreError {
    /// It did not answer before the deadline; whether it charged is not known.
    #[error("the store did not answer in time")]
    TimedOut,
    /// It read the question after its time and charged nothing.
    #[error("the store read the question too late")]
    Expired,
    /// It cannot be reached; nothing was charged.
    #[error("the store cannot be reached")]
    Unreachable,
    /// It holds as many counters as it may; nothing was charged.
    #[error("the store is full")]
    Full,
    /// So many questions wait for it that this one was not sent.
    #[error("too many questions wait for the store")]
    Busy,
    /// Something else lies where this counter should; nothing was charged, and other counters are as well as ever.
    #[error("something else lies where a counter should")]
    Unreadable,
    /// It is there and answered with an error; nothing was charged. The log says which, and what to do.
    #[error("the store refuses to answer")]
    Refused,
}

impl StoreError {
    /// All reasons.
    pub const ALL: [Self; 7] =
        [Self::TimedOut, Self::Expired, Self::Unreachable, Self::Full, Self::Busy, Self::Unreadable, Self::Refused];

    /// Whether a call that passes all the same is owed to the store: not when the store may have charged it, for told twice
    /// it would count twice, nor when it has no place for it.
    #[must_use]
    pub const fn leaves_debt(self) -> bool {
        !matches!(self, Self::TimedOut | Self::Unreadable)
    }

    /// Its name in metrics.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::TimedOut => "timed_out",
            Self::Expired => "expired",
            Self::Unreachable => "unreachable",
            Self::Full => "full",
            Self::Unreadable => "unreadable",
            Self::Busy => "busy",
            Self::Refused => "refused",
        }
    }
}
