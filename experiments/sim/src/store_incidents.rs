//! Incidents of the store of a simulation: its states, its clock, its losses, and slots that move between its primaries.

use tollgate_core::counter::PrimaryIndex;

use super::faults::{StoreLoss, StoreState};
use super::observation::Observation;
use super::simulation::Simulation;

impl Simulation<'_> {
    /// Moves the store to another state.
    pub fn set_store(&mut self, state: StoreState) {
        self.env.set_store(state);
    }

    /// Lets the store's clock step.
    pub fn step_store_clock(&mut self, by_ms: i64) {
        self.env.store().step_clock(by_ms);
        let store_time = self.store().time(self.env.now());
        self.env.observe(Observation::StoreClockStepped { by_ms, store_time });
    }

    /// Lets the clock of the bus step.
    pub fn step_bus_clock(&mut self, by_ms: i64) {
        self.env.bus.step_clock(by_ms);
    }

    /// Brings the store's replica up to date.
    pub fn replicate(&mut self) {
        let primaries = 0..=self.env.further();
        for primary in primaries.filter_map(PrimaryIndex::new) {
            self.env.primaries.store_mut(primary).replicate();
        }
        self.env.observe(Observation::StoreReplicated);
    }

    /// Lets the store lose data.
    pub fn lose(&mut self, loss: StoreLoss) {
        self.env.store().lose(loss);
        self.env.observe(Observation::StoreLost(loss));
    }

    /// Moves a slot with its counters to a primary. Agents learn of it when they ask the former one.
    pub fn move_slot(&mut self, slot: u16, to: PrimaryIndex) {
        self.env.primaries.move_slot(slot, to);
    }

    /// Tells all agents the owners of the slots, as they ask for them from time to time.
    pub fn tell_slots(&self) {
        for engine in self.agents().iter().filter_map(|agent| agent.engine()) {
            engine.follow_slots(self.primaries().owners());
        }
    }

    /// Moves a primary to another state.
    pub fn set_primary(&mut self, primary: PrimaryIndex, state: StoreState) {
        self.env.set_primary(primary, state);
    }

    /// Lets a primary fail over: what its replica lacks is lost.
    pub fn fail_over(&mut self, primary: PrimaryIndex) {
        self.env.primaries.store_mut(primary).lose(StoreLoss::SinceReplicated);
        self.env.observe(Observation::StoreLost(StoreLoss::SinceReplicated));
    }
}
