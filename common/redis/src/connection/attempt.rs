//! Attempts to connect: at most one at a time, and at growing intervals while they time out, so that the backlog of a
//! stopped server does not fill.

use tollgate_core::clock::Timestamp;

/// Minimum time from the beginning of one attempt to that of the next.
const CONNECT_PAUSE_MIN_MS: u64 = 100;
/// Maximum time between attempts that time out: a server that is back is used within a second.
const CONNECT_PAUSE_MAX_MS: u64 = 500;

/// Schedule that is locked while an attempt is in progress.
#[derive(Default)]
pub(super) struct AttemptSchedule {
    not_before: Timestamp,
    pause_ms: u64,
}

impl AttemptSchedule {
    /// Returns true if it is too early for the next attempt.
    pub(super) fn is_early(&self, now: Timestamp) -> bool {
        self.not_before > now
    }

    /// Notes an attempt that timed out or was refused.
    pub(super) fn failed(&mut self, now: Timestamp) {
        let pause_ms = self.pause_ms.max(CONNECT_PAUSE_MIN_MS);
        self.not_before = now.plus_ms(pause_ms);
        self.pause_ms = (2 * pause_ms).min(CONNECT_PAUSE_MAX_MS);
    }

    /// Notes an attempt that began at this time, and that succeeded or found no server that listens. A connection that is
    /// lost soon is replaced at once.
    pub(super) fn ended(&mut self, began_at: Timestamp, is_connected: bool) {
        let pause_ms = if is_connected { 0 } else { CONNECT_PAUSE_MIN_MS };
        *self = Self { not_before: began_at.plus_ms(pause_ms), pause_ms: 0 };
    }
}
