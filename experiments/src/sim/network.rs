//! The way between the parts: draws the delays and the faults of messages from one random number generator.

use fastrand::Rng;

use super::faults::Faults;

/// The network of a simulation.
#[derive(Clone, Debug)]
pub(super) struct Network {
    pub(super) faults: Faults,
    pub(super) bus_is_up: bool,
    rng: Rng,
}

impl Network {
    pub(super) fn new(seed: u64, faults: Faults) -> Self {
        Self { faults, bus_is_up: true, rng: Rng::with_seed(seed) }
    }

    /// Returns the delay of a message between an agent and the store.
    pub(super) fn store_delay_ms(&mut self) -> u64 {
        self.rng.u64(0..=self.faults.store_ms_max)
    }

    /// Returns the delay of a record on its way to the bus.
    pub(super) fn append_delay_ms(&mut self) -> u64 {
        self.faults.bus_late_ms + self.rng.u64(0..=self.faults.bus_ms_max)
    }

    /// Returns the delay of the second copy of a record behind the first one.
    pub(super) fn copy_delay_ms(&mut self) -> u64 {
        self.rng.u64(0..=3 * self.faults.bus_ms_max)
    }

    /// Returns the delay of a reader behind the end of a log.
    pub(super) fn read_delay_ms(&mut self) -> u64 {
        self.rng.u64(0..=self.faults.bus_ms_max)
    }

    pub(super) fn ack_delay_ms(&mut self) -> u64 {
        self.rng.u64(0..=self.faults.ack_ms_max)
    }

    /// Returns true if a fault of this rate strikes now.
    pub(super) fn strikes(&mut self, percent: u8) -> bool {
        self.rng.u8(0..100) < percent
    }
}
