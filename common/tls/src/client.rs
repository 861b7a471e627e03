//! TLS of a client that knows a server by the issuers of its certificate, and may have a certificate of its own.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use tokio::io::{AsyncRead, AsyncWrite};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_rustls::rustls::client::ResolvesClientCert;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::ServerName;
use tokio_rustls::rustls::sign::{CertifiedKey, SingleCertAndKey};
use tokio_rustls::rustls::{ClientConfig, RootCertStore, SignatureScheme};

use crate::pem::{TlsError, TlsInput, certified, chain, refuse, roots};

/// Texts in PEM of a client.
#[derive(Clone, Copy)]
pub struct TlsClientPem<'a> {
    /// Issuers of servers; none for those that the system trusts.
    pub ca: Option<&'a str>,
    /// Certificate of the client, then those of its issuers, and its private key; for servers that ask for one.
    pub own: Option<(&'a str, &'a str)>,
}

/// TLS of a client.
#[derive(Clone)]
pub struct TlsClient {
    connector: TlsConnector,
    none: Arc<NoOwnCertificate>,
}

/// Certificate of a client that has none. It notes that a server asked for one: the server's refusal comes after the handshake, and may
/// be lost with the connection.
#[derive(Debug, Default)]
struct NoOwnCertificate {
    is_asked_for: AtomicBool,
}

impl ResolvesClientCert for NoOwnCertificate {
    fn resolve(&self, _: &[&[u8]], _: &[SignatureScheme]) -> Option<Arc<CertifiedKey>> {
        self.is_asked_for.store(true, Ordering::Relaxed);
        None
    }

    fn has_certs(&self) -> bool {
        false
    }
}

impl TlsClient {
    /// Reads the texts.
    ///
    /// # Errors
    /// The first text that cannot be used.
    pub fn new(pem: TlsClientPem<'_>) -> Result<Self, TlsError> {
        let roots = pem.ca.map_or_else(system_roots, |text| roots(text, TlsInput::ServerCa))?;
        let provider = Arc::new(ring::default_provider());
        let builder = ClientConfig::builder_with_provider(provider.clone());
        let builder = builder.with_safe_default_protocol_versions();
        let builder = builder.map_err(|error| refuse(TlsInput::Certificate, error))?;
        let none = Arc::<NoOwnCertificate>::default();
        let own: Arc<dyn ResolvesClientCert> = match pem.own {
            Some((certificate, key)) => {
                let chain = chain(certificate, TlsInput::Certificate)?;
                Arc::new(SingleCertAndKey::from(certified(chain, key, &provider)?))
            }
            None => none.clone(),
        };
        let config = builder.with_root_certificates(roots).with_client_cert_resolver(own);
        Ok(Self { connector: Arc::new(config).into(), none })
    }

    /// Returns true if a server has asked for a certificate, and this client has none.
    #[must_use]
    pub fn lacks_certificate(&self) -> bool {
        self.none.is_asked_for.load(Ordering::Relaxed)
    }

    /// Makes the handshake with a server of this name or IP address.
    ///
    /// # Errors
    /// If the server's certificate is not of the issuers or not for this name, or the connection fails:
    /// [`HandshakeFault::of`](crate::HandshakeFault::of) the error says which.
    pub async fn connect<S: AsyncRead + AsyncWrite + Unpin>(&self, host: &str, stream: S) -> io::Result<TlsStream<S>> {
        let host = host.trim_start_matches('[').trim_end_matches(']').to_owned();
        let name = ServerName::try_from(host).map_err(io::Error::other)?;
        self.connector.connect(name, stream).await
    }
}

/// Issuers that the system trusts, read once.
fn system_roots() -> Result<Arc<RootCertStore>, TlsError> {
    static ROOTS: OnceLock<Arc<RootCertStore>> = OnceLock::new();
    let roots = ROOTS.get_or_init(|| {
        let mut roots = RootCertStore::empty();
        roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        Arc::new(roots)
    });
    if roots.is_empty() {
        return Err(refuse(
            TlsInput::ServerCa,
            "this machine trusts no issuer; install its package ca-certificates, or name a file with the issuers of the server's certificate",
        ));
    }
    Ok(roots.clone())
}
