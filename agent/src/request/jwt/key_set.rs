//! Verification keys: a JWKS file (RFC 7517), as identity providers publish it.
//!
//! A key is bound to one algorithm, by its `alg` or else by its type, and never verifies a token of another algorithm.
//! This prevents a public RSA key from being used as a shared secret. Keys of other types and uses are common in such
//! files and ignored; a broken key of a supported type invalidates the file.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::hmac;
use ring::rsa::PublicKeyComponents;
use ring::signature::{ECDSA_P256_SHA256_FIXED, UnparsedPublicKey};
use serde::Deserialize;

use super::key_material::{KeyMaterial, SignatureAlgorithm};
use super::token::Token;
use super::token_error::TokenError;

/// Maximum number of keys in a file.
pub const KEYS_LEN_MAX: usize = 100;
/// Minimum length of a shared secret in bytes: that of the digest (RFC 7518, 3.2).
const SECRET_LEN_MIN: usize = 32;
/// Permitted lengths of an RSA modulus in bytes.
const RSA_LEN: std::ops::RangeInclusive<usize> = 256..=1_024;
const COORDINATE_LEN: usize = 32;
/// Prefix of the coordinates of an uncompressed point (SEC 1, 2.3.3).
const UNCOMPRESSED: u8 = 4;

/// Verification keys, at least one.
#[derive(Debug)]
pub struct KeySet(Vec<VerificationKey>);

#[derive(Debug)]
struct VerificationKey {
    id: Option<String>,
    material: KeyMaterial,
}

#[derive(Deserialize)]
#[serde(expecting = "an object with `keys`")]
struct JwksFile {
    keys: Vec<Jwk>,
}

#[derive(Deserialize)]
#[serde(expecting = "a key, which is an object with `kty`")]
struct Jwk {
    kty: String,
    kid: Option<String>,
    alg: Option<String>,
    #[serde(rename = "use")]
    usage: Option<String>,
    key_ops: Option<Vec<String>>,
    crv: Option<String>,
    k: Option<String>,
    n: Option<String>,
    e: Option<String>,
    x: Option<String>,
    y: Option<String>,
}

impl KeySet {
    /// Parses a JWKS file.
    ///
    /// # Errors
    /// Returns an error if the file is not valid or contains no usable key; it contains the key, the cause and the
    /// remedy.
    pub fn parse(text: &[u8]) -> Result<Self, String> {
        let file: JwksFile = serde_json::from_slice(text).map_err(|error| {
            format!(r#"{error}; write {{"keys": [...]}}, as your identity provider publishes it (RFC 7517)"#)
        })?;
        if file.keys.len() > KEYS_LEN_MAX {
            return Err(format!("{} keys; reduce them to at most {KEYS_LEN_MAX}", file.keys.len()));
        }
        let mut keys = Vec::new();
        for (place, jwk) in file.keys.into_iter().enumerate() {
            let material = jwk.material().map_err(|why| {
                let named = jwk.kid.as_ref().map(|id| format!(" (kid `{id}`)")).unwrap_or_default();
                format!("key {}{named}: {why}", place + 1)
            })?;
            keys.extend(material.map(|material| VerificationKey { id: jwk.kid, material }));
        }
        if keys.is_empty() {
            return Err("no key for HS256, RS256 or ES256 signatures; add the key that signs your tokens".to_owned());
        }
        Ok(Self(keys))
    }

    /// Returns the number of keys.
    #[must_use]
    #[expect(clippy::len_without_is_empty, reason = "a key set is never empty")]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Verifies the signature of a token with the keys that match its key id and algorithm.
    pub(super) fn verify(&self, token: &Token<'_>) -> Result<(), TokenError> {
        // A key without an id matches every token.
        let is_named = |key: &&VerificationKey| key.id.is_none() || token.key_id.is_none() || key.id == token.key_id;
        let mut named = self.0.iter().filter(is_named).peekable();
        named.peek().ok_or(TokenError::UnknownKey)?;
        let has_algorithm = |key: &&VerificationKey| SignatureAlgorithm::from(&key.material) == token.algorithm;
        let mut fitting = named.filter(has_algorithm).peekable();
        fitting.peek().ok_or(TokenError::Algorithm)?;
        let signed = token.signed.as_bytes();
        if fitting.any(|key| key.material.verifies(signed, &token.signature)) {
            Ok(())
        } else {
            Err(TokenError::Signature)
        }
    }
}

impl Jwk {
    /// Returns the key material, or `None` if the key is not for supported signatures.
    fn material(&self) -> Result<Option<KeyMaterial>, String> {
        let for_verification = self.usage.as_deref().is_none_or(|usage| usage == "sig")
            && self.key_ops.as_ref().is_none_or(|ops| ops.iter().any(|op| op == "verify"));
        let algorithm = match (&*self.kty, self.crv.as_deref()) {
            ("oct", _) if for_verification => SignatureAlgorithm::Hs256,
            ("RSA", _) if for_verification => SignatureAlgorithm::Rs256,
            ("EC", Some("P-256")) if for_verification => SignatureAlgorithm::Es256,
            _ => return Ok(None),
        };
        match self.alg.as_ref().map(|alg| (alg, alg.parse::<SignatureAlgorithm>())) {
            Some((_, Err(_))) => return Ok(None),
            Some((alg, Ok(declared))) if declared != algorithm => {
                let kty = &self.kty;
                return Err(format!("`alg` is {alg}, which does not match keys of type {kty}; remove one of the two"));
            }
            _ => {}
        }
        Ok(Some(match algorithm {
            SignatureAlgorithm::Hs256 => KeyMaterial::Hs256(hmac::Key::new(hmac::HMAC_SHA256, &self.secret()?)),
            SignatureAlgorithm::Rs256 => {
                KeyMaterial::Rs256(PublicKeyComponents { n: self.modulus()?, e: number("e", self.e.as_ref())? })
            }
            SignatureAlgorithm::Es256 => {
                let (x, y) = (coordinate("x", self.x.as_ref())?, coordinate("y", self.y.as_ref())?);
                KeyMaterial::Es256(UnparsedPublicKey::new(
                    &ECDSA_P256_SHA256_FIXED,
                    [&[UNCOMPRESSED][..], &x, &y].concat(),
                ))
            }
        }))
    }

    fn secret(&self) -> Result<Vec<u8>, String> {
        let secret = bytes("k", self.k.as_ref())?;
        let len = secret.len();
        if len < SECRET_LEN_MIN {
            return Err(format!(
                "a secret of {len} bytes can be guessed; HS256 needs {SECRET_LEN_MIN} random bytes in `k`"
            ));
        }
        Ok(secret)
    }

    fn modulus(&self) -> Result<Vec<u8>, String> {
        let modulus = number("n", self.n.as_ref())?;
        if !RSA_LEN.contains(&modulus.len()) {
            let bits = 8 * modulus.len();
            return Err(format!("an RSA key of {bits} bits is insecure or too slow; use one of 2048 to 8192"));
        }
        Ok(modulus)
    }
}

fn coordinate(name: &str, text: Option<&String>) -> Result<Vec<u8>, String> {
    let coordinate = bytes(name, text)?;
    let len = coordinate.len();
    if len == COORDINATE_LEN { Ok(coordinate) } else { Err(format!("`{name}` has {len} bytes, not {COORDINATE_LEN}")) }
}

/// Decodes a number without leading zero bytes.
fn number(name: &str, text: Option<&String>) -> Result<Vec<u8>, String> {
    Ok(bytes(name, text)?.into_iter().skip_while(|byte| *byte == 0).collect())
}

fn bytes(name: &str, text: Option<&String>) -> Result<Vec<u8>, String> {
    let text = text.ok_or_else(|| format!("`{name}` is missing; copy the complete key"))?;
    let decoded = URL_SAFE_NO_PAD.decode(text.trim_end_matches('='));
    // The decoder's error would reveal a byte of a possible secret.
    decoded.map_err(|_| format!("`{name}` is not base64url; copy the key as published"))
}
