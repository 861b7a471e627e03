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
use tollgate_common::counter::{CounterId, RequestId, SlotId};
use tollgate_common::rule::{Generation, Terms};

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

/// One charge, asked of a store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Take {
    /// The counter.
    pub counter: CounterId,
    /// Where it lies: takes of one slot are one step.
    pub slot: SlotId,
    /// The request it is for, if that has a name: it is charged once, however often it is asked for.
    pub id: Option<RequestId>,
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
    /// Charged whether there is room or not, and whatever the other counters of the call say; the verdict is told.
    Count {
        /// In the store's time; read later it charges nothing, either.
        expires_at: Timestamp,
    },
    /// It has passed without the store; charge it where it belongs, whether there is room or not.
    Owed {
        /// When it passed, in the store's time.
        at: Timestamp,
    },
    /// It was charged at `at` and is given back, as far as it is still there.
    GiveBack {
        /// When it was charged, in the store's time.
        at: Timestamp,
    },
}

/// A store's answer to one [`Take`].
#[expect(clippy::struct_excessive_bools, reason = "each is a fact of its own")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Taken {
    /// What the counter says.
    pub verdict: Verdict,
    /// Whether it was charged.
    pub charged: bool,
    /// Whether the request had been charged before: then it passes again and costs nothing.
    pub repeated: bool,
    /// Whether a denial stands on units that nobody can give back any more.
    pub firm: bool,
    /// The store's time of the step.
    pub at: Timestamp,
    /// The quota by which it was judged, in units.
    pub limit: u64,
    /// Whether the store's clock had stepped back and the counter was moved with it.
    pub rebased: bool,
}

impl Take {
    /// A question of a counter that lies by itself.
    #[must_use]
    pub fn ask(counter: CounterId, terms: &Terms, generation: Generation, cost: u64, expires_at: Timestamp) -> Self {
        let (slot, limit) = (SlotId::of(counter), terms.limit());
        Self { counter, slot, id: None, limit, generation, cost, kind: TakeKind::Ask { expires_at } }
    }
}

impl TakeKind {
    /// Whether nobody waits for it any more.
    #[must_use]
    pub fn is_late(self, now: Timestamp) -> bool {
        matches!(self, Self::Ask { expires_at } | Self::Count { expires_at } if expires_at < now)
    }
}
