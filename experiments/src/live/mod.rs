//! Experiments on real servers, in wall time.

mod cpu;
pub mod lag;
