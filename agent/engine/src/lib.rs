//! The agent without input and output: one state machine that a real agent and the simulation both drive.
//!
//! An [`Operation`] goes through [`Engine::begin`], then the store if it must be asked, then [`Engine::finish`].
//! Signals, presence, delivery reports and rules arrive through other methods. The crate reads no clock, opens no
//! socket and writes no log; a shell (`tollgate`, or the simulator of `tollgate-sim`) does that. Modules are
//! listed in the order of their layers: each imports only the modules before it.

#[cfg(test)]
mod tests;
mod engine_settings;
mod report;
mod primaries;
mod time;
mod fleet;
mod counters;
mod rules;
mod bus;
mod store;
mod engine;
mod call;
mod request;
mod housekeeping;

pub use bus::IgnoredRecord;
pub use call::{CallerReset, Decisions, FoundRule, ResetEffect, ResetRule};
#[doc(hidden)]
pub use counters::AgentTable;
pub use counters::{COUNTERS_MAX_RANGE, SKETCH_BYTES_RANGE, UNSYNCED_ENTRIES_OF_COUNTER_MAX};
pub use engine::Engine;
pub use engine_settings::{COUNTERS_MAX_DEFAULT, EngineSettings, SKETCH_BYTES_DEFAULT, StoreShape};
pub use fleet::{AgentIds, FLEET_EXPECTED_DEFAULT, FleetPart};
pub use housekeeping::{
    Exchange, ExchangeEffect, ExchangeInput, HeldEntries, Incoming, Maintenance, MaintenanceEffect, MaintenanceInput,
    MaintenanceRequest, MaintenanceSettings, Receipt, WITNESS_KEPT_MS, WitnessAnswer,
};
pub use report::{
    ADMISSIONS_ALL, Amount, DecisionSampler, DecisionSampling, EngineMetrics, LateOutcome, Notice, OTHER_RULES,
    RULE_COUNTS_LEN_MAX, RuleCounts, SampledDenials, StripedTotal, Total,
};
#[doc(hidden)]
pub use report::{STRIPES, use_stripe};
pub use request::{
    DecidedRule, LATE_ANSWER_WAIT_MAX, LATE_REQUESTS_MAX, Operation, Output, Progress, RequestStep, StepAnswers,
    StoreRequest, UNATTENDED_DEADLINE,
};
pub use rules::RuleRanks;
pub use store::{
    BACKFILL_CHARGES_MAX, CallerAnswer, GATHER_MAX, GatheredStep, Gatherer, PipelineNumber, PipelineSteps,
    UNSYNCED_COUNTERS_MAX,
};
#[cfg(feature = "planted-mistakes")]
#[doc(hidden)]
pub use store::{FateMistake, plant_fate_mistake};
pub use time::TimeBounds;
pub use tollgate_core::counter::{PrimaryIndex, StoreError};
