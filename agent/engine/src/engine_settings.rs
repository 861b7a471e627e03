//! Settings of an engine: the identity of its agent, its caps, and the servers that it has.

use std::num::NonZeroU32;
use std::sync::Arc;

use tollgate_core::clock::Timestamp;
use tollgate_core::counter::DigestKey;
use tollgate_core::rules::RuleSet;

/// Default memory of all sketches of an agent, in bytes.
pub const SKETCH_BYTES_DEFAULT: usize = 64 << 20;
/// Default cap on the counters of one agent.
pub const COUNTERS_MAX_DEFAULT: usize = 1_000_000;

/// Identity of an agent, and its caps.
#[derive(Clone, Debug)]
#[expect(clippy::struct_excessive_bools, reason = "independent facts of a deployment")]
pub struct EngineSettings {
    /// Name of the agent, unique in the fleet.
    pub node: Arc<str>,
    /// Region of the agent.
    pub region: Arc<str>,
    /// Start of this life of the agent.
    pub epoch: Timestamp,
    /// Key of all digests.
    pub digest_key: DigestKey,
    /// Cap on counters. Past the cap, a sketch limits unknown callers.
    pub counters_max: usize,
    /// Memory of the sketch, in bytes.
    pub sketch_bytes: usize,
    /// Number of partitions of the bus.
    pub partitions: u32,
    /// True if calls are published; without a bus nobody reads them.
    pub publishes: bool,
    /// Number of agents to assume while neither heartbeats nor saved members tell another one.
    pub agents_expected: Option<NonZeroU32>,
    /// Ids of the other agents that a former life knew last, if it knew them.
    pub saved_agents: Option<Vec<Arc<str>>>,
    /// True if the counts are in the engine's own table, for one agent without a store: every operation is done at once, by
    /// the agent's own clock. Otherwise they are in a store, which several agents may share.
    pub owns_table: bool,
    /// True if there is no store and the agent is one of a fleet: signals and the agent's own admissions decide, as under
    /// `consistency: eventual`. The time of the counts is that of the bus.
    pub lacks_store: bool,
    /// Shape of the store.
    pub store: StoreShape,
    /// True if all rules are in shadow, whatever they say, and nobody is on the deny list.
    pub shadow: bool,
}

/// Shape of a store: the steps in which the counters of one call are charged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StoreShape {
    /// One server, which charges counters of all slots in one step.
    Server,
    /// Several servers behind one address. Each slot is charged in a step of its own.
    Slots,
    /// Several primaries, each of which is known. Each slot is charged in a step of its own.
    Primaries,
}

impl StoreShape {
    /// Returns true if the counters of a call are charged in one step, whatever their slots. Other stores charge a call in several
    /// steps, of which some are taken back, and limit no counters of several regions.
    #[must_use]
    pub const fn has_one_step(self) -> bool {
        matches!(self, Self::Server)
    }
}

impl EngineSettings {
    /// Returns the settings of an agent of this name that starts now.
    #[must_use]
    pub fn new(node: &str, epoch: Timestamp) -> Self {
        Self {
            node: node.into(),
            region: "default".into(),
            epoch,
            digest_key: DigestKey::default(),
            counters_max: COUNTERS_MAX_DEFAULT,
            sketch_bytes: SKETCH_BYTES_DEFAULT,
            partitions: 1,
            publishes: true,
            agents_expected: None,
            saved_agents: None,
            owns_table: false,
            lacks_store: false,
            store: StoreShape::Server,
            shadow: false,
        }
    }

    /// Returns rules as the agent enforces them.
    pub(crate) fn enforced(&self, rules: RuleSet) -> RuleSet {
        let rules = rules.in_region(&self.region);
        if self.shadow { rules.in_shadow() } else { rules }
    }
}
