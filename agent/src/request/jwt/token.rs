//! Signed token split into its parts (RFC 7515, compact form), before any verification.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Map, Value};

use super::TokenError;

/// Maximum length of a token in bytes.
pub const TOKEN_LEN_MAX: usize = 8 << 10;

/// Supported signature algorithm.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SignatureAlgorithm {
    Hs256,
    Rs256,
    Es256,
}

/// Parts of a token.
#[derive(Debug)]
pub(super) struct Token<'a> {
    pub(super) algorithm: SignatureAlgorithm,
    /// Key id in the header (`kid`).
    pub(super) key_id: Option<String>,
    /// Signed text: header and payload as encoded.
    pub(super) signed: &'a str,
    payload: &'a str,
    pub(super) signature: Vec<u8>,
}

impl SignatureAlgorithm {
    /// Returns the algorithm with this name in tokens and keys.
    pub(super) fn named(name: &str) -> Option<Self> {
        match name {
            "HS256" => Some(Self::Hs256),
            "RS256" => Some(Self::Rs256),
            "ES256" => Some(Self::Es256),
            _ => None,
        }
    }
}

impl<'a> Token<'a> {
    pub(super) fn parse(text: &'a str) -> Result<Self, TokenError> {
        if text.len() > TOKEN_LEN_MAX {
            return Err(TokenError::Malformed);
        }
        let (signed, signature) = text.rsplit_once('.').ok_or(TokenError::Malformed)?;
        let (header, payload) = signed.split_once('.').ok_or(TokenError::Malformed)?;
        let header = object(header)?;
        let word = |name| match header.get(name) {
            Some(Value::String(word)) => Ok(Some(word)),
            None => Ok(None),
            Some(_) => Err(TokenError::Malformed),
        };
        // A token with critical extensions must be rejected if they are not understood (RFC 7515, 4.1.11); none are
        // supported.
        if header.contains_key("crit") {
            return Err(TokenError::Malformed);
        }
        let algorithm = word("alg")?.ok_or(TokenError::Malformed)?;
        Ok(Self {
            algorithm: SignatureAlgorithm::named(algorithm).ok_or(TokenError::Algorithm)?,
            key_id: word("kid")?.cloned(),
            signed,
            payload,
            signature: decode(signature)?,
        })
    }

    /// Decodes the payload.
    pub(super) fn payload(&self) -> Result<Map<String, Value>, TokenError> {
        object(self.payload)
    }
}

fn object(part: &str) -> Result<Map<String, Value>, TokenError> {
    serde_json::from_slice(&decode(part)?).map_err(|_| TokenError::Malformed)
}

fn decode(part: &str) -> Result<Vec<u8>, TokenError> {
    URL_SAFE_NO_PAD.decode(part).map_err(|_| TokenError::Malformed)
}
