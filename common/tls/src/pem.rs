//! Texts in PEM: certificates, issuers, and private keys.

use std::fmt;
use std::sync::Arc;

use tokio_rustls::rustls::crypto::CryptoProvider;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::sign::CertifiedKey;
use tokio_rustls::rustls::{Error, RootCertStore};

/// One of the texts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TlsInput {
    /// Certificate of the own side, and those of its issuers.
    Certificate,
    /// Private key of that certificate.
    Key,
    /// Issuers of clients, of a server.
    ClientCa,
    /// Issuers of servers, of a client.
    ServerCa,
}

/// Text that cannot be used, with reason and remedy.
#[derive(Debug, thiserror::Error)]
#[error("{why}")]
pub struct TlsError {
    /// Text with the fault.
    pub part: TlsInput,
    why: String,
}

/// Returns the error for an input.
pub fn refuse(part: TlsInput, why: impl fmt::Display) -> TlsError {
    TlsError { part, why: why.to_string() }
}

/// Returns the certificates of a text, at least one.
///
/// # Errors
/// If there is none, or the text is no PEM.
pub fn chain(text: &str, part: TlsInput) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(text.as_bytes()).collect();
    let chain = chain.map_err(|error| refuse(part, format_args!("this is no PEM: {error}; check the file")))?;
    if chain.is_empty() {
        let why = "it has no certificate in PEM; it must have a part `-----BEGIN CERTIFICATE-----`";
        return Err(refuse(part, why));
    }
    Ok(chain)
}

/// Returns the certificates of a text as issuers.
///
/// # Errors
/// If there is none, or one cannot be read.
pub fn roots(text: &str, part: TlsInput) -> Result<Arc<RootCertStore>, TlsError> {
    let mut roots = RootCertStore::empty();
    for certificate in chain(text, part)? {
        let why = |error| refuse(part, format_args!("a certificate cannot be read ({error}); write it again"));
        roots.add(certificate).map_err(why)?;
    }
    Ok(Arc::new(roots))
}

/// Returns the certificates with their key.
///
/// # Errors
/// If the key cannot be read, or is that of another certificate.
pub fn certified(
    chain: Vec<CertificateDer<'static>>,
    key: &str,
    provider: &CryptoProvider,
) -> Result<CertifiedKey, TlsError> {
    let none = "it has no private key in PEM that is not encrypted; write one, such as with `openssl pkey -in FILE`";
    let key = PrivateKeyDer::from_pem_slice(key.as_bytes()).map_err(|_| refuse(TlsInput::Key, none))?;
    let key = provider.key_provider.load_private_key(key).map_err(|_| {
        refuse(
            TlsInput::Key,
            "this kind of key cannot be used; take RSA of 2048 bits or more, ECDSA P-256 or P-384, or Ed25519",
        )
    })?;
    let certified = CertifiedKey::new(chain, key);
    match certified.keys_match() {
        Ok(()) => Ok(certified),
        Err(Error::InconsistentKeys(_)) => {
            Err(refuse(TlsInput::Key, "it is not the key of the certificate; write both files anew, from one request"))
        }
        Err(error) => {
            Err(refuse(TlsInput::Certificate, format_args!("the certificate cannot be read ({error}); write it again")))
        }
    }
}
