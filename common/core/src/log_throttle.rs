//! Throttle of log lines of one kind: the first event is logged, and then at most one each minute, with the number of events
//! that were not.

use crate::clock::Timestamp;

const LOG_INTERVAL_MS: u64 = 60_000;

/// Throttle of log lines of one kind.
#[derive(Clone, Copy, Debug, Default)]
pub struct LogThrottle {
    logged_at: Option<Timestamp>,
    unlogged: u64,
}

impl LogThrottle {
    /// Counts an event. If it is to be logged, returns the number of events before it that were not. After a step back of the
    /// clock, the next event is logged.
    pub fn count(&mut self, now: Timestamp) -> Option<u64> {
        if self.logged_at.is_some_and(|logged_at| now >= logged_at && now.ms_since(logged_at) < LOG_INTERVAL_MS) {
            self.unlogged += 1;
            return None;
        }
        self.logged_at = Some(now);
        Some(std::mem::take(&mut self.unlogged))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_is_logged_once_a_minute_with_the_number_of_those_that_were_not() {
        let cases = [(0, Some(0)), (1, None), (59_999, None), (60_000, Some(2)), (120_000, Some(0)), (5_000, Some(0))];
        let mut throttle = LogThrottle::default();
        for (ms, logged) in cases {
            assert_eq!(throttle.count(Timestamp::from_ms(ms)), logged, "at {ms}");
        }
    }
}
