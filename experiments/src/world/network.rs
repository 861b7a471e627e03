//! What lies between the parts: delays, loss, duplicates. All from one seed.

use fastrand::Rng;

/// How badly the network behaves.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Faults {
    /// The longest way between agent and store, in ms.
    pub store_ms_max: u64,
    /// The longest way to, from and over the bus, in ms.
    pub bus_ms_max: u64,
    /// How late the bus takes batches in, beyond that, in ms.
    pub bus_late_ms: u64,
    /// How many of a hundred batches are lost.
    pub lost_percent: u8,
    /// How many of a hundred batches arrive twice.
    pub twice_percent: u8,
}

/// What lies between the parts.
#[derive(Clone, Debug)]
pub struct Network {
    faults: Faults,
    rng: Rng,
    bus_is_up: bool,
}

/// What becomes of a record on its way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Delay {
    /// It arrives after so many ms.
    After(u64),
    /// It arrives twice.
    Twice(u64, u64),
    /// It never arrives.
    Lost,
}

impl Network {
    /// No distance at all.
    #[must_use]
    pub fn instant() -> Self {
        Self::new(0, Faults::default())
    }

    /// A network that behaves so badly, by this seed.
    #[must_use]
    pub fn new(seed: u64, faults: Faults) -> Self {
        Self { faults, rng: Rng::with_seed(seed), bus_is_up: true }
    }

    pub(super) fn is_instant(&self) -> bool {
        self.faults.store_ms_max == 0
    }

    pub(super) fn set_bus_up(&mut self, up: bool) {
        self.bus_is_up = up;
    }

    pub(super) fn way_to_store(&mut self) -> u64 {
        self.rng.u64(0..=self.faults.store_ms_max)
    }

    pub(super) fn way_from_store(&mut self) -> u64 {
        self.rng.u64(0..=self.faults.store_ms_max)
    }

    pub(super) fn way_to_aggregator(&mut self) -> u64 {
        self.rng.u64(0..=self.faults.bus_ms_max)
    }

    /// The way of a batch to the bus.
    pub(super) fn way_to_bus(&mut self) -> Delay {
        let ms = self.faults.bus_late_ms + self.rng.u64(0..=self.faults.bus_ms_max);
        let luck = self.rng.u8(0..100);
        if !self.bus_is_up || luck < self.faults.lost_percent {
            Delay::Lost
        } else if luck < self.faults.lost_percent + self.faults.twice_percent {
            Delay::Twice(ms, ms + self.rng.u64(0..=3 * self.faults.bus_ms_max))
        } else {
            Delay::After(ms)
        }
    }

    /// The way of a signal or a heartbeat to an agent.
    pub(super) fn way_to_agent(&mut self) -> Delay {
        let ms = self.rng.u64(0..=self.faults.bus_ms_max);
        if self.bus_is_up { Delay::After(ms) } else { Delay::Lost }
    }
}
