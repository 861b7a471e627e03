//! Streams to one server: TCP, TLS over it, or a Unix socket.

use std::net::SocketAddr;
use std::path::Path;
#[cfg(target_os = "linux")]
use std::time::Duration;

#[cfg(target_os = "linux")]
use redis::io::tcp::socket2::SockRef;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, UnixStream};

use crate::connect_error::ConnectError;

/// Maximum time for which sent bytes may stay undelivered before the connection counts as broken.
#[cfg(target_os = "linux")]
const UNDELIVERED_MAX: Duration = Duration::from_secs(10);

/// Stream to a server.
pub(super) trait ServerStream: AsyncRead + AsyncWrite + Unpin + Send {}

impl<S: AsyncRead + AsyncWrite + Unpin + Send> ServerStream for S {}

/// TLS of the connections, read from its files for each one.
#[cfg(feature = "tls")]
pub(super) type RedisTls = tollgate_tls::TlsClient;
/// TLS that is not built in.
#[cfg(not(feature = "tls"))]
pub(super) enum RedisTls {}

/// Connects by TCP.
pub(super) async fn tcp(address: SocketAddr) -> Result<TcpStream, ConnectError> {
    let stream = TcpStream::connect(address).await?;
    stream.set_nodelay(true)?;
    #[cfg(target_os = "linux")]
    SockRef::from(&stream).set_tcp_user_timeout(Some(UNDELIVERED_MAX))?;
    Ok(stream)
}

/// Connects to a Unix socket.
pub(super) async fn unix(path: &Path) -> Result<Box<dyn ServerStream>, ConnectError> {
    Ok(Box::new(UnixStream::connect(path).await?))
}

/// Makes the handshake with a server of this name.
#[cfg(feature = "tls")]
pub(super) async fn handshake(
    tls: &RedisTls,
    host: &str,
    stream: TcpStream,
) -> Result<Box<dyn ServerStream>, ConnectError> {
    use tollgate_tls::HandshakeFault;

    let error = match tls.connect(host, stream).await {
        Ok(stream) => return Ok(Box::new(stream)),
        Err(error) => error,
    };
    let code = match HandshakeFault::of(&error) {
        Some(HandshakeFault::UnknownIssuer) => "TLS-ISSUER",
        Some(HandshakeFault::Expired | HandshakeFault::NotValidYet) => "TLS-VALIDITY",
        Some(HandshakeFault::OtherName(_)) => "TLS-NAME",
        Some(HandshakeFault::ClientCertificate) => "TLS-CLIENT",
        Some(HandshakeFault::NoTls) => "TLS-NONE",
        // A server without TLS takes the first bytes for a command that it does not know.
        None if error.kind() == std::io::ErrorKind::UnexpectedEof => "TLS-NONE",
        Some(HandshakeFault::Other(_)) => "TLS",
        None => return Err(error.into()),
    };
    Err(ConnectError::refused(code, error.to_string()))
}

/// Returns true if a server has asked for a certificate that there is none of.
#[cfg(feature = "tls")]
pub(super) fn lacks_certificate(tls: &RedisTls) -> bool {
    tls.lacks_certificate()
}

#[cfg(not(feature = "tls"))]
pub(super) fn lacks_certificate(tls: &RedisTls) -> bool {
    match *tls {}
}

#[cfg(not(feature = "tls"))]
#[expect(clippy::unused_async, reason = "as with TLS")]
pub(super) async fn handshake(tls: &RedisTls, _: &str, _: TcpStream) -> Result<Box<dyn ServerStream>, ConnectError> {
    match *tls {}
}
