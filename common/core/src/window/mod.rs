//! Window arithmetic; no other module divides time.
//!
//! A window is the half-open interval (t-W, t]: an event exactly W ago has left it. It consists of n sub-windows of W/n
//! each, aligned to the Unix epoch, so that the counts of every agent, store and aggregator refer to the same intervals
//! and can be added and compared. [`Ring`] holds the counts.

mod sub_windows;
mod ring_counts;
mod ring;
#[cfg(test)]
mod ring_tests;

pub use ring::{Estimate, Ring};
pub use sub_windows::{SUB_WINDOWS_MAX, SubWindow, WIDTH_MS_MAX, Window, WindowError};
