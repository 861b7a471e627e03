//! Penalties of a gateway, in front of its agent: a cool-down that each early retry of a client lengthens.
//!
//! The operator of the API in the story added "progressive penalties for clients ignoring backoff (increasing cooldown windows)".
//! Tollgate has none. A penalty here belongs to one job, because the jobs share the quota of their organization: a penalty of the
//! organization would strike the jobs that wait, too. Each gateway knows the denials of its own agent only.

use tollgate_core::clock::Timestamp;

/// Length of the first cool-down, in ms. Each early retry doubles it.
const COOL_DOWN_MS: u64 = 1_000;
const COOL_DOWN_MS_MAX: u64 = 30_000;
/// Time without an early retry in which a cool-down halves, in ms.
const HALVING_MS: u64 = 30_000;

/// Cool-down of one client at one gateway. It begins when the time of `Retry-After` ends.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct CoolDown {
    /// End of the time of `Retry-After` after the last denial of the agent.
    retry_at: Timestamp,
    /// Instant of the last early retry, and the length of the cool-down then.
    early_at: Timestamp,
    length_ms: u64,
}

impl CoolDown {
    /// Returns the time that a denied client is to wait, in ms, if the agent denied it with this `Retry-After`.
    pub(super) fn denied(&mut self, now: Timestamp, retry_after_ms: u64) -> u64 {
        self.retry_at = now.plus_ms(retry_after_ms);
        retry_after_ms + self.length_ms(now)
    }

    /// A call arrives. Returns the time that the client is to wait, in ms, if the call is early; the gateway then denies it.
    pub(super) fn refuses(&mut self, now: Timestamp) -> Option<u64> {
        let length_ms = self.length_ms(now);
        if now >= self.retry_at.plus_ms(length_ms) {
            return None;
        }
        self.length_ms = (2 * length_ms).clamp(COOL_DOWN_MS, COOL_DOWN_MS_MAX);
        self.early_at = now;
        Some(self.retry_at.plus_ms(self.length_ms).ms_since(now))
    }

    fn length_ms(&self, now: Timestamp) -> u64 {
        let halvings = u32::try_from(now.ms_since(self.early_at) / HALVING_MS).unwrap_or(u32::MAX);
        self.length_ms.checked_shr(halvings).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// K2.
    #[test]
    fn each_early_retry_lengthens_the_cool_down_to_a_cap_and_then_it_decays() {
        let at = |second: u64| Timestamp::from_ms(1_000_000 + 1_000 * second);
        let mut cool_down = CoolDown::default();
        assert_eq!(cool_down.refuses(at(0)), None);
        assert_eq!(cool_down.denied(at(0), 10_000), 10_000);
        // Instant of an early retry, and the time that it is to wait: the rest of `Retry-After` and the cool-down.
        for (second, wait_s) in [(1, 9 + 1), (2, 8 + 2), (3, 7 + 4), (4, 6 + 8), (5, 5 + 16), (6, 4 + 30), (7, 3 + 30)]
        {
            assert_eq!(cool_down.refuses(at(second)), Some(1_000 * wait_s), "{second}");
        }
        // The half of the cool-down is over at 37 s, and its end is at 10 + 15 s.
        assert_eq!(cool_down.refuses(at(37)), None);
        assert_eq!(cool_down.denied(at(37), 1_000), 16_000);
        assert_eq!(cool_down.denied(at(67), 1_000), 8_500);
        assert_eq!(cool_down.denied(at(10_000), 1_000), 1_000);
    }

    /// A client that waits is never penalized.
    #[test]
    fn a_client_that_waits_has_no_cool_down() {
        let (mut cool_down, mut now) = (CoolDown::default(), Timestamp::from_ms(1_000_000));
        for _ in 0..100 {
            assert_eq!(cool_down.refuses(now), None);
            now = now.plus_ms(cool_down.denied(now, 5_000));
        }
    }
}
