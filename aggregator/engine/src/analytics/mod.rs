//! Analytics: the sums of calls by second and by minute.
//!
//! [`PartitionRollups`] sums the rows of one partition, next to its counts and from the same batches, so that a call is summed
//! once whatever is delivered twice. Its rollups go to the bus. [`FleetView`] adds the rollups of all partitions as any aggregator
//! reads them, and answers questions. Nothing here depends on which aggregator counts a partition.

mod batch_sums;
mod caller_sketch;
mod callers_of_rule;
mod slice;
mod partition_rollups;
mod fleet_slice;
mod denied_callers;
mod shown_uses;
mod used_rules;
mod answers;
mod fleet_view;
#[cfg(test)]
mod tests;

pub use answers::{CallerSums, CallersOrder, RuleState};
pub use fleet_view::{FleetView, MINUTES_KEPT_MS, SECONDS_KEPT_MS};
pub use partition_rollups::{AnalyticsSettings, AnalyticsTally, PartitionRollups};
