//! An agent's knowledge about one counter. Only [`update`] changes it after a decision.

mod cached_denial;
mod local_usage;
mod counter_view;
mod update;

pub(crate) use counter_view::{CounterView, RemoteCount};
pub(crate) use local_usage::{CoveredBatches, Sequence};
pub(crate) use update::{ViewEvent, update};
