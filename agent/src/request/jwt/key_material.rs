//! Key material, and the signature algorithms that are supported.

use ring::hmac;
use ring::rsa::PublicKeyComponents;
use ring::signature::{RSA_PKCS1_2048_8192_SHA256, UnparsedPublicKey};
use strum::{EnumDiscriminants, EnumString};

/// Key material; the name of the variant is the one algorithm that it verifies.
#[derive(Debug, EnumDiscriminants)]
#[strum_discriminants(name(SignatureAlgorithm), vis(pub(super)))]
#[strum_discriminants(doc = "Supported signature algorithm.", derive(EnumString), strum(serialize_all = "UPPERCASE"))]
pub(super) enum KeyMaterial {
    Hs256(hmac::Key),
    Rs256(PublicKeyComponents<Vec<u8>>),
    Es256(UnparsedPublicKey<Vec<u8>>),
}

impl KeyMaterial {
    pub(super) fn verifies(&self, signed: &[u8], signature: &[u8]) -> bool {
        match self {
            Self::Hs256(key) => hmac::verify(key, signed, signature).is_ok(),
            Self::Rs256(key) => key.verify(&RSA_PKCS1_2048_8192_SHA256, signed, signature).is_ok(),
            Self::Es256(key) => key.verify(signed, signature).is_ok(),
        }
    }
}
