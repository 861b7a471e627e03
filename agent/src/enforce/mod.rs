//! All that an agent knows of limiting, as pure functions.
//!
//! [`plan`] says what to do with a charge, [`learn`] what an answer or a signal changes in what the agent has [`Seen`] of a
//! counter, [`settle`] what the rules of one call mean together. The agent and the simulated world are thin drivers of
//! these; neither holds an `if` about limits.

mod time;
mod denial;
mod own;
mod seen;
mod fallback;
mod plan;
mod learn;
mod settle;

use std::num::NonZeroU32;

pub use denial::CachedDenial;
pub use learn::{News, learn};
pub use own::{Covered, Owed, Own, Sequence};
pub use plan::{Manner, Plan, plan};
pub use seen::Seen;
pub use settle::{Judged, Settled, settle};
pub use time::{Span, StoreTime};

/// What an agent stands on when it plans.
#[derive(Clone, Debug)]
pub struct Facts {
    /// The store's time, as well as the agent knows it.
    pub now: Span,
    /// Who can tell.
    pub footing: Footing,
    /// How many agents are active, this one included.
    pub fleet: NonZeroU32,
}

/// Who can tell how full a counter is.
#[derive(Clone, Debug)]
pub enum Footing {
    /// The store answers.
    Store,
    /// The store does not; the signals of the counter's partition are fresh.
    Signal(Heard),
    /// Nobody: the rule's `on_failure` decides.
    Alone,
}

/// What fresh signals say of a whole partition.
#[derive(Clone, Debug)]
pub struct Heard {
    /// A counter that is not signalled holds less than this part of its quota, in thousandths.
    pub threshold_permille: u32,
    /// Which of the agent's own batches the signals already count.
    pub covered: Covered,
}
