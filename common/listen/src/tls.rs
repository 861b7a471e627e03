//! TLS of TCP sockets: certificate, key and certificates of clients, which can be replaced while a socket listens.
//!
//! A replacement is a whole new configuration with a cache of sessions of its own, so no client resumes a session that the new
//! certificates of clients would refuse. Connections that are open stay. Failed handshakes are reported together, because anybody
//! can cause them.

use std::fmt;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard};
use std::time::Duration;

use tokio::net::TcpStream;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::server::WebPkiClientVerifier;
use tokio_rustls::rustls::sign::SingleCertAndKey;
use tokio_rustls::{Accept, TlsAcceptor};
use tollgate_tls::pem::{TlsError, TlsInput, certified, chain, refuse, roots};

use crate::validity::{self, CertificateWarning};

/// Protocols over TLS, by preference.
const PROTOCOLS: [&[u8]; 2] = [b"h2", b"http/1.1"];
/// Minimum time between two reports of failed handshakes.
const REPORT_PAUSE: Duration = Duration::from_mins(1);

/// Texts in PEM of a server.
#[derive(Clone, Copy)]
pub struct TlsPem<'a> {
    /// Certificate of the server, then those of its issuers up to the root.
    pub certificate: &'a str,
    /// Private key of the certificate.
    pub key: &'a str,
    /// Issuers of client certificates; with them, a client must have a certificate.
    pub client_ca: Option<&'a str>,
}

/// Checked certificates of a server.
pub struct Certificates {
    config: Arc<ServerConfig>,
    /// End of the certificate that ends first, in Unix seconds; none if it cannot be read.
    ends_s: Option<u64>,
    /// Reason why clients refuse the certificate, if it is not valid yet.
    pub warning: Option<String>,
}

/// TLS of the sockets of a process; clones have the same certificates.
#[derive(Clone)]
pub struct Tls(Arc<SharedTls>);

struct SharedTls {
    /// File of the certificate.
    file: String,
    certificates: RwLock<Certificates>,
    /// Failed handshakes since the last report.
    failures: AtomicU64,
    is_quiet: AtomicBool,
}

impl Certificates {
    /// Reads the texts.
    ///
    /// # Errors
    /// The first text that cannot be used.
    pub fn parse(pem: TlsPem<'_>) -> Result<Self, TlsError> {
        let provider = Arc::new(ring::default_provider());
        let chain = chain(pem.certificate, TlsInput::Certificate)?;
        let certified = certified(chain, pem.key, &provider)?;
        let own = certified.cert.clone();
        let builder = ServerConfig::builder_with_provider(provider.clone());
        let builder = builder.with_safe_default_protocol_versions();
        let builder = builder.map_err(|error| refuse(TlsInput::Certificate, error))?;
        let builder = match pem.client_ca {
            Some(text) => {
                let roots = roots(text, TlsInput::ClientCa)?;
                let verifier = WebPkiClientVerifier::builder_with_provider(roots, provider).build();
                builder.with_client_cert_verifier(verifier.map_err(|error| refuse(TlsInput::ClientCa, error))?)
            }
            None => builder.with_no_client_auth(),
        };
        let mut config = builder.with_cert_resolver(Arc::new(SingleCertAndKey::from(certified)));
        config.alpn_protocols = PROTOCOLS.map(<[u8]>::to_vec).to_vec();
        let warning = config.time_provider.current_time().and_then(|now| validity::not_yet_valid(&own[0], now));
        Ok(Self { config: Arc::new(config), ends_s: validity::ends_s(&own), warning })
    }
}

impl Tls {
    /// Takes the first certificates, and the name of their file.
    #[must_use]
    pub fn new(file: &str, certificates: Certificates) -> Self {
        let (failures, is_quiet) = (AtomicU64::new(0), AtomicBool::new(false));
        let certificates = RwLock::new(certificates);
        Self(Arc::new(SharedTls { file: file.to_owned(), certificates, failures, is_quiet }))
    }

    /// Uses other certificates for new connections.
    pub fn replace(&self, certificates: Certificates) {
        *self.0.certificates.write().unwrap_or_else(PoisonError::into_inner) = certificates;
    }

    /// Returns the end of the certificate in use, in Unix seconds; none if it cannot be read.
    #[must_use]
    pub fn ends_s(&self) -> Option<u64> {
        self.certificates().ends_s
    }

    /// Returns the warning about the certificate in use, if it ends soon or has ended.
    #[must_use]
    pub fn warning(&self) -> Option<CertificateWarning> {
        let certificates = self.certificates();
        let now = certificates.config.time_provider.current_time()?;
        validity::warning(&self.0.file, certificates.ends_s?, now.as_secs())
    }

    pub(crate) fn accept(&self, stream: TcpStream) -> Accept<TcpStream> {
        let config = self.certificates().config.clone();
        TlsAcceptor::from(config).accept(stream)
    }

    fn certificates(&self) -> RwLockReadGuard<'_, Certificates> {
        self.0.certificates.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts a failed handshake, and reports all failed ones at most once per [`REPORT_PAUSE`].
    pub(crate) fn failed(&self, peer: SocketAddr, error: &std::io::Error) {
        tracing::debug!(%peer, %error, "a TLS handshake failed");
        // Health checks and scanners connect and leave.
        if error.kind() == std::io::ErrorKind::UnexpectedEof {
            return;
        }
        self.0.failures.fetch_add(1, Ordering::Relaxed);
        if self.0.is_quiet.swap(true, Ordering::Relaxed) {
            return;
        }
        self.report(peer, &error.to_string());
        let (tls, error) = (self.clone(), error.to_string());
        tokio::spawn(async move {
            tokio::time::sleep(REPORT_PAUSE).await;
            tls.0.is_quiet.store(false, Ordering::Relaxed);
            tls.report(peer, &error);
        });
    }

    /// Reports the failed handshakes since the last report, if there are any.
    fn report(&self, peer: SocketAddr, error: &str) {
        let failures = self.0.failures.swap(0, Ordering::Relaxed);
        if failures > 0 {
            tracing::warn!(
                failures,
                "TLS handshakes failed, such as one with {}: {error}; check the client's protocol, its CA and its certificate; further ones are reported together after {} s",
                peer.ip(),
                REPORT_PAUSE.as_secs()
            );
        }
    }
}

/// Shows no key.
impl fmt::Debug for Tls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Tls")
    }
}
