//! Rate limiting algorithms as pure state machines, `(state, now, cost) -> verdict`.
//!
//! A store keeps one [`CounterState`] per counter. For each charge it calls [`CounterState::advance`] with its own
//! time, [`CounterState::evaluate`], and, if all counters of the call have room, [`CounterState::charge`]. The
//! [`Limit`] is a parameter, so a changed quota applies at the next step; a changed algorithm converts the state
//! ([`CounterState::fit`]).
//!
//! Three forms of state serve all algorithms: counts per sub-window, a log of timestamps, and a meter. A new algorithm
//! is a variant of [`Algorithm`] and a branch in `state.rs`; one with another form of state also has a file in this folder.

mod limit;
mod verdict;
mod meter;
mod token_bucket;
mod leaky_bucket;
mod reserve;
mod sliding_window;
mod sliding_log;
mod state;
#[cfg(test)]
mod tests;

pub use limit::{Algorithm, Limit};
pub use meter::{LEVEL_MAX, Meter, Rate};
pub use sliding_log::{QUOTA_MAX as SLIDING_LOG_QUOTA_MAX, SlidingLog, WIDTH_MS_MAX as SLIDING_LOG_WIDTH_MS_MAX};
pub use sliding_window::SlidingWindow;
pub use state::CounterState;
pub use verdict::Verdict;
