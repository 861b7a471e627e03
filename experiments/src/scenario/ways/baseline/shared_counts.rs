//! Counts of sub-intervals that nodes add to a store and read from it, never while a call waits.
//!
//! A sub-interval is a sub-window of a ring, of one second. A node replaces its own count of a sub-interval by that of the store, which
//! contains it.

use tollgate_core::clock::Timestamp;
use tollgate_core::window::SubWindow;

use super::counts::{RING_BYTES, Rings};
use crate::scenario::ways::network::{CounterBytes, PeerNetwork, Trial};

pub(super) const SUB_INTERVAL_MS: u64 = 1_000;

/// Counts of all nodes, and of the store, which is in the place of one more node.
pub(super) struct SharedCounts {
    pub(super) rings: Rings,
    pub(super) callers: usize,
    store: usize,
}

/// A request for the count of a sub-interval, or its answer.
#[derive(Clone, Copy)]
pub(super) enum SharedCountMessage {
    /// Caller, sub-interval and units of a node.
    Add(usize, SubWindow, u64),
    /// Node that asks, caller and sub-interval.
    Read(usize, usize, SubWindow),
    /// Caller, sub-interval and units of all nodes that have added theirs.
    Count(usize, SubWindow, u64),
    /// Caller and sub-interval to which all nodes have added.
    IsComplete(usize, SubWindow),
}

impl SharedCounts {
    pub(super) fn new(trial: &Trial) -> Self {
        let rings = Rings::new(trial.nodes + 1, trial.callers, trial.quota);
        Self { rings, callers: trial.callers, store: trial.nodes }
    }

    /// Returns the units of a node in a sub-interval.
    pub(super) fn own(&mut self, node: usize, caller: usize, at: SubWindow) -> u64 {
        self.rings.ring(node, caller).get(at)
    }

    /// Returns the sub-interval before that of an instant.
    pub(super) fn before(&mut self, now: Timestamp) -> SubWindow {
        let window = self.rings.ring(0, 0).window();
        window.sub_window(now.minus_ms(SUB_INTERVAL_MS))
    }

    /// The store adds the units of a node.
    pub(super) fn add(&mut self, caller: usize, at: SubWindow, units: u64) {
        self.rings.ring(self.store, caller).add(at, units);
    }

    /// The store answers a node.
    pub(super) fn read(
        &mut self,
        net: &mut PeerNetwork<SharedCountMessage>,
        node: usize,
        caller: usize,
        at: SubWindow,
    ) {
        let units = self.own(self.store, caller, at);
        net.reply(node, SharedCountMessage::Count(caller, at, units));
    }

    /// A node replaces its count by that of the store.
    pub(super) fn replace(&mut self, node: usize, caller: usize, at: SubWindow, units: u64) {
        let ring = self.rings.ring(node, caller);
        let others = units.saturating_sub(ring.get(at));
        ring.add(at, others);
    }

    pub(super) fn bytes() -> CounterBytes {
        CounterBytes { node: RING_BYTES, store: RING_BYTES }
    }
}
