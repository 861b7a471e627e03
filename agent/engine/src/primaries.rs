//! Primaries of the store: which of them holds each slot. A store that is one server, or that hides its servers behind one
//! address, is one primary.
//!
//! An index names a primary together with its replicas, and stays when a replica takes over. Slots move between primaries
//! while calls are under way, so each look is a single load.

use std::sync::atomic::{AtomicU8, AtomicUsize, Ordering};

use tollgate_core::counter::{CLUSTER_SLOTS, HashSlotId, PrimaryIndex};

/// Primary of each slot.
#[derive(Debug)]
pub(crate) struct PrimaryMap {
    /// None if there is one primary.
    owners: Option<Box<[AtomicU8]>>,
    /// Number of primaries that have had a slot.
    used: AtomicUsize,
    /// Number of changes of the owners.
    changes: AtomicUsize,
}

impl PrimaryMap {
    /// Creates the map of a store with one primary, or with several of which none is known yet.
    pub(crate) fn new(has_slots: bool) -> Self {
        let owners = has_slots.then(|| (0..CLUSTER_SLOTS).map(|_| AtomicU8::new(0)).collect());
        Self { owners, used: AtomicUsize::new(1), changes: AtomicUsize::new(0) }
    }

    #[inline]
    pub(crate) fn owner(&self, slot: HashSlotId) -> PrimaryIndex {
        self.owners.as_ref().map_or(PrimaryIndex::ONLY, |owners| {
            let index = owners[usize::from(slot.cluster_slot())].load(Ordering::Acquire);
            PrimaryIndex::new(index.into()).unwrap_or_default()
        })
    }

    /// Returns true if counters may lie on different primaries.
    #[inline]
    pub(crate) fn are_several(&self) -> bool {
        self.owners.is_some()
    }

    /// Returns the primaries that have had a slot, or the only one.
    pub(crate) fn used(&self) -> impl Iterator<Item = PrimaryIndex> + use<> {
        (0..self.used.load(Ordering::Acquire)).filter_map(PrimaryIndex::new)
    }

    /// Takes the owners of all slots, in their order. Slots without an owner stay where they were.
    pub(crate) fn follow(&self, owners: &[Option<PrimaryIndex>]) {
        let Some(places) = &self.owners else { return };
        let mut has_changed = false;
        for (place, owner) in places.iter().zip(owners) {
            if let Some(owner) = owner {
                self.used.fetch_max(owner.index() + 1, Ordering::AcqRel);
                let owner = u8::try_from(owner.index()).unwrap_or_default();
                has_changed |= place.swap(owner, Ordering::AcqRel) != owner;
            }
        }
        self.changes.fetch_add(has_changed.into(), Ordering::AcqRel);
    }

    /// Returns the number of changes of the owners.
    pub(crate) fn changes(&self) -> usize {
        self.changes.load(Ordering::Acquire)
    }
}
