//! Experiments on real servers, in wall time.

mod live_fleet;
pub mod lag;
pub mod failure;
pub mod accuracy;
