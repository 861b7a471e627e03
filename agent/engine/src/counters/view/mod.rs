//! An agent's knowledge about one counter. Answers, signals and admissions enter a view by [`update`](mod@update) only.

mod acknowledgement;
mod cached_denial;
mod uncovered;
mod flow;
mod signal_parts;
mod store_count;
mod demand;
mod local_usage;
mod ageing;
mod pending;
mod lease_grant;
mod lease;
mod lease_size;
mod lease_or_pace;
mod counter_view;
mod lost_units;
mod event;
mod update;

pub(crate) use acknowledgement::Acknowledgement;
pub(crate) use cached_denial::{CHECKED_MS, CachedDenial, hold, next_denial};
pub(crate) use counter_view::{CounterView, RemoteCount};

pub(crate) use event::ViewEvent;
pub(crate) use flow::Flow;
pub(crate) use lease::{LeasedCall, TakenUnits};
pub(crate) use lease_grant::{LeaseFacts, LeaseGrant, LeaseNumber};
pub(crate) use lost_units::{LostUnits, reopening};
pub use pending::UNSYNCED_ENTRIES_OF_COUNTER_MAX;
pub(crate) use pending::{Pending, PendingKind, Unsynced};
pub(crate) use uncovered::{CoveredRounds, RoundNumber, UNPUBLISHED};
pub(crate) use update::{
    carry_pending, end_denial, end_pending, forget, move_to_primary, rebase, send_pending, spend_lease, take_leased,
    update, update_in_step,
};
