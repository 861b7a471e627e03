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

use tollgate_common::algorithm::{Limit, Verdict};
use tollgate_common::clock::Timestamp;
use tollgate_common::counter::CounterId;
use tollgate_common::rule::{Generation, Rule};

pub use denial::CachedDenial;
pub use learn::{News, learn};
pub use own::{Covered, Owed, Own, Sequence};
pub use plan::{Plan, plan};
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

/// One charge, asked of a store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Take {
    /// The counter.
    pub counter: CounterId,
    /// What it is judged by.
    pub limit: Limit,
    /// The generation of that; a store that knows a newer one judges by the newer.
    pub generation: Generation,
    /// Units.
    pub cost: u64,
    /// Whether it is a question.
    pub kind: TakeKind,
}

/// Question or statement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TakeKind {
    /// May it pass? A store that reads this later than `expires_at` charges nothing: nobody waits for the answer any more.
    Ask {
        /// In the store's time.
        expires_at: Timestamp,
    },
    /// It has passed without the store; charge it where it belongs, whether there is room or not.
    Owed {
        /// When it passed, in the store's time.
        at: Timestamp,
    },
}

/// A store's answer to one [`Take`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Taken {
    /// What the counter says.
    pub verdict: Verdict,
    /// Whether it was charged: all counters of the call had room.
    pub charged: bool,
    /// The store's time of the step.
    pub at: Timestamp,
    /// The quota by which it was judged, in units.
    pub limit: u64,
    /// Whether the store's clock had stepped back and the counter was moved with it.
    pub rebased: bool,
}

impl Take {
    /// A question of a rule's counter.
    #[must_use]
    pub fn ask(counter: CounterId, rule: &Rule, generation: Generation, cost: u64, expires_at: Timestamp) -> Self {
        Self { counter, limit: rule.limit(), generation, cost, kind: TakeKind::Ask { expires_at } }
    }
}
