//! Counts of baselines: a ring of 60 sub-windows per node and caller, and a count that begins anew with each window.
//!
//! A ring counts its oldest sub-window whole, so that it never counts too little. What it denies too much is a sixtieth of the quota.

use tollgate_core::clock::Timestamp;
use tollgate_core::rules::Quota;
use tollgate_core::window::{Estimate, Ring, Window};

const PARTS: u32 = 60;
/// Bytes of a ring: its counts and the number of its newest sub-window.
pub(super) const RING_BYTES: u64 = 8 * (PARTS as u64 + 2);
/// Bytes of a count of a fixed window: the count and the beginning of its window.
pub(super) const FIXED_BYTES: u64 = 16;

/// Rings of all callers at all nodes.
pub(super) struct Rings {
    quota: Quota,
    callers: usize,
    all: Vec<Ring>,
}

/// Count of a window that begins at a whole multiple of its width.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct FixedCount {
    window: u64,
    units: u64,
}

impl Rings {
    pub(super) fn new(nodes: usize, callers: usize, quota: Quota) -> Self {
        let window = Window::new(quota.width_ms(), PARTS).expect("60 parts divide a minute");
        Self { quota, callers, all: vec![Ring::new(window); nodes * callers] }
    }

    pub(super) fn ring(&mut self, node: usize, caller: usize) -> &mut Ring {
        &mut self.all[node * self.callers + caller]
    }

    pub(super) fn add(&mut self, node: usize, caller: usize, now: Timestamp, units: u64) {
        self.ring(node, caller).add_at(now, units);
    }

    /// Counts a call if a node has counted fewer than `limit` units in the last window.
    pub(super) fn admit_up_to(&mut self, limit: u64, node: usize, caller: usize, now: Timestamp) -> bool {
        let ring = self.ring(node, caller);
        let is_admitted = ring.used(now, Estimate::Conservative) < limit;
        if is_admitted {
            ring.add_at(now, 1);
        }
        is_admitted
    }

    /// Counts a call if a node has counted fewer units than the quota in the last window.
    pub(super) fn admit(&mut self, node: usize, caller: usize, now: Timestamp) -> bool {
        self.admit_up_to(self.quota.units(), node, caller, now)
    }
}

impl FixedCount {
    /// Returns the units of the current window, which are 0 at its beginning.
    pub(super) fn units(&mut self, now: Timestamp, quota: Quota) -> &mut u64 {
        let window = now.as_ms() / quota.width_ms();
        if window != self.window {
            *self = Self { window, units: 0 };
        }
        &mut self.units
    }

    /// Takes the larger of two counts of the current window.
    pub(super) fn merge(&mut self, other: Self, now: Timestamp, quota: Quota) {
        let units = self.units(now, quota);
        if other.window == now.as_ms() / quota.width_ms() {
            *units = (*units).max(other.units);
        }
    }
}
