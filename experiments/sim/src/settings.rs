//! The settings of a simulation: its nodes, their clocks and caps, and the faults that strike at random.

use tollgate_core::clock::Timestamp;
use tollgate_engine::SKETCH_BYTES_DEFAULT;

use super::faults::Faults;

/// The parts of a simulation.
#[derive(Clone, Debug)]
pub struct SimSettings {
    /// Begin of time.
    pub start: Timestamp,
    /// Seed of delays and random faults.
    pub seed: u64,
    /// The name of the region.
    pub region: &'static str,
    /// Part of its aggregators in the budgets of regions; none in a world of one region.
    pub budgets: Option<BudgetSettings>,
    /// The agents.
    pub agents: Vec<SimAgentSettings>,
    /// Number of the last agents that are down until they are started.
    pub agents_down: usize,
    /// Number of aggregators.
    pub aggregators: usize,
    /// True if there is a bus.
    pub has_bus: bool,
    /// True if there is a store, as far as agents do not keep their own tables.
    pub has_store: bool,
    /// Difference of the store's clock from true time at the begin, in ms.
    pub store_offset_ms: i64,
    /// Differences from true time of the clocks of further primaries of the store, in ms; none of a store of one server.
    pub further_primaries: Vec<i64>,
    /// Rate at which the store's clock gains on true time, in millionths.
    pub store_drift_ppm: i64,
    /// Number of partitions of the bus.
    pub partitions: u32,
    /// Maximum number of counters of an agent, of the store, and of a partition.
    pub counters_max: usize,
    /// Maximum memory of the sketches of an agent, in bytes.
    pub sketch_bytes: usize,
    /// Delays and random faults.
    pub faults: Faults,
    /// Part of its quota from which on a counter is signalled, in thousandths.
    pub threshold_permille: u32,
    /// Interval at which the agents' readers poll the bus, in ms.
    pub read_ms: u64,
    /// True if shells work as soon as those of production: an aggregator reads records when they come, and an agent collects all its
    /// rows at once. Otherwise they are later, so that more happens in between.
    pub is_prompt: bool,
}

/// The part of a region's aggregators in the budgets of regions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BudgetSettings {
    /// True in the home region of the ledger, whose aggregators coordinate.
    pub is_home: bool,
    /// True in the second region, in which mistakes of one region are planted.
    pub is_second: bool,
    /// Maximum drift of the clocks by which they measure terms, in millionths.
    pub drift_ppm_max: i64,
    /// Interval at which they compare budgets with the demand, in ms.
    pub tick_ms: u64,
}

impl BudgetSettings {
    /// Interval at which aggregators compare budgets with the demand, in ms.
    pub const TICK_MS: u64 = 200;
}

/// One agent of a simulation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SimAgentSettings {
    /// Difference of its clock from true time, in ms.
    pub clock_offset_ms: i64,
    /// Rate at which this difference grows from the begin of time, in millionths.
    pub clock_drift_ppm: i64,
    /// True if it keeps the counts in its own table instead of the shared store.
    pub owns_table: bool,
}

impl SimSettings {
    /// Returns the settings of agents that share a store and a bus, beside one aggregator; nothing is delayed and
    /// nothing fails.
    #[must_use]
    pub fn fleet(start: Timestamp, agents: usize) -> Self {
        Self {
            agents: vec![SimAgentSettings::default(); agents],
            aggregators: 1,
            has_bus: true,
            counters_max: 10_000,
            ..Self::instant(start)
        }
    }

    /// Returns the settings of one agent that keeps its own table and has no bus; nothing is delayed and nothing fails.
    #[must_use]
    pub fn instant(start: Timestamp) -> Self {
        Self {
            start,
            seed: 0,
            region: "default",
            budgets: None,
            agents: vec![SimAgentSettings { owns_table: true, ..SimAgentSettings::default() }],
            agents_down: 0,
            aggregators: 0,
            has_bus: false,
            has_store: true,
            store_offset_ms: 0,
            further_primaries: Vec::new(),
            store_drift_ppm: 0,
            partitions: 1,
            counters_max: 4_000_000,
            sketch_bytes: SKETCH_BYTES_DEFAULT,
            faults: Faults::default(),
            threshold_permille: 500,
            read_ms: 5,
            is_prompt: false,
        }
    }
}
