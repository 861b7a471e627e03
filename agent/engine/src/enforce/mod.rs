//! Decisions of one counter as pure functions: [`plan`] decides a matched rule from the counter's view or asks the store, and
//! [`combine`] combines the verdicts of the rules of one call.

mod breaker;
mod fallback;
mod plan;
mod combine;

use std::num::NonZeroU32;

use crate::time_bounds::TimeBounds;
use crate::view::CoveredBatches;

pub(crate) use breaker::Breaker;
pub(crate) use combine::{Combined, RuleVerdict, combine};
pub(crate) use plan::{Enforcement, Plan, plan};

/// What an agent stands on when it plans.
#[derive(Clone, Debug)]
pub(crate) struct Facts {
    /// The store's time, as well as the agent knows it.
    pub(crate) now: TimeBounds,
    /// Who can tell.
    pub(crate) authority: Authority,
    /// How many agents are active, this one included.
    pub(crate) fleet: NonZeroU32,
}

/// Who can tell how full a counter is.
#[derive(Clone, Debug)]
pub(crate) enum Authority {
    /// The store answers.
    Store,
    /// The store does not; the signals of the counter's partition are fresh.
    Signals(FreshSignals),
    /// Nobody: the rule's `on_failure` decides.
    Fallback,
}

/// What fresh signals say of a whole partition.
#[derive(Clone, Debug)]
pub(crate) struct FreshSignals {
    /// A counter that is not signalled holds less than this part of its quota, in thousandths.
    pub(crate) threshold_permille: u32,
    /// Which of the agent's own batches the signals already count.
    pub(crate) covered: CoveredBatches,
}
