//! Claims of `Authorization: Bearer` tokens: what a client cannot make up.
//!
//! A token counts only if a key of the JWKS file signed it by the algorithm that the *key* is for, it is in time, and it is
//! from and for whom it must be. Any other is as good as none: limits are not the place to refuse a caller, the gateway's
//! authentication is. It reads no clock and no file. Encrypted tokens, other algorithms and fetching keys from their
//! publisher are left out: a file can be kept fresh by whatever fetches files.
//!
//! Signatures are checked by `ring`; the few lines of JSON around them are here, since the usual crate for tokens reads the
//! system's clock, and either lets an `exp` that is no number pass (`jsonwebtoken` 9, CVE-2026-25537) or fails when another
//! part of the gateway has it built on other cryptography (10).

mod cache;
mod claims;
mod keys;
mod rejected;
mod token;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use arc_swap::ArcSwapOption;
use http::header::AUTHORIZATION;
use http::{HeaderMap, HeaderValue};
use parking_lot::Mutex;
use prometheus_client::registry::Registry;
use tollgate_core::clock::Timestamp;

pub use cache::TOKENS_LEN_MAX;
pub use claims::{Claims, Expected, LEEWAY_S};
pub use keys::{KEYS_LEN_MAX, Keys};
pub use rejected::Rejected;
pub use token::TOKEN_LEN_MAX;

use cache::Cache;
use rejected::RejectedCounters;
use token::Token;

const SCHEME: &[u8] = b"bearer ";

/// Tells which tokens hold.
#[derive(Debug)]
pub struct Verifier {
    expected: Expected,
    trusted: ArcSwapOption<Trusted>,
    refusal: Mutex<Option<String>>,
    rejected: RejectedCounters,
    missed_keys: AtomicBool,
}

/// Keys, and the tokens that they have signed.
#[derive(Debug)]
struct Trusted {
    keys: Keys,
    cache: Cache,
}

impl Verifier {
    /// One that trusts nobody yet; what it rejects is shown by the registry.
    #[must_use]
    pub fn new(expected: Expected, registry: &mut Registry) -> Self {
        Self {
            expected,
            trusted: ArcSwapOption::empty(),
            refusal: Mutex::default(),
            rejected: RejectedCounters::register(registry),
            missed_keys: AtomicBool::new(false),
        }
    }

    /// Trusts these keys, and no others any more.
    pub fn trust(&self, keys: Keys) {
        self.trusted.store(Some(Arc::new(Trusted { keys, cache: Cache::new(TOKENS_LEN_MAX) })));
        *self.refusal.lock() = None;
    }

    /// Notes that keys were refused, and why; those it trusts stay.
    pub fn refuse_keys(&self, why: String) {
        *self.refusal.lock() = Some(why);
    }

    /// Why the latest keys were refused, if they were.
    #[must_use]
    pub fn refusal(&self) -> Option<String> {
        self.refusal.lock().clone()
    }

    /// What the token of a request says, if it has one and that holds at this time.
    #[must_use]
    pub fn claims(&self, headers: &HeaderMap, now: Timestamp) -> Option<Arc<Claims>> {
        match bearer(headers).and_then(|token| token.map(|token| self.verify(token, now)).transpose()) {
            Ok(claims) => claims,
            Err(reason) => {
                self.rejected.count(reason);
                if reason == Rejected::NoKeys && !self.missed_keys.swap(true, Ordering::Relaxed) {
                    tracing::warn!(
                        "a token cannot be judged, there are no keys: its claims count as absent; give them with --jwks FILE"
                    );
                }
                None
            }
        }
    }

    /// What a token says.
    ///
    /// # Errors
    /// Returns an error if it does not hold at this time, and why.
    pub fn verify(&self, token: &str, now: Timestamp) -> Result<Arc<Claims>, Rejected> {
        let trusted = self.trusted.load();
        let trusted = trusted.as_ref().ok_or(Rejected::NoKeys)?;
        let claims = trusted.cache.get_or(token, || {
            let token = Token::parse(token)?;
            trusted.keys.verify(&token)?;
            Ok(Claims::new(token.payload()?))
        })?;
        claims.check(&self.expected, now)?;
        Ok(claims)
    }
}

/// The token in `Authorization`, if that is where a token is. Who authorizes himself in two ways gets none.
fn bearer(headers: &HeaderMap) -> Result<Option<&str>, Rejected> {
    let mut lines = headers.get_all(AUTHORIZATION).iter().map(HeaderValue::as_bytes);
    let Some(first) = lines.next() else { return Ok(None) };
    if lines.any(|other| other != first) {
        return Err(Rejected::Malformed);
    }
    match first.split_at_checked(SCHEME.len()) {
        Some((scheme, token)) if scheme.eq_ignore_ascii_case(SCHEME) => {
            std::str::from_utf8(token.trim_ascii()).map(Some).map_err(|_| Rejected::Malformed)
        }
        _ => Ok(None),
    }
}

#[cfg(test)]
mod tests;
