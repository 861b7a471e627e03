//! Messages between agents and aggregators, one file per topic of the bus. `tollgate-wire` encodes them.

pub mod calls;
pub mod emergency;
pub mod signals;
pub mod presence;
pub mod rules;
