//! Facts by which a matched rule is decided: the time, the authority, and this agent's part of each quota.

use tollgate_core::clock::Timestamp;

use crate::counters::view::CoveredRounds;
use crate::fleet::FleetPart;
use crate::time::TimeBounds;

#[derive(Clone, Debug)]
pub(crate) struct Facts {
    pub(crate) now: TimeBounds,
    /// Instant at which an admission counts: the latest that the store's time may be, unless the store may have charged the
    /// call before.
    pub(crate) at: Timestamp,
    pub(crate) own_now: Timestamp,
    pub(crate) authority: Authority,
    /// This agent's part of each quota.
    pub(crate) part: FleetPart,
    /// Number of agents on which a unit of the counter is placed before this one. It is set only where a strict rule
    /// has fewer units than there are agents. An agent that does not know all members gets no unit.
    pub(crate) rank: Option<u32>,
}

#[derive(Clone, Debug)]
pub(crate) enum Authority {
    Store,
    /// The fresh signals of the counter's partition, because the store does not answer.
    Signals(FreshSignals),
    /// The rule's `on_failure` alone, because the signals are not fresh; with the own rounds that the last one contains.
    Fallback(CoveredRounds),
}

impl Authority {
    /// Returns the rule's `on_failure` alone: the signals prove no room.
    pub(crate) fn alone(self) -> Self {
        if let Self::Signals(fresh) = self { Self::Fallback(fresh.covered) } else { self }
    }
}

#[derive(Clone, Debug)]
pub(crate) struct FreshSignals {
    /// Part of its quota, in thousandths, that a counter without a signal has not reached.
    pub(crate) threshold_permille: u32,
    /// The agent's own rounds that the signals contain.
    pub(crate) covered: CoveredRounds,
}
