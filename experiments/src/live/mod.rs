//! Experiments on real servers, in wall time.

pub mod skewed_callers;
mod live_fleet;
mod simulated;
mod result;
pub mod lag;
pub mod failure;
pub mod accuracy;
pub mod rls;
