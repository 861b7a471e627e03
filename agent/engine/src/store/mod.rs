//! Store: the charges whose fate is open, and the state of the store that decides when they are sent.

mod breaker;
mod fate;
mod gather;
mod unsynced_queue;
mod corrections;
mod reset_announcements;
mod losses;

pub(crate) use breaker::Breaker;
pub(crate) use corrections::Corrections;
pub(crate) use fate::{ChargeKind, ChargeTraits, Fate, InStore, Standing, fate};
pub use gather::{CallerAnswer, GATHER_MAX, GatheredStep, Gatherer, PipelineNumber, PipelineSteps};
pub(crate) use losses::{Losses, LostCounter, NOTICE_INTERVAL_MS, WitnessedLoss};
pub(crate) use reset_announcements::ResetAnnouncements;
pub use unsynced_queue::UNSYNCED_COUNTERS_MAX;
pub(crate) use unsynced_queue::{UnsyncedCounter, UnsyncedQueue, UnsyncedTurn};
