//! Parameters of a run, and those that are fixed.

use std::num::NonZeroU32;
use std::time::Duration;

/// Time for which a rule waits for Redis.
pub(super) const DEADLINE: Duration = Duration::from_millis(15);
/// Calls before each measurement, which open connections and leases, and show the agent that Redis is back.
pub(super) const WARM_UP: Duration = Duration::from_secs(2);

/// Size of the measurement.
#[derive(Clone, Copy, Debug)]
pub struct RlsPlan {
    /// Calls per second, to the agent and to the echo each.
    pub rate: NonZeroU32,
    /// Seconds in each state of Redis.
    pub seconds: NonZeroU32,
}

/// State of Redis during a part of the measurement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RedisState {
    Running,
    Stopped,
    Killed,
}

impl RedisState {
    pub(super) const ALL: [Self; 3] = [Self::Running, Self::Stopped, Self::Killed];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Stopped => "stopped",
            Self::Killed => "killed",
        }
    }
}
