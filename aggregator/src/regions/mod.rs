//! The budgets of regions at an aggregator: it takes part for its region, and it may coordinate.
//!
//! The engines decide (`tollgate_aggregator_engine::budget`). A thread of its own reads the ledger, appends entries, and writes the
//! limits into the region's store, so that counting waits for neither of them. Each aggregator of a region takes care of the
//! counters that it counts, because it knows their demand and their count of the last window. Of the aggregators that may
//! coordinate, the first by name proposes. The others read along, so that a takeover needs no replay. Another thread reports
//! the usage of the counters, and reads that of all regions, for display only.

mod home_buses;
mod global_rules;
mod role_settings;
mod agreement;
mod feed;
mod usage_state;
mod metrics;
mod dead_entries;
mod ledger_identities;
mod ledger_link;
mod limit_writer;
mod state;
mod region_loop;
mod usage_loop;
mod role;

pub use feed::RegionFeed;
pub use global_rules::GlobalRules;
pub use home_buses::{HomeBuses, RegionBuses};
pub use role::RegionRole;
pub use role_settings::RegionRoleSettings;
pub(crate) use state::OwnBudget;
pub use state::RegionQueries;
