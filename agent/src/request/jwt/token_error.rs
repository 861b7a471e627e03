//! Reasons for rejecting a token, and their counters.

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::registry::Registry;

/// Reason for which a token is not valid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TokenError {
    /// Not a signed token, or one with unsupported extensions.
    Malformed,
    /// Unsupported algorithm, or another one than that of the key.
    Algorithm,
    /// Key id that is not in the file.
    UnknownKey,
    /// Signature that no key verifies.
    Signature,
    /// Expired.
    Expired,
    /// Not yet valid.
    NotYetValid,
    /// Wrong issuer.
    Issuer,
    /// Wrong audience.
    Audience,
    /// No keys are configured.
    NoKeys,
}

/// Numbers of rejected tokens by reason.
#[derive(Clone, Debug)]
pub(super) struct TokenErrorCounters([Counter; TokenError::ALL.len()]);

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct TokenErrorLabels {
    reason: &'static str,
}

impl TokenError {
    const ALL: [Self; 9] = [
        Self::Malformed,
        Self::Algorithm,
        Self::UnknownKey,
        Self::Signature,
        Self::Expired,
        Self::NotYetValid,
        Self::Issuer,
        Self::Audience,
        Self::NoKeys,
    ];

    const fn as_str(self) -> &'static str {
        match self {
            Self::Malformed => "malformed",
            Self::Algorithm => "algorithm",
            Self::UnknownKey => "unknown_key",
            Self::Signature => "signature",
            Self::Expired => "expired",
            Self::NotYetValid => "not_yet_valid",
            Self::Issuer => "issuer",
            Self::Audience => "audience",
            Self::NoKeys => "no_keys",
        }
    }
}

impl TokenErrorCounters {
    pub(super) fn register(registry: &mut Registry) -> Self {
        let family = Family::<TokenErrorLabels, Counter>::default();
        let help = "Bearer tokens that the rules ask about and that gave no descriptor";
        registry.sub_registry_with_prefix("tollgate").register("jwt_rejected", help, family.clone());
        Self(TokenError::ALL.map(|reason| family.get_or_create(&TokenErrorLabels { reason: reason.as_str() }).clone()))
    }

    pub(super) fn count(&self, reason: TokenError) {
        self.0[reason as usize].inc();
    }
}
