//! Tollgate's aggregator: reads the log of calls, keeps the global count of every counter, and signals what matters.
//!
//! Modules stand in the order of their layers: each imports only what stands before it.

pub mod counting;
pub mod ownership;
pub mod pump;
pub mod api;

pub use pump::{Pump, Settings};
