//! Belief in answers of an older epoch than the newest one that was told.
//!
//! A node or a Sentinel that was cut off tells an old epoch, and must not lead back to an old primary. If nothing newer is told for a
//! while, the servers were set up anew, and their epochs began again.

use std::time::Duration;

/// Time after which an older epoch is believed.
const OLDER_FOR: Duration = Duration::from_secs(10);

/// Time since which all answers tell an older epoch.
#[derive(Debug, Default)]
pub(crate) struct OlderAnswers {
    since: Option<Duration>,
}

impl OlderAnswers {
    /// Returns true if an answer is believed at this time: it is not older, or older ones on which the servers agree have come for a while
    /// without a break.
    pub(crate) fn is_believed(&mut self, is_older: bool, is_agreed: bool, now: Duration) -> bool {
        let begins = if is_older && is_agreed { Some(self.since.unwrap_or(now)) } else { None };
        let is_believed = !is_older || begins.is_some_and(|since| now.saturating_sub(since) >= OLDER_FOR);
        self.since = begins.filter(|_| !is_believed);
        is_believed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_older_answers_is_believed_after_ten_seconds_without_a_break() {
        let mut epoch = OlderAnswers::default();
        // Older or not, agreed on or not, instant in ms; the belief.
        for (is_older, is_agreed, at_ms, expected) in [
            (false, false, 0, true),
            (true, true, 1_000, false),
            (true, true, 10_999, false),
            // A newer one is told: the time begins anew.
            (false, true, 11_000, true),
            (true, true, 12_000, false),
            // They do not agree any more.
            (true, false, 21_000, false),
            (true, true, 22_001, false),
            (true, true, 32_000, false),
            (true, true, 32_001, true),
            (true, true, 32_002, false),
        ] {
            let is_believed = epoch.is_believed(is_older, is_agreed, Duration::from_millis(at_ms));
            assert_eq!(is_believed, expected, "at {at_ms}");
        }
    }
}
