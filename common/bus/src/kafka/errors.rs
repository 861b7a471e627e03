//! Errors of settings and of topics, with their remedies.

use crate::BusError;

impl BusError {
    pub(super) fn setting(setting: &str, reason: &str, remedy: &str) -> Self {
        Self::Setting { setting: setting.into(), reason: reason.into(), remedy: remedy.into() }
    }

    pub(super) fn refused(reason: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self::Refused { reason: reason.into(), remedy: remedy.into() }
    }
}
