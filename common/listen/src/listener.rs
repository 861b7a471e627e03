//! Listener: binds an address and accepts connections within the caps.

use std::fs;
use std::io;
use std::os::unix::fs::{FileTypeExt as _, PermissionsExt as _};
use std::os::unix::net::UnixStream as StdUnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio::net::{TcpListener, UnixListener};
use tokio::time::sleep;

use crate::address::Address;
use crate::connection::Connection;
use crate::group::ListenGroup;
use crate::listen_settings::ListenSettings;
use crate::peer::Peer;
use crate::stream::Stream;

/// Pause after an error that concerns no single connection, such as too many open files.
const ERROR_PAUSE: Duration = Duration::from_secs(1);
/// Mode of a Unix socket: its user and group may connect.
const UNIX_MODE: u32 = 0o660;

/// Socket that accepts connections.
pub struct Listener {
    socket: BoundSocket,
    group: ListenGroup,
    is_failing: bool,
}

enum BoundSocket {
    Tcp(TcpListener),
    /// The file is removed before the listener is closed. Otherwise another process could take the path over in between, and lose its
    /// own file.
    Unix(SocketFile, UnixListener),
}

/// File of a Unix socket, removed at the end.
struct SocketFile(PathBuf);

impl Listener {
    /// Binds an address. The file of a Unix socket that nobody listens on any more is replaced.
    ///
    /// # Errors
    /// Returns an error if the address cannot be bound.
    pub async fn bind(address: &Address, group: &ListenGroup) -> io::Result<Self> {
        let socket = match address {
            Address::Tcp(address) => BoundSocket::Tcp(TcpListener::bind(address).await?),
            Address::Unix(path) => {
                remove_stale(path)?;
                let listener = UnixListener::bind(path)?;
                let file = SocketFile(path.clone());
                fs::set_permissions(path, fs::Permissions::from_mode(UNIX_MODE))?;
                BoundSocket::Unix(file, listener)
            }
        };
        Ok(Self { socket, group: group.clone(), is_failing: false })
    }

    /// Returns the address, with the port that was chosen.
    ///
    /// # Errors
    /// Returns an error if the socket has none.
    pub fn address(&self) -> io::Result<Address> {
        match &self.socket {
            BoundSocket::Tcp(listener) => listener.local_addr().map(Address::Tcp),
            BoundSocket::Unix(SocketFile(path), _) => Ok(Address::Unix(path.clone())),
        }
    }

    /// Returns the scheme of URLs of a TCP address.
    #[must_use]
    pub fn scheme(&self) -> &'static str {
        if self.group.tls.is_some() { "https" } else { "http" }
    }

    /// Returns the next connection within the caps, and its other end.
    pub(crate) async fn accept(&mut self) -> (Connection, Peer) {
        loop {
            match self.accept_any().await {
                Ok((stream, peer)) => {
                    self.is_failing = false;
                    if let Some(entry) = self.group.connections.enter() {
                        return (Connection::new(stream, entry, &self.group.settings), peer);
                    }
                }
                Err(error) if is_of_connection(&error) => {}
                Err(error) => {
                    if !self.is_failing {
                        tracing::error!(%error, "no connection can be accepted; remedy: raise the limit of open files (ulimit -n, LimitNOFILE=), or lower --connections-max");
                    }
                    self.is_failing = true;
                    sleep(ERROR_PAUSE).await;
                }
            }
        }
    }

    pub(crate) fn settings(&self) -> &ListenSettings {
        &self.group.settings
    }

    async fn accept_any(&self) -> io::Result<(Stream, Peer)> {
        match &self.socket {
            BoundSocket::Tcp(listener) => {
                let (stream, peer) = listener.accept().await?;
                // Responses are single small packets, which Nagle's algorithm would only delay.
                if let Err(error) = stream.set_nodelay(true) {
                    tracing::debug!(%error, "TCP_NODELAY cannot be set; responses on this connection may be delayed by 40 ms");
                }
                let stream = match &self.group.tls {
                    Some(tls) => Stream::handshake(stream, peer, tls),
                    None => Stream::Tcp(stream),
                };
                Ok((stream, Peer::Tcp(peer)))
            }
            BoundSocket::Unix(_, listener) => Ok((Stream::Unix(listener.accept().await?.0), Peer::Unix)),
        }
    }
}

/// With the default caps, without TLS.
impl From<TcpListener> for Listener {
    fn from(listener: TcpListener) -> Self {
        let group = ListenGroup::new(ListenSettings::default(), None);
        Self { socket: BoundSocket::Tcp(listener), group, is_failing: false }
    }
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        // Another process may have replaced or removed it.
        let _ = fs::remove_file(&self.0);
    }
}

/// Removes the file of a socket that no process listens on.
fn remove_stale(path: &Path) -> io::Result<()> {
    let is_socket = fs::symlink_metadata(path).is_ok_and(|file| file.file_type().is_socket());
    if is_socket && StdUnixStream::connect(path).is_err_and(|error| error.kind() == io::ErrorKind::ConnectionRefused) {
        fs::remove_file(path)?;
    }
    Ok(())
}

/// Returns true for errors that end one connection before it is accepted.
fn is_of_connection(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset};
    matches!(error.kind(), ConnectionAborted | ConnectionRefused | ConnectionReset)
}
