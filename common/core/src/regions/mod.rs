//! Regions that share the quotas of global rules: their names, their floors, and the limits in their stores.
//!
//! A region's limit of a counter is its floor, which the rules state, and the units that the ledger has granted it until a
//! term ends ([`stored_limit`]). The aggregator of the region writes it ([`limit_store`]); the store enforces it at each charge.

mod entry_id;
mod region_floor_ratio;
pub mod stored_limit;
pub mod limit_store;

pub use entry_id::{EntryId, Region};
pub use region_floor_ratio::{FLOOR_PPM_DEFAULT, REGIONS_LEN_MAX, RegionFloorRatio};
