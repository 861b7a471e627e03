//! The simulation beside a measurement: the same calls at simulated agents, with stated delays of the network.

use tollgate_core::clock::Timestamp;
use tollgate_sim::{Faults, SimSettings};

/// Number of seeds of a prediction. The predicted ranges are those over these seeds.
pub(super) const SEEDS: u64 = ALL_SEEDS.len() as u64;
pub(super) const ALL_SEEDS: [u64; 5] = [0, 1, 2, 3, 4];
/// Maximum delay between an agent and Redis, one way, and between any node and Kafka, in ms.
pub(super) const STORE_MS_MAX: u64 = 1;
pub(super) const BUS_MS_MAX: u64 = 5;
/// Time after which all agents know each other and have read signals, in ms.
const READY_MS: u64 = 5_000;

/// Returns the settings of agents that are ready at this instant.
pub(super) fn fleet(ready: Timestamp, agents: usize, seed: u64) -> SimSettings {
    let faults =
        Faults { store_ms_max: STORE_MS_MAX, bus_ms_max: BUS_MS_MAX, ack_ms_max: BUS_MS_MAX, ..Faults::default() };
    SimSettings { seed, faults, ..SimSettings::fleet(ready.minus_ms(READY_MS), agents) }
}
