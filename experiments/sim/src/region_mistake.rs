//! Mistakes that a test plants into the shell of simulated regions. Each makes an engine behave as if it had the mistake.

/// Mistake in the handling of budgets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RegionMistake {
    /// A give-back is appended before the last window was looked at.
    GiveBackUnseen,
    /// The store lets a limit rise whatever give-back it was lowered for.
    FenceIgnored,
    /// A region reads each grant twice.
    GrantTwice,
    /// An expiry ends a grant whatever renewal came before.
    RenewalOverlooked,
    /// A coordinator waits from the instant at which the term began before the last renewal.
    WaitFromWrongInstant,
    /// The store forgets a lowered limit at the end of its term.
    LimitDies,
    /// A region reads terms with a floor of its own.
    OtherTerms,
    /// A mirror exchanges neighbouring entries.
    MirrorOutOfOrder,
    /// A holder's own clock stands still while it is suspended.
    ClockStops,
    /// The ledger grants units that are not free: its readers take the quota for twice as large.
    GrantNotFree,
    /// A region whose request was lost never asks again.
    NeverAsksAgain,
    /// The coordinator answers a request a quarter of a term late.
    GrantLate,
    /// A region writes its limits a quarter of a term late.
    LimitLate,
}

impl RegionMistake {
    /// Mistakes that break a bound.
    pub const UNSAFE: [Self; 10] = [
        Self::GiveBackUnseen,
        Self::FenceIgnored,
        Self::GrantTwice,
        Self::RenewalOverlooked,
        Self::WaitFromWrongInstant,
        Self::LimitDies,
        Self::OtherTerms,
        Self::MirrorOutOfOrder,
        Self::ClockStops,
        Self::GrantNotFree,
    ];

    /// Mistakes that break no bound, and leave units unused.
    pub const IDLE: [Self; 3] = [Self::NeverAsksAgain, Self::GrantLate, Self::LimitLate];
}
