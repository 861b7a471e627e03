//! Reasons for rejecting a token, and their counters.

use strum::{EnumCount, IntoStaticStr, VariantArray};
use tollgate_engine::Total;

/// Reason for which a token is not valid; its name in `snake_case` is a label of the metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq, EnumCount, IntoStaticStr, VariantArray)]
#[strum(serialize_all = "snake_case")]
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
pub(super) struct TokenErrorCounters([Total; TokenError::COUNT]);

impl TokenErrorCounters {
    pub(super) fn count(&self, reason: TokenError) {
        self.0[reason as usize].add(1);
    }

    pub(super) fn counts(&self) -> impl Iterator<Item = (&'static str, u64)> + '_ {
        TokenError::VARIANTS.iter().zip(&self.0).map(|(reason, total)| (reason.into(), total.get()))
    }
}
