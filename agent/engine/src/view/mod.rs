//! An agent's knowledge about one counter. Only [`update`](mod@update) changes a view after planning.

mod cached_denial;
mod uncovered;
mod local_usage;
mod counter_view;
mod update;

pub(crate) use counter_view::{CounterView, RemoteCount};
pub(crate) use local_usage::Unsynced;
pub(crate) use uncovered::{CoveredBatches, Sequence};
pub(crate) use update::{ViewEvent, clock_stepped_back, update, update_in_step};
