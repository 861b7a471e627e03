//! Tollgate's aggregator: reads the log of calls, keeps the global count of every counter, and signals what matters.

pub mod counting;
pub mod pump;

pub use pump::{Pump, Settings};
