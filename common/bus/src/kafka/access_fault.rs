//! Faults of the access to a broker, by the texts of librdkafka: TLS, login, or a listener of another kind. Each has a remedy.
//!
//! librdkafka says of any certificate only that it could not be verified. [`super::tls_fault`] finds out why.

use std::sync::Arc;

use parking_lot::Mutex;
use rdkafka::error::RDKafkaErrorCode as Code;
use tollgate_core::one_line::excerpt;

/// Maximum age of a connection that a broker closes because it wants TLS or a login.
const EARLY_MS: u64 = 500;

/// Kind of a fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AccessFaultKind {
    /// The handshake of TLS fails.
    Tls,
    /// The listener speaks no TLS.
    NoTls,
    /// The listener speaks TLS.
    OnlyTls,
    /// User or password are wrong.
    Login,
    /// The listener does not have the mechanism of the login.
    Mechanism,
    /// The listener takes no login.
    NoLogin,
    /// The listener wants a login.
    OnlyLogin,
}

/// Fault of the access to one broker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct AccessFault {
    pub(super) kind: AccessFaultKind,
    /// Broker as `host:port`.
    pub(super) node: String,
    /// Text of librdkafka or of the broker.
    pub(super) detail: String,
}

/// Newest fault of any client of a bus; clones share it.
#[derive(Clone, Default)]
pub(super) struct AccessFaults(Arc<Mutex<Option<AccessFault>>>);

impl AccessFaults {
    /// Records a fault. Returns true if it is certain and new.
    pub(super) fn note(&self, fault: &AccessFault) -> bool {
        let before = self.0.lock().replace(fault.clone());
        fault.kind.is_certain() && before.is_none_or(|before| (before.kind, &before.node) != (fault.kind, &fault.node))
    }

    pub(super) fn newest(&self) -> Option<AccessFault> {
        self.0.lock().clone()
    }

    /// Forgets the fault of a broker that takes no connection any more, by the error of the attempt.
    pub(super) fn forget_unreachable(&self, reason: &str) {
        if reason.contains(": Connect to ") {
            let (node, _) = node_and_detail(reason);
            let mut newest = self.0.lock();
            newest.take_if(|fault| fault.node == node);
        }
    }

    /// Forgets the fault: the brokers answer, or the clients are new.
    pub(super) fn clear(&self) {
        *self.0.lock() = None;
    }
}

impl AccessFaultKind {
    /// Returns true if the text can have no other cause. A connection also ends while a broker stops.
    const fn is_certain(self) -> bool {
        !matches!(self, Self::NoTls | Self::OnlyTls | Self::OnlyLogin)
    }
}

/// Returns the likely cause if a broker has closed a connection that had just begun: a listener with TLS or with SASL does so after a
/// request without.
fn closed_early(reason: &str) -> Option<AccessFaultKind> {
    let (text, after) = reason.strip_suffix(')')?.rsplit_once(" (after ")?;
    let (ms, state) = after.split_once("ms in state ")?;
    if !text.contains("closed by peer") || text.contains("ssl://") || ms.parse::<u64>().ok()? >= EARLY_MS {
        return None;
    }
    match state.split_once(',').map_or(state, |(state, _)| state) {
        "APIVERSION_QUERY" => Some(AccessFaultKind::OnlyTls),
        "UP" => Some(AccessFaultKind::OnlyLogin),
        _ => None,
    }
}

fn node_and_detail(reason: &str) -> (&str, &str) {
    let reason = reason.split_once("://").map_or(reason, |(_, rest)| rest);
    let (node, detail) = reason.split_once(": ").unwrap_or(("", reason));
    (node.split_once('/').map_or(node, |(address, _)| address), detail)
}

impl AccessFault {
    /// Reads an error of a connection, such as `sasl_ssl://broker:9092/1: SASL authentication error: … (after 5ms in state X)`.
    /// Returns nothing for an error of another kind.
    pub(super) fn of(code: Option<Code>, reason: &str) -> Option<Self> {
        let has = |part: &str| reason.contains(part);
        let kind = match code? {
            Code::SSL if has("wrong version number") || has("packet length too long") => AccessFaultKind::NoTls,
            Code::SSL => AccessFaultKind::Tls,
            Code::Authentication | Code::SaslAuthenticationFailed | Code::UnsupportedSASLMechanism => {
                if has("current SASL state") {
                    AccessFaultKind::NoLogin
                } else if has("supported mechanisms") {
                    AccessFaultKind::Mechanism
                } else {
                    AccessFaultKind::Login
                }
            }
            Code::BrokerTransportFailure if has("connecting to a PLAINTEXT broker listener?") => AccessFaultKind::NoTls,
            Code::BrokerTransportFailure if has("SSL routines") => AccessFaultKind::Tls,
            Code::BrokerTransportFailure => closed_early(reason)?,
            _ => return None,
        };
        Some(Self::at_node(kind, reason))
    }

    /// Reads a line of the log, such as `[thrd:…]: broker:9092/1: Disconnected: …`: librdkafka reports the end of a connection only
    /// there.
    pub(super) fn of_log(message: &str) -> Option<Self> {
        let reason = message.split_once("]: ").map_or(message, |(_, reason)| reason);
        Self::of(Some(Code::BrokerTransportFailure), reason)
    }

    fn at_node(kind: AccessFaultKind, reason: &str) -> Self {
        let (node, detail) = node_and_detail(reason);
        // The duration differs between attempts.
        let detail = detail.split_once(" (after ").map_or(detail, |(text, _)| text);
        Self { kind, node: node.to_owned(), detail: excerpt(detail).to_string() }
    }

    /// Returns the remedy. [`super::refused`] knows more about some faults.
    pub(super) const fn remedy(&self) -> &'static str {
        match self.kind {
            AccessFaultKind::Tls => {
                "check that the file of --kafka-ca has the issuers of the broker's certificate, its names and its dates"
            }
            AccessFaultKind::NoTls => {
                "give the port of a listener with TLS; or leave out --kafka-tls and the files of TLS, if the brokers have none"
            }
            AccessFaultKind::OnlyTls => "give --kafka-tls, if this is a listener with TLS",
            AccessFaultKind::Login => {
                "give the password that the brokers have: --kafka-password-file FILE, which is read again, or TOLLGATE_KAFKA_PASSWORD"
            }
            AccessFaultKind::Mechanism => {
                "choose a mechanism that the brokers have: --kafka-sasl plain, scram-sha-256 or scram-sha-512"
            }
            AccessFaultKind::NoLogin => {
                "give the port of a listener with SASL; or leave out --kafka-user and its password, if the brokers have no users"
            }
            AccessFaultKind::OnlyLogin => {
                "give a user, if this is a listener with SASL: --kafka-user NAME --kafka-password-file FILE"
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fault_is_forgotten_once_its_broker_takes_no_connection() {
        let faults = AccessFaults::default();
        let refused = "b:1/1: SASL authentication error: Authentication failed (after 302ms in state AUTH_REQ)";
        let fault = AccessFault::of(Some(Code::Authentication), refused).unwrap();
        assert!(faults.note(&fault) && !faults.note(&fault));
        faults.forget_unreachable("other:1/1: Connect to ipv4#127.0.0.2:1 failed: Connection refused");
        assert!(faults.newest().is_some());
        faults.forget_unreachable("b:1/bootstrap: Connect to ipv4#127.0.0.1:1 failed: Connection refused");
        assert_eq!(faults.newest(), None);
    }

    #[test]
    fn texts_of_librdkafka_tell_the_broker_and_the_kind_of_the_fault() {
        for (code, reason, expected) in [
            (
                Code::Authentication,
                "sasl_plaintext://b:1/bootstrap: SASL authentication error: Authentication failed: Invalid username or password (after 302ms in state AUTH_REQ)",
                Some((
                    AccessFaultKind::Login,
                    "SASL authentication error: Authentication failed: Invalid username or password",
                )),
            ),
            (
                Code::SSL,
                "ssl://b:1/2: SSL handshake failed: error:0A000086:SSL routines::certificate verify failed: broker certificate could not be verified (after 3ms in state SSL_HANDSHAKE)",
                Some((
                    AccessFaultKind::Tls,
                    "SSL handshake failed: error:0A000086:SSL routines::certificate verify failed: broker certificate could not be verified",
                )),
            ),
            (
                Code::BrokerTransportFailure,
                "b:1/1: Disconnected: connection closed by peer: receive 0 after POLLIN (after 0ms in state UP)",
                Some((AccessFaultKind::OnlyLogin, "Disconnected: connection closed by peer: receive 0 after POLLIN")),
            ),
            (
                Code::BrokerTransportFailure,
                "b:1/1: Disconnected: connection closed by peer: receive 0 after POLLIN (after 7007ms in state UP)",
                None,
            ),
            (
                Code::BrokerTransportFailure,
                "b:1/1: Connect to ipv4#127.0.0.1:1 failed: Connection refused (after 0ms in state CONNECT)",
                None,
            ),
        ] {
            let fault = AccessFault::of(Some(code), reason);
            let expected =
                expected.map(|(kind, detail)| AccessFault { kind, node: "b:1".into(), detail: detail.into() });
            assert_eq!(fault, expected);
        }
    }
}
