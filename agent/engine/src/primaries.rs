//! Primaries of the store: which of them holds each slot. A store that is one server, or that hides its servers behind one
//! address, is one primary.
//!
//! An index names a primary together with its replicas, and stays when a replica takes over. A primary that has given its last slot
//! away is not asked any more. Slots move between primaries while calls are under way, so each look is a single load.

use std::sync::atomic::{AtomicBool, AtomicU8, AtomicUsize, Ordering};

use tollgate_core::counter::{CLUSTER_SLOTS, HashSlotId, PRIMARIES_MAX, PrimaryIndex};

/// Primary of each slot.
#[derive(Debug)]
pub(crate) struct PrimaryMap {
    /// None if there is one primary.
    owners: Option<Box<[AtomicU8]>>,
    /// Number of primaries that have had a slot.
    known: AtomicUsize,
    /// True for each primary that has a slot.
    have_slots: Box<[AtomicBool]>,
    /// Number of changes of the owners.
    changes: AtomicUsize,
}

impl PrimaryMap {
    /// Creates the map of a store with one primary, or with several of which none is known yet.
    pub(crate) fn new(has_slots: bool) -> Self {
        let owners = has_slots.then(|| (0..CLUSTER_SLOTS).map(|_| AtomicU8::new(0)).collect());
        let have_slots = (0..PRIMARIES_MAX).map(|index| AtomicBool::new(index == 0)).collect();
        Self { owners, known: AtomicUsize::new(1), have_slots, changes: AtomicUsize::new(0) }
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
    #[inline]
    pub(crate) fn known(&self) -> impl Iterator<Item = PrimaryIndex> + use<> {
        (0..self.known.load(Ordering::Acquire)).filter_map(PrimaryIndex::new)
    }

    /// Returns the primaries that have a slot, or the only one.
    #[inline]
    pub(crate) fn used(&self) -> impl Iterator<Item = PrimaryIndex> {
        self.known().filter(|primary| self.have_slots[primary.index()].load(Ordering::Acquire))
    }

    /// Takes the owners of all slots, in their order. Slots without an owner stay where they were.
    pub(crate) fn follow(&self, owners: &[Option<PrimaryIndex>]) {
        let Some(places) = &self.owners else { return };
        let (mut has_changed, mut slots) = (false, [0_u32; PRIMARIES_MAX]);
        for (place, owner) in places.iter().zip(owners) {
            if let Some(owner) = owner {
                self.known.fetch_max(owner.index() + 1, Ordering::AcqRel);
                let owner = u8::try_from(owner.index()).unwrap_or_default();
                has_changed |= place.swap(owner, Ordering::AcqRel) != owner;
            }
            slots[usize::from(place.load(Ordering::Acquire))] += 1;
        }
        for (has_slots, slots) in self.have_slots.iter().zip(slots) {
            has_slots.store(slots > 0, Ordering::Release);
        }
        self.changes.fetch_add(has_changed.into(), Ordering::AcqRel);
    }

    /// Returns the number of changes of the owners.
    pub(crate) fn changes(&self) -> usize {
        self.changes.load(Ordering::Acquire)
    }
}
