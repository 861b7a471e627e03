//! Error of brokers that refuse the access of this process, or that it refuses.

use super::access::{KafkaAccess, SaslMechanism};
use super::access_fault::{AccessFault, AccessFaultKind};
use super::settings::KafkaSettings;
use crate::BusError;

/// Returns the error with broker, reason and remedy. A listener of another kind may be a broker that is starting, so only faults of TLS
/// and of the login are certain.
pub(super) fn error(settings: &KafkaSettings, fault: &AccessFault) -> BusError {
    let (node, detail) = (&fault.node, &fault.detail);
    let found = (fault.kind == AccessFaultKind::Tls).then(|| found(settings, node)).flatten();
    if let Some((reason, remedy)) = found {
        return BusError::refused(format!("Kafka at {node}: TLS fails: {reason}"), remedy);
    }
    match fault.kind {
        AccessFaultKind::Tls | AccessFaultKind::NoTls | AccessFaultKind::OnlyTls | AccessFaultKind::OnlyLogin => {
            settings.unreachable(format!("{node}: {detail}; {}", fault.remedy()))
        }
        AccessFaultKind::Login => {
            let command = new_password(settings).unwrap_or_default();
            BusError::refused(
                format!("Kafka at {node} refuses the login: {detail}"),
                format!("{}{command}", fault.remedy()),
            )
        }
        AccessFaultKind::Mechanism | AccessFaultKind::NoLogin => {
            BusError::refused(format!("Kafka at {node} refuses the login: {detail}"), fault.remedy())
        }
    }
}

/// Returns the command that gives the user of SCRAM a password.
fn new_password(settings: &KafkaSettings) -> Option<String> {
    let KafkaAccess { user, sasl, .. } = &settings.access;
    let mechanism = Some(sasl.name()).filter(|_| *sasl != SaslMechanism::Plain)?;
    Some(format!(
        "; or give the user this password: `kafka-configs.sh {} --alter --entity-type users --entity-name {} --add-config '{mechanism}=[password=PASSWORD]'`",
        settings.tool_flags(),
        user.as_ref()?,
    ))
}

#[cfg(feature = "kafka-tls")]
fn found(settings: &KafkaSettings, node: &str) -> Option<super::tls_fault::TlsFault> {
    super::tls_fault::find(node, &settings.access)
}

#[cfg(not(feature = "kafka-tls"))]
fn found(_: &KafkaSettings, _: &str) -> Option<(String, &'static str)> {
    None
}
