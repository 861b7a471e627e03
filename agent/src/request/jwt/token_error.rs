//! Reasons for rejecting a token.

use strum::{EnumCount, IntoStaticStr, VariantArray};

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
