//! Sizes of the bounded maps and queues of an agent, for its metrics and for tests of their caps.

use tollgate_core::counter::CounterId;

use crate::engine::Engine;
use crate::store::Outbox;

/// Size of each bounded map and queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeldEntries {
    /// Counters in the table.
    pub counters: usize,
    /// Rows that are in no closed batch yet.
    pub waiting_rows: usize,
    /// Batches that wait for the bus.
    pub waiting_batches: usize,
    /// Own batches that are in the log and in no signal yet, or lost.
    pub own_batches: usize,
    /// Counters with unsynced units.
    pub unsynced_counters: usize,
    /// Largest number of entries of unsynced units that a counter has had.
    pub unsynced_entries_most: usize,
    /// Bytes of the sketch.
    pub sketch_bytes: usize,
    /// Counters that wait to be opened again.
    pub lost_counters: usize,
}

impl Engine {
    /// Returns the number of rows that were dropped in this life.
    #[must_use]
    pub fn dropped_rows(&self) -> u64 {
        self.bus.rows().dropped()
    }

    /// Returns true while new callers are limited by a sketch, because the table is full.
    #[must_use]
    pub fn is_table_full(&self) -> bool {
        self.counters.sketches().is_used()
    }

    /// Returns true if a counter has a place in the table: the sketch decides for all others.
    #[doc(hidden)]
    #[must_use]
    pub fn has_place(&self, counter: CounterId) -> bool {
        self.counters.holds(counter)
    }

    /// Returns the size of each bounded map and queue.
    #[must_use]
    pub fn held(&self) -> HeldEntries {
        let outboxes = || self.store.used_primaries().map(|primary| self.store.outbox(primary));
        HeldEntries {
            counters: self.counters.len(),
            waiting_rows: self.bus.rows().waiting_rows(),
            waiting_batches: self.bus.rows().waiting_batches(),
            own_batches: self.bus.signals().kept(),
            unsynced_counters: outboxes().map(Outbox::unsynced_counters).sum(),
            unsynced_entries_most: self.store.entries_most(),
            sketch_bytes: self.counters.sketches().bytes(),
            lost_counters: outboxes().map(Outbox::lost_counters).sum(),
        }
    }
}
