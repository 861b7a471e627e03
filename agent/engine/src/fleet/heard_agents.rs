//! Agents that were heard on the bus and are no members yet.

use std::sync::Arc;

use parking_lot::Mutex;
use tollgate_core::clock::Timestamp;
use tollgate_core::messages::presence::INTERVAL_MS;
use tollgate_core::newcomers::{Heard, Newcomers};

/// Time between an agent's first heartbeat and the first one that counts, in ms. It is shorter than one interval, and
/// longer than a repetition of the same record takes.
const HEARD_MS_MIN: u64 = INTERVAL_MS / 2;

/// Agents that are no members yet, by name.
pub(super) struct HeardAgents(Mutex<Newcomers<Arc<str>>>);

impl HeardAgents {
    pub(super) fn new(len_max: usize) -> Self {
        Self(Mutex::new(Newcomers::new(HEARD_MS_MIN, len_max)))
    }

    pub(super) fn hear(&self, appended: Timestamp, id: &Arc<str>) -> Heard {
        self.0.lock().hear(appended, id)
    }
}
