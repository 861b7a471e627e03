//! Reasons for rejecting a token, and their counters.

use tollgate_engine::Total;

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
#[derive(Debug, Default)]
pub(super) struct TokenErrorCounters([Total; TokenError::ALL.len()]);

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
    pub(super) fn count(&self, reason: TokenError) {
        self.0[reason as usize].add(1);
    }

    pub(super) fn counts(&self) -> impl Iterator<Item = (&'static str, u64)> + '_ {
        TokenError::ALL.iter().zip(&self.0).map(|(reason, total)| (reason.as_str(), total.get()))
    }
}
