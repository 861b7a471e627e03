//! Experiments on real servers, in wall time.

pub mod lag;
pub mod failure;
pub mod accuracy;
