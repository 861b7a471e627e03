//! Verified claims of `Authorization: Bearer` tokens.
//!
//! A token is valid if a key of the JWKS file verifies its signature with the *key's* algorithm, its validity times
//! include the present, and its issuer and audience are the required ones. An invalid token is treated like a missing
//! one: rejecting callers is the task of the gateway's authentication, not of its limits. The module reads no clock and
//! no file. It does not support encrypted tokens and other algorithms, and does not fetch keys from their publisher;
//! other tools can keep the file up to date.
//!
//! `ring` verifies the signatures. The crate `jsonwebtoken` (11.1) was rejected: it reads the system's clock, its
//! cryptography is one choice for the whole process, and the first token panics if two parts of a gateway choose
//! differently. Its errors name neither the place in the key file nor a remedy.

mod token_error;
mod requirements;
mod key_material;
mod token;
mod key_set;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use arc_swap::ArcSwapOption;
use http::header::AUTHORIZATION;
use http::{HeaderMap, HeaderValue};
use parking_lot::Mutex;
use quick_cache::sync::Cache;
use strum::{EnumCount, VariantArray};
use tollgate_core::clock::Timestamp;
use tollgate_engine::Total;

pub use key_set::{KEYS_LEN_MAX, KeySet};
pub use requirements::{LEEWAY_S, TokenRequirements};
pub use token::TOKEN_LEN_MAX;
pub use token_error::TokenError;

use super::Claims;
use token::Token;

/// Maximum number of cached tokens.
pub const TOKENS_LEN_MAX: usize = 10_000;
const SCHEME: &[u8] = b"bearer ";

/// Verifier of tokens.
#[derive(Debug, Default)]
pub struct Verifier {
    requirements: TokenRequirements,
    trusted: ArcSwapOption<TrustedKeys>,
    keys_error: Mutex<Option<String>>,
    rejected: [Total; TokenError::COUNT],
    warned_of_missing_keys: AtomicBool,
}

/// Keys, and the tokens verified with them, which need no second verification. Validity times are checked at each use.
#[derive(Debug)]
struct TrustedKeys {
    keys: KeySet,
    verified: Cache<String, Arc<Claims>>,
}

impl Verifier {
    /// Creates a verifier without keys.
    #[must_use]
    pub fn new(requirements: TokenRequirements) -> Self {
        Self { requirements, ..Self::default() }
    }

    /// Replaces the keys.
    pub fn set_keys(&self, keys: KeySet) {
        self.trusted.store(Some(Arc::new(TrustedKeys { keys, verified: Cache::new(TOKENS_LEN_MAX) })));
        *self.keys_error.lock() = None;
    }

    /// Records why new keys were rejected; the present keys stay in use.
    pub fn record_keys_error(&self, why: String) {
        *self.keys_error.lock() = Some(why);
    }

    /// Returns the error of the latest keys, if they were rejected.
    #[must_use]
    pub fn keys_error(&self) -> Option<String> {
        self.keys_error.lock().clone()
    }

    /// Returns the claims of a request's token, or `None` if it has no valid token at `now`. Counts rejected tokens.
    #[must_use]
    pub fn claims(&self, headers: &HeaderMap, now: Timestamp) -> Option<Arc<Claims>> {
        match bearer(headers).and_then(|token| token.map(|token| self.verify(token, now)).transpose()) {
            Ok(claims) => claims,
            Err(reason) => {
                self.rejected[reason as usize].add(1);
                if reason == TokenError::NoKeys && !self.warned_of_missing_keys.swap(true, Ordering::Relaxed) {
                    tracing::warn!(
                        "a token cannot be verified without keys, so its claims count as absent; specify them with --jwks FILE"
                    );
                }
                None
            }
        }
    }

    /// Returns the number of rejected tokens by reason, under the names of the metric's labels.
    pub fn rejected(&self) -> impl Iterator<Item = (&'static str, u64)> + '_ {
        TokenError::VARIANTS.iter().zip(&self.rejected).map(|(reason, total)| (reason.into(), total.get()))
    }

    /// Verifies a token and returns its claims.
    ///
    /// # Errors
    /// Returns the reason for which the token is not valid at `now`.
    pub fn verify(&self, token: &str, now: Timestamp) -> Result<Arc<Claims>, TokenError> {
        let trusted = self.trusted.load();
        let trusted = trusted.as_ref().ok_or(TokenError::NoKeys)?;
        if token.len() > TOKEN_LEN_MAX {
            return Err(TokenError::Malformed);
        }
        let claims = trusted.verified.get_or_insert_with(token, || {
            let parsed = Token::parse(token)?;
            trusted.keys.verify(&parsed)?;
            Ok(Arc::new(Claims(token::object(parsed.payload)?)))
        })?;
        claims.validate(&self.requirements, now)?;
        Ok(claims)
    }
}

/// Returns the bearer token of the `Authorization` header. A request with several different credentials has none.
fn bearer(headers: &HeaderMap) -> Result<Option<&str>, TokenError> {
    let mut lines = headers.get_all(AUTHORIZATION).iter().map(HeaderValue::as_bytes);
    let Some(first) = lines.next() else { return Ok(None) };
    if lines.any(|other| other != first) {
        return Err(TokenError::Malformed);
    }
    match first.split_at_checked(SCHEME.len()) {
        Some((scheme, token)) if scheme.eq_ignore_ascii_case(SCHEME) => {
            std::str::from_utf8(token.trim_ascii()).map(Some).map_err(|_| TokenError::Malformed)
        }
        _ => Ok(None),
    }
}

#[cfg(test)]
mod tests;
