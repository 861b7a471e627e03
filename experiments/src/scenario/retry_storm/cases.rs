//! Cases: the clients, without penalties and with them.

use super::client::DeniedClient;

pub(super) const AT_ONCE: &str = "at once";
pub(super) const RETRY_AFTER: &str = "Retry-After";
pub(super) const HALF: &str = "half of each";
pub(super) const HALF_PENALIZED: &str = "half of each, penalties";
/// All cases: clients, without penalties and with them.
pub(super) const CASES: [StormCase; 8] = [
    StormCase { name: AT_ONCE, clients: &[DeniedClient::AtOnce], has_penalties: false },
    StormCase { name: "backoff", clients: &[DeniedClient::BacksOff], has_penalties: false },
    StormCase { name: RETRY_AFTER, clients: &[DeniedClient::Waits], has_penalties: false },
    StormCase { name: HALF, clients: &[DeniedClient::AtOnce, DeniedClient::Waits], has_penalties: false },
    StormCase { name: "at once, penalties", clients: &[DeniedClient::AtOnce], has_penalties: true },
    StormCase { name: "backoff, penalties", clients: &[DeniedClient::BacksOff], has_penalties: true },
    StormCase { name: "Retry-After, penalties", clients: &[DeniedClient::Waits], has_penalties: true },
    StormCase { name: HALF_PENALIZED, clients: &[DeniedClient::AtOnce, DeniedClient::Waits], has_penalties: true },
];

/// Clients in front of gateways that have penalties or have none.
pub(super) struct StormCase {
    pub(super) name: &'static str,
    /// The jobs have them in turn.
    pub(super) clients: &'static [DeniedClient],
    pub(super) has_penalties: bool,
}
