//! Signed token split into its parts (RFC 7515, compact form), before any verification.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::Deserialize;
use serde::de::{DeserializeOwned, IgnoredAny};

use super::key_material::SignatureAlgorithm;
use super::token_error::TokenError;

/// Maximum length of a token in bytes.
pub const TOKEN_LEN_MAX: usize = 8 << 10;

#[derive(Debug)]
pub(super) struct Token<'a> {
    pub(super) algorithm: SignatureAlgorithm,
    /// Key id in the header (`kid`).
    pub(super) key_id: Option<String>,
    /// Signed text: header and payload as encoded.
    pub(super) signed: &'a str,
    /// Claims as encoded.
    pub(super) payload: &'a str,
    pub(super) signature: Vec<u8>,
}

#[derive(Deserialize)]
struct TokenHeader {
    alg: String,
    kid: Option<String>,
    crit: Option<IgnoredAny>,
}

impl<'a> Token<'a> {
    pub(super) fn parse(text: &'a str) -> Result<Self, TokenError> {
        let (signed, signature) = text.rsplit_once('.').ok_or(TokenError::Malformed)?;
        let (header, payload) = signed.split_once('.').ok_or(TokenError::Malformed)?;
        let header: TokenHeader = object(header)?;
        // A token with critical extensions must be rejected if they are not understood (RFC 7515, 4.1.11); none are
        // supported.
        if header.crit.is_some() {
            return Err(TokenError::Malformed);
        }
        let algorithm = header.alg.parse().map_err(|_| TokenError::Algorithm)?;
        Ok(Self { algorithm, key_id: header.kid, signed, payload, signature: decode(signature)? })
    }
}

/// Decodes an object: the header or the payload.
pub(super) fn object<T: DeserializeOwned>(part: &str) -> Result<T, TokenError> {
    serde_json::from_slice(&decode(part)?).map_err(|_| TokenError::Malformed)
}

fn decode(part: &str) -> Result<Vec<u8>, TokenError> {
    URL_SAFE_NO_PAD.decode(part).map_err(|_| TokenError::Malformed)
}
