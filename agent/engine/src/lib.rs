//! The agent without input and output: one state machine that a real agent and the simulation both drive.
//!
//! An [`Operation`] goes through [`Engine::begin`], then the store if it must be asked, then [`Engine::finish`].
//! Signals, presence, delivery reports and rules arrive through other methods. The crate reads no clock, opens no
//! socket and writes no log; a shell (`tollgate`, or the simulator of `tollgate-sim`) does that. Modules are
//! listed in the order of their layers: each imports only the modules before it.

#[cfg(test)]
mod tests;
mod notice;
mod stripes;
mod metrics;
mod dead_letters;
mod decision_sampler;
mod time_bounds;
mod fleet;
mod registry_news;
mod lease_epoch;
mod rule_ranks;
mod view;
mod enforce;
mod sketch;
mod table;
mod signals;
mod absurd_signals;
mod emergency_limit;
mod known_rows;
mod known_calls;
mod active_rules;
mod thread_rules;
mod row_buffer;
mod matched_rule;
mod fate;
mod gather;
mod unsynced_queue;
mod corrections;
mod reset_announcements;
mod losses;
mod engine_settings;
mod engine;
mod held_entries;
mod batcher;
mod match_rules;
mod store_health;
mod reopen;
mod record;
mod planned_call;
mod plan_call;
mod decide;
mod leases;
mod carried_units;
mod backfill;
mod joint_charge;
mod check_charges;
mod check;
mod eventual;
mod emergency;
mod settle_release;
mod reset;
mod store_request;
mod renewed_request;
mod charge_results;
mod operation;
mod late_answer;
mod check_sole;
mod local_answers;
mod receive;
mod exchange;
mod maintenance;

pub use carried_units::BACKFILL_CHARGES_MAX;
pub use check::Decisions;
pub use dead_letters::IgnoredRecord;
pub use decision_sampler::{ADMISSIONS_ALL, DecisionSampler, DecisionSampling, SampledDenials};
pub use engine::Engine;
pub use engine_settings::{COUNTERS_MAX_DEFAULT, ChargeableRules, EngineSettings};
pub use exchange::{Exchange, ExchangeEffect, ExchangeInput};
pub use fleet::{AgentIds, FLEET_EXPECTED_DEFAULT, FleetPart};
pub use gather::{CallerAnswer, GATHER_MAX, GatheredStep, Gatherer, PipelineNumber, PipelineSteps};
pub use held_entries::HeldEntries;
pub use late_answer::{LATE_ANSWER_WAIT_MAX, LATE_REQUESTS_MAX};
pub use maintenance::{
    Maintenance, MaintenanceEffect, MaintenanceInput, MaintenanceRequest, MaintenanceSettings, WITNESS_KEPT_MS,
    WitnessAnswer,
};
pub use metrics::{
    Amount, EngineMetrics, LateOutcome, OTHER_RULES, RULE_COUNTS_LEN_MAX, RuleCounts, StripedTotal, Total,
};
pub use notice::Notice;
pub use operation::{Operation, Output, Progress, UNATTENDED_DEADLINE};
pub use receive::{Incoming, Receipt};
pub use reset::{CallerReset, ResetEffect, ResetRule};
pub use rule_ranks::RuleRanks;
pub use sketch::{SKETCH_BYTES_DEFAULT, SKETCH_BYTES_RANGE};
pub use store_request::{DecidedRule, StoreRequest};
#[doc(hidden)]
pub use stripes::{STRIPES, use_stripe};
#[doc(hidden)]
pub use table::AgentTable;
pub use table::COUNTERS_MAX_RANGE;
pub use time_bounds::TimeBounds;
pub use tollgate_core::counter::StoreError;
pub use unsynced_queue::UNSYNCED_COUNTERS_MAX;
pub use view::UNSYNCED_ENTRIES_OF_COUNTER_MAX;
