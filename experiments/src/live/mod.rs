//! Experiments on real servers, in wall time.

mod live_fleet;
mod simulated;
pub mod lag;
pub mod failure;
pub mod accuracy;
