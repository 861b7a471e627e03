//! Store: the charges whose fate is open, and the state of the store that decides when they are sent.

mod breaker;
mod fate_facts;
#[cfg(feature = "planted-mistakes")]
mod fate_mistake;
mod fate;
mod gather;
mod corrections;
mod unnamed_settlements;
mod reset_announcements;
mod resets;
mod losses;
mod charge_answer;
mod outbox;
mod link;

pub(crate) use charge_answer::{ChargeAnswer, ChargeAnswers, answers_of};
pub(crate) use fate::fate;
pub(crate) use fate_facts::{ChargeKind, ChargeStanding, ChargeTraits, Fate, InStore};
#[cfg(feature = "planted-mistakes")]
pub use fate_mistake::{FateMistake, plant_fate_mistake};
pub use gather::{CallerAnswer, GATHER_MAX, GatheredStep, Gatherer, PipelineNumber, PipelineSteps};
pub use link::BACKFILL_CHARGES_MAX;
pub(crate) use link::StoreLink;
pub(crate) use losses::WitnessedLoss;
pub use outbox::UNSYNCED_COUNTERS_MAX;
pub(crate) use outbox::{LostCounter, Outbox, UnsyncedCounter};
