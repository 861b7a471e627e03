//! Attempts to connect: at most one at a time, and at growing intervals while they time out, so that the backlog of a
//! stopped server does not fill. Likewise while the address leads to a server that is no primary, which accepts connections and
//! answers pings, and refuses each write.

use tollgate_core::clock::Timestamp;

/// Minimum time from the beginning of one attempt to that of the next.
const CONNECT_PAUSE_MIN_MS: u64 = 100;
/// Maximum time between attempts that fail: a server that is back is used within a second.
const CONNECT_PAUSE_MAX_MS: u64 = 500;
/// Time after which a connection has held, and the pauses before it are forgotten.
const HELD_MS: u64 = 1_000;

/// Schedule that is locked while an attempt is in progress.
#[derive(Default)]
pub(super) struct AttemptSchedule {
    not_before: Timestamp,
    pause_ms: u64,
    /// Beginning of the attempt that made the connection, until an attempt fails.
    connected_at: Option<Timestamp>,
}

impl AttemptSchedule {
    /// Returns true if it is too early for the next attempt.
    pub(super) fn is_early(&self, now: Timestamp) -> bool {
        self.not_before > now
    }

    /// Notes an attempt that timed out or was refused.
    pub(super) fn failed(&mut self, now: Timestamp) {
        self.forget_pause(now);
        let pause_ms = self.pause_ms.max(CONNECT_PAUSE_MIN_MS);
        self.not_before = now.plus_ms(pause_ms);
        self.pause_ms = (2 * pause_ms).min(CONNECT_PAUSE_MAX_MS);
    }

    /// Notes that the connection was left, because its server is no primary. After a connection that has held, the next attempt
    /// is made at once. Returns true then.
    pub(super) fn left(&mut self, now: Timestamp) -> bool {
        self.forget_pause(now);
        let is_first = self.pause_ms == 0;
        self.failed(now);
        if is_first {
            (self.not_before, self.pause_ms) = (now, CONNECT_PAUSE_MIN_MS);
        }
        is_first
    }

    /// Notes an attempt that began at this time, and that succeeded or found no server that listens. A connection that is
    /// lost soon is replaced at once.
    pub(super) fn ended(&mut self, began_at: Timestamp, is_connected: bool) {
        *self = if is_connected {
            Self { not_before: began_at, pause_ms: self.pause_ms, connected_at: Some(began_at) }
        } else {
            Self { not_before: began_at.plus_ms(CONNECT_PAUSE_MIN_MS), pause_ms: 0, connected_at: None }
        };
    }

    /// Forgets the pauses before a connection that has held.
    fn forget_pause(&mut self, now: Timestamp) {
        if self.connected_at.take().is_some_and(|connected_at| now.ms_since(connected_at) >= HELD_MS) {
            self.pause_ms = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn at(ms: u64) -> Timestamp {
        Timestamp::from_ms(ms)
    }

    /// Lets a server be left 10 ms after each connection; returns the pauses.
    fn pauses(schedule: &mut AttemptSchedule, mut now: Timestamp, times: usize) -> (Timestamp, Vec<u64>) {
        let mut pauses = Vec::new();
        for _ in 0..times {
            now = now.plus_ms(10);
            schedule.left(now);
            pauses.push(schedule.not_before.ms_since(now));
            now = schedule.not_before;
            schedule.ended(now, true);
        }
        (now, pauses)
    }

    #[test]
    fn a_server_that_is_left_again_and_again_is_asked_less_and_less_often() {
        let mut schedule = AttemptSchedule::default();
        schedule.ended(at(10_000), true);
        let (now, left) = pauses(&mut schedule, at(10_000), 6);
        assert_eq!(left, [0, 100, 200, 400, 500, 500]);
        // A connection that held ends this, and one that held not for long does not.
        assert_eq!(pauses(&mut schedule, now.plus_ms(500), 1).1, [500]);
        let now = schedule.not_before.plus_ms(HELD_MS);
        assert_eq!(pauses(&mut schedule, now, 2).1, [0, 100]);
    }

    #[test]
    fn attempts_that_time_out_are_made_less_and_less_often() {
        let mut schedule = AttemptSchedule::default();
        schedule.ended(at(10_000), true);
        let pauses = [20_000, 21_000, 22_000, 23_000].map(|ms| {
            schedule.failed(at(ms));
            schedule.not_before.ms_since(at(ms))
        });
        assert_eq!(pauses, [100, 200, 400, 500]);
        schedule.ended(at(24_000), false);
        assert_eq!(schedule.not_before, at(24_100), "nobody listens");
    }
}
