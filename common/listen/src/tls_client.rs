//! TLS of a client that knows a server by the issuers of its certificate.

use std::io;
use std::sync::Arc;

use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_rustls::rustls::ClientConfig;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::ServerName;

use crate::tls::{TlsError, TlsInput, protocol_error, roots};

/// TLS of a client without a certificate of its own.
#[derive(Clone)]
pub struct TlsClient(TlsConnector);

impl TlsClient {
    /// Takes the issuers of servers, in PEM.
    ///
    /// # Errors
    /// If the text cannot be used.
    pub fn new(ca: &str) -> Result<Self, TlsError> {
        let roots = roots(ca, TlsInput::ServerCa)?;
        let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()));
        let builder = builder.with_safe_default_protocol_versions().map_err(protocol_error)?;
        let config = builder.with_root_certificates(roots).with_no_client_auth();
        Ok(Self(Arc::new(config).into()))
    }

    /// Makes the handshake with a server of this name or IP address.
    ///
    /// # Errors
    /// If the server's certificate is not of the issuers or not for this name, or the connection fails.
    pub async fn connect(&self, host: &str, stream: TcpStream) -> io::Result<TlsStream<TcpStream>> {
        let host = host.trim_start_matches('[').trim_end_matches(']').to_owned();
        let name = ServerName::try_from(host).map_err(io::Error::other)?;
        self.0.connect(name, stream).await
    }
}
