//! Clients that were denied: the time until they call again.

use fastrand::Rng;
use tollgate::http_response;
use tollgate_core::decision::Decision;

/// Longest wait of a client that backs off, in ms.
const BACKOFF_MS_MAX: u64 = 30_000;
/// Header with the wait of a denied client, in s.
const RETRY_AFTER: &str = "retry-after";

/// Behaviour of a client after a denial.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum DeniedClient {
    /// It calls again as soon as the denial has reached it.
    AtOnce,
    /// It doubles its wait with each denial in a row, and draws the wait between zero and this time.
    BacksOff,
    /// It waits for the time that it is told.
    Waits,
}

impl DeniedClient {
    /// Returns the time until the next call, in ms, after so many denials in a row, if the last one told this time.
    pub(super) fn wait_ms(self, told_ms: u64, denials: u32, round_trip_ms: u64, rng: &mut Rng) -> u64 {
        match self {
            Self::AtOnce => round_trip_ms,
            Self::BacksOff => {
                let most = round_trip_ms.saturating_mul(1 << denials.min(20)).min(BACKOFF_MS_MAX);
                round_trip_ms + rng.u64(0..=most)
            }
            Self::Waits => round_trip_ms + told_ms,
        }
    }
}

/// Returns the time of `Retry-After` of a denial by count, in ms.
pub(super) fn retry_after_ms(denial: &Decision) -> u64 {
    let headers = http_response::headers(denial, "agent");
    let seconds = headers.get(RETRY_AFTER).and_then(|value| value.to_str().ok()?.parse::<u64>().ok());
    1_000 * seconds.expect("a denial by count has the header")
}

#[cfg(test)]
mod tests {
    use tollgate_core::clock::Timestamp;
    use tollgate_core::decision::{LimitKind, LimitStatus, Source};
    use tollgate_core::decision_id::DecisionId;

    use super::*;

    #[test]
    fn a_client_waits_as_it_is_used_to() {
        let id = DecisionId { life: "a-1".into(), call: 1, partition: None };
        let mut denial = Decision::new(false, Source::Store, Timestamp::from_ms(1_000), id);
        let mut status = LimitStatus::new("caller".into(), LimitKind::Window, 1);
        status.retry_after_ms = 7_500;
        denial.status = Some(status);
        let mut rng = Rng::with_seed(1);
        let mut wait_ms =
            |client: DeniedClient, denials| client.wait_ms(retry_after_ms(&denial), denials, 20, &mut rng);
        assert_eq!(wait_ms(DeniedClient::AtOnce, 9), 20);
        // Whole seconds, and the jitter of the header.
        assert!((8_020..=9_020).contains(&wait_ms(DeniedClient::Waits, 1)));
        assert!((0..100).all(|_| wait_ms(DeniedClient::BacksOff, 1) <= 60));
        assert!((0..100).any(|_| wait_ms(DeniedClient::BacksOff, 50) > 20_000));
        assert!((0..100).all(|_| wait_ms(DeniedClient::BacksOff, 50) <= 30_020));
    }
}
