//! Counters: the view of each one, the table that holds the views, the sketch beside it, and the verdicts that follow from a view.

mod view;
mod enforce;
mod sketch;
mod table;
mod charged_counter;

pub(crate) use charged_counter::ChargedCounter;
pub(crate) use enforce::{
    Authority, ChargeFacts, Combined, Enforcement, Facts, FreshSignals, OPEN_WITHIN_DEADLINES, Plan, RuleVerdict,
    StoreAccess, cached_denial, combine, plan, plan_late, plan_recovering,
};
pub use sketch::SKETCH_BYTES_RANGE;
pub(crate) use sketch::{SketchCharge, Sketches, kinds};
pub use table::{AgentTable, COUNTERS_MAX_RANGE};
pub(crate) use table::{LockedTable, TableEntry};
pub use view::UNSYNCED_ENTRIES_OF_COUNTER_MAX;
pub(crate) use view::{
    Acknowledgement, CHECKED_MS, CachedDenial, CounterView, CoveredRounds, Flow, LeaseFacts, LeaseGrant, LeaseNumber,
    LeasedCall, LostUnits, Pending, PendingKind, RoundNumber, TakenUnits, UNPUBLISHED, Unsynced, ViewEvent,
    carry_pending, end_denial, end_pending, forget, hold, next_denial, reopening, send_pending, spend_lease,
    take_leased, update, update_in_step,
};
