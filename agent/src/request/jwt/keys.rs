//! The keys that tokens are judged by: a JWKS file (RFC 7517), as an identity provider publishes it.
//!
//! A key knows the one algorithm it is for, by its own `alg` or else by its type; a token of another algorithm never meets
//! it. That is what keeps a public RSA key from being used as a shared secret. Keys of other types and uses are common in
//! such files and passed over; one that is of a known type and broken makes the file broken.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::hmac;
use ring::rsa::PublicKeyComponents;
use ring::signature::{ECDSA_P256_SHA256_FIXED, RSA_PKCS1_2048_8192_SHA256, UnparsedPublicKey};
use serde::Deserialize;

use super::Rejected;
use super::token::{Algorithm, Token};

/// The most keys in a file.
pub const KEYS_LEN_MAX: usize = 100;
/// How many bytes a shared secret has at least: as many as what it makes (RFC 7518, 3.2).
const SECRET_LEN_MIN: usize = 32;
/// How many bytes the modulus of an RSA key has.
const RSA_LEN: std::ops::RangeInclusive<usize> = 256..=1_024;
const COORDINATE_LEN: usize = 32;
/// What precedes the coordinates of an uncompressed point (SEC 1, 2.3.3).
const UNCOMPRESSED: u8 = 4;

/// Keys to evaluate tokens by; at least one.
#[derive(Debug)]
pub struct Keys(Vec<Key>);

#[derive(Debug)]
struct Key {
    id: Option<String>,
    material: Material,
}

#[derive(Debug)]
enum Material {
    Secret(hmac::Key),
    Rsa(PublicKeyComponents<Vec<u8>>),
    P256(UnparsedPublicKey<Vec<u8>>),
}

#[derive(Deserialize)]
struct File {
    keys: Vec<Jwk>,
}

#[derive(Deserialize)]
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

impl Keys {
    /// Reads what is in a JWKS file.
    ///
    /// # Errors
    /// Returns an error if it is none, or holds no key that can be used; which key, why, and what to do.
    pub fn parse(text: &[u8]) -> Result<Self, String> {
        let file: File = serde_json::from_slice(text).map_err(|error| {
            format!(r#"{error}; write {{"keys": [...]}}, as your identity provider publishes it (RFC 7517)"#)
        })?;
        if file.keys.len() > KEYS_LEN_MAX {
            return Err(format!("{} keys; leave at most {KEYS_LEN_MAX}", file.keys.len()));
        }
        let mut keys = Vec::new();
        for (place, jwk) in file.keys.into_iter().enumerate() {
            let id = jwk.kid.clone();
            match jwk.material() {
                Ok(Some(material)) => keys.push(Key { id, material }),
                Ok(None) => {}
                Err(why) => {
                    let named = id.map(|id| format!(" (kid `{id}`)")).unwrap_or_default();
                    return Err(format!("key {}{named}: {why}", place + 1));
                }
            }
        }
        if keys.is_empty() {
            return Err(
                "no key for HS256, RS256 or ES256 signatures; add the one that your tokens are signed by".to_owned()
            );
        }
        Ok(Self(keys))
    }

    /// How many there are.
    #[must_use]
    #[expect(clippy::len_without_is_empty, reason = "there is at least one")]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether one of them made the token's signature.
    pub(super) fn verify(&self, token: &Token<'_>) -> Result<(), Rejected> {
        // A key without a name contradicts no name; its signature must hold all the same.
        let is_named = |key: &&Key| key.id.is_none() || token.key_id.is_none() || key.id == token.key_id;
        let mut named = self.0.iter().filter(is_named).peekable();
        named.peek().ok_or(Rejected::UnknownKey)?;
        let mut fitting = named.filter(|key| key.material.algorithm() == token.algorithm).peekable();
        fitting.peek().ok_or(Rejected::Algorithm)?;
        if fitting.any(|key| key.material.made(token)) { Ok(()) } else { Err(Rejected::Signature) }
    }
}

impl Material {
    const fn algorithm(&self) -> Algorithm {
        match self {
            Self::Secret(_) => Algorithm::Hs256,
            Self::Rsa(_) => Algorithm::Rs256,
            Self::P256(_) => Algorithm::Es256,
        }
    }

    fn made(&self, token: &Token<'_>) -> bool {
        let (signed, signature) = (token.signed.as_bytes(), &token.signature);
        match self {
            Self::Secret(key) => hmac::verify(key, signed, signature).is_ok(),
            Self::Rsa(key) => key.verify(&RSA_PKCS1_2048_8192_SHA256, signed, signature).is_ok(),
            Self::P256(key) => key.verify(signed, signature).is_ok(),
        }
    }
}

impl Jwk {
    /// The key itself; none when it is not one for signatures that we know.
    fn material(&self) -> Result<Option<Material>, String> {
        let verifies = self.usage.as_deref().is_none_or(|usage| usage == "sig")
            && self.key_ops.as_ref().is_none_or(|ops| ops.iter().any(|op| op == "verify"));
        let own = match (&*self.kty, self.crv.as_deref()) {
            ("oct", _) => Algorithm::Hs256,
            ("RSA", _) => Algorithm::Rs256,
            ("EC", Some("P-256")) => Algorithm::Es256,
            _ => return Ok(None),
        };
        if !verifies {
            return Ok(None);
        }
        match self.alg.as_deref().map(Algorithm::named) {
            Some(None) => return Ok(None),
            Some(Some(said)) if said != own => {
                let (alg, kty) = (self.alg.as_deref().unwrap_or_default(), &self.kty);
                return Err(format!("`alg` is {alg}, which no key of type {kty} is for; take one of the two away"));
            }
            _ => {}
        }
        Ok(Some(match own {
            Algorithm::Hs256 => Material::Secret(hmac::Key::new(hmac::HMAC_SHA256, &self.secret()?)),
            Algorithm::Rs256 => {
                Material::Rsa(PublicKeyComponents { n: self.modulus()?, e: number("e", self.e.as_ref())? })
            }
            Algorithm::Es256 => {
                let (x, y) = (coordinate("x", self.x.as_ref())?, coordinate("y", self.y.as_ref())?);
                Material::P256(UnparsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, [vec![UNCOMPRESSED], x, y].concat()))
            }
        }))
    }

    fn secret(&self) -> Result<Vec<u8>, String> {
        let secret = bytes("k", self.k.as_ref())?;
        let len = secret.len();
        if len < SECRET_LEN_MIN {
            return Err(format!(
                "a secret of {len} bytes can be guessed; HS256 wants {SECRET_LEN_MIN} random bytes in `k`"
            ));
        }
        Ok(secret)
    }

    fn modulus(&self) -> Result<Vec<u8>, String> {
        let modulus = number("n", self.n.as_ref())?;
        if !RSA_LEN.contains(&modulus.len()) {
            let bits = 8 * modulus.len();
            return Err(format!("an RSA key of {bits} bits is not safe or too slow; use one of 2048 to 8192"));
        }
        Ok(modulus)
    }
}

fn coordinate(name: &str, text: Option<&String>) -> Result<Vec<u8>, String> {
    let coordinate = bytes(name, text)?;
    let len = coordinate.len();
    if len == COORDINATE_LEN { Ok(coordinate) } else { Err(format!("`{name}` has {len} bytes, not {COORDINATE_LEN}")) }
}

/// A number as its bytes; those in front that say nothing are left out.
fn number(name: &str, text: Option<&String>) -> Result<Vec<u8>, String> {
    Ok(bytes(name, text)?.into_iter().skip_while(|byte| *byte == 0).collect())
}

fn bytes(name: &str, text: Option<&String>) -> Result<Vec<u8>, String> {
    let text = text.ok_or_else(|| format!("`{name}` is missing; copy the key whole"))?;
    let decoded = URL_SAFE_NO_PAD.decode(text.trim_end_matches('='));
    // The error would tell a byte of what may be a secret.
    decoded.map_err(|_| format!("`{name}` is no base64url; copy the key as it was published"))
}
