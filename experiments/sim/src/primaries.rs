//! The primaries of a simulated store: each is a store of its own, with its clock, its state and its replica, and holds the counters
//! of some slots, which may move.

use tollgate_core::counter::{CLUSTER_SLOTS, CounterId, HashSlotId, PrimaryIndex};

use super::settings::SimSettings;
use super::store::SimStore;

/// Primaries of a store.
pub struct SimPrimaries {
    stores: Vec<SimStore>,
    /// Owner of each slot.
    owners: Vec<Option<PrimaryIndex>>,
}

impl SimPrimaries {
    pub(super) fn new(settings: &SimSettings) -> Self {
        let offsets = [settings.store_offset_ms].into_iter().chain(settings.further_primaries.iter().copied());
        let of_offset = |store_offset_ms| SimStore::new(&SimSettings { store_offset_ms, ..settings.clone() });
        let stores: Vec<SimStore> = offsets.map(of_offset).collect();
        let owner = |slot: u16| PrimaryIndex::new(usize::from(slot) * stores.len() / usize::from(CLUSTER_SLOTS));
        let owners = (0..CLUSTER_SLOTS).map(owner).collect();
        Self { stores, owners }
    }

    pub(super) fn len(&self) -> usize {
        self.stores.len()
    }

    /// Returns true if there are several.
    #[must_use]
    pub fn are_several(&self) -> bool {
        self.stores.len() > 1
    }

    /// Returns the owners of all slots, in their order.
    #[must_use]
    pub fn owners(&self) -> &[Option<PrimaryIndex>] {
        &self.owners
    }

    /// Returns the primary that holds a counter with a slot of its own.
    #[must_use]
    pub fn owner(&self, counter: CounterId) -> PrimaryIndex {
        let slot = HashSlotId::of(counter).cluster_slot();
        self.owners[usize::from(slot)].filter(|_| self.are_several()).unwrap_or_default()
    }

    /// Returns a primary.
    #[must_use]
    pub fn store(&self, primary: PrimaryIndex) -> &SimStore {
        &self.stores[primary.index()]
    }

    pub(super) fn store_mut(&mut self, primary: PrimaryIndex) -> &mut SimStore {
        &mut self.stores[primary.index()]
    }

    /// Moves a slot with its counters to a primary.
    pub(super) fn move_slot(&mut self, slot: u16, to: PrimaryIndex) {
        let Some(from) = self.owners[usize::from(slot)].filter(|from| *from != to) else { return };
        self.owners[usize::from(slot)] = Some(to);
        let (mut given, mut taken) = (self.store(from).copies(), self.store(to).copies());
        given.hand_over(&mut taken, |counter| HashSlotId::of(counter).cluster_slot() == slot);
        self.store_mut(from).replace(given);
        self.store_mut(to).replace(taken);
    }
}
