//! Events in virtual time. Of two at the same instant, the one that was scheduled first comes first.

use std::collections::BTreeMap;

/// Events by their instants, in ms.
#[derive(Debug)]
pub(super) struct EventQueue<E> {
    events: BTreeMap<(u64, u64), E>,
    scheduled: u64,
}

impl<E> EventQueue<E> {
    pub(super) fn new() -> Self {
        Self { events: BTreeMap::new(), scheduled: 0 }
    }

    pub(super) fn push(&mut self, at_ms: u64, event: E) {
        self.scheduled += 1;
        self.events.insert((at_ms, self.scheduled), event);
    }

    pub(super) fn pop(&mut self) -> Option<(u64, E)> {
        self.events.pop_first().map(|((at_ms, _), event)| (at_ms, event))
    }
}
