//! Usage of all regions: what each aggregator reports of its own counters, and the view that it makes of the reports of all.
//!
//! It shows the units that callers ask for and get over all regions, for rules with a global scope and for those of each region
//! alone. No limit depends on it: a report that is late, lost or doubled changes the view for seconds, and nothing else.

mod own_usage;
mod usage_view;

pub use own_usage::OwnUsage;
pub use usage_view::{CounterOverRegions, RuleOverRegions, UNKNOWN_AFTER_MS, UsageView};
