//! Experiments on real servers, in wall time.

mod live_fleet;
mod simulated;
mod result;
pub mod lag;
pub mod failure;
pub mod accuracy;
pub mod rls;
