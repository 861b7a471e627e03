//! A signed token in its parts (RFC 7515, compact form), before anything in it may be believed.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Map, Value};

use super::Rejected;

/// The longest token that is looked at, in bytes.
pub const TOKEN_LEN_MAX: usize = 8 << 10;

/// How a token may be signed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Algorithm {
    Hs256,
    Rs256,
    Es256,
}

/// The parts of a token.
#[derive(Debug)]
pub(super) struct Token<'a> {
    pub(super) algorithm: Algorithm,
    /// Which key it says it is signed by.
    pub(super) key_id: Option<String>,
    /// What the signature is over: header and payload as they were written.
    pub(super) signed: &'a str,
    payload: &'a str,
    pub(super) signature: Vec<u8>,
}

impl Algorithm {
    /// By the name that it has in tokens and keys.
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
    pub(super) fn parse(text: &'a str) -> Result<Self, Rejected> {
        if text.len() > TOKEN_LEN_MAX {
            return Err(Rejected::Malformed);
        }
        let (signed, signature) = text.rsplit_once('.').ok_or(Rejected::Malformed)?;
        let (header, payload) = signed.split_once('.').ok_or(Rejected::Malformed)?;
        let header = object(header)?;
        let word = |name| match header.get(name) {
            Some(Value::String(word)) => Ok(Some(word)),
            None => Ok(None),
            Some(_) => Err(Rejected::Malformed),
        };
        // Whoever does not understand what is critical must not go on (RFC 7515, 4.1.11); we understand nothing of the kind.
        if header.contains_key("crit") {
            return Err(Rejected::Malformed);
        }
        let algorithm = word("alg")?.ok_or(Rejected::Malformed)?;
        Ok(Self {
            algorithm: Algorithm::named(algorithm).ok_or(Rejected::Algorithm)?,
            key_id: word("kid")?.cloned(),
            signed,
            payload,
            signature: decode(signature)?,
        })
    }

    /// What it claims.
    pub(super) fn payload(&self) -> Result<Map<String, Value>, Rejected> {
        object(self.payload)
    }
}

fn object(part: &str) -> Result<Map<String, Value>, Rejected> {
    serde_json::from_slice(&decode(part)?).map_err(|_| Rejected::Malformed)
}

fn decode(part: &str) -> Result<Vec<u8>, Rejected> {
    URL_SAFE_NO_PAD.decode(part).map_err(|_| Rejected::Malformed)
}
