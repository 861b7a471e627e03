//! What commands that listen share: their address, who they are, and how they are asked to stop.

use std::hash::{BuildHasher, RandomState};
use std::io::ErrorKind;
use std::net::{SocketAddr, ToSocketAddrs};

use anyhow::anyhow;
use tokio::net::TcpListener;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tollgate_core::call::NAME_LEN_MAX;

use crate::exit::Exit;

/// The signals that ask a process to stop.
pub(crate) struct Stopping(Signal, Signal);

impl Stopping {
    /// From here on these signals do not end the process.
    pub(crate) fn listen() -> anyhow::Result<Self> {
        Ok(Self(signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?))
    }

    /// Waits for the first signal; the second one ends everything at once.
    pub(crate) async fn asked(mut self) {
        self.next().await;
        tracing::info!("stopping once open requests are answered; Ctrl-C again stops at once");
        tokio::spawn(async move {
            self.next().await;
            std::process::exit(Exit::Failed as i32);
        });
    }

    async fn next(&mut self) {
        tokio::select! {
            _ = self.0.recv() => {}
            _ = self.1.recv() => {}
        }
    }
}

/// Binds a socket.
pub(crate) async fn listen(address: SocketAddr) -> anyhow::Result<TcpListener> {
    TcpListener::bind(address).await.map_err(|error| match error.kind() {
        ErrorKind::AddrInUse => {
            anyhow!("{address} is taken; stop who listens there, or take any free port with --http {}:0", address.ip())
        }
        ErrorKind::PermissionDenied => {
            anyhow!("{address} may not be used; take a port from 1024 on, such as --http {}:8080", address.ip())
        }
        ErrorKind::AddrNotAvailable => {
            anyhow!("{address} is no address of this machine; listen on 127.0.0.1 or 0.0.0.0")
        }
        _ => anyhow::Error::new(error).context(format!("cannot listen on {address}")),
    })
}

/// The name of an aggregator that was given none.
pub(crate) fn random_aggregator() -> String {
    format!("aggregator-{:08x}", RandomState::new().hash_one(std::process::id()) >> 32)
}

/// Reads HOST:PORT.
pub(crate) fn address(text: &str) -> Result<SocketAddr, String> {
    let found = text.to_socket_addrs().ok().and_then(|mut addresses| addresses.next());
    found.ok_or_else(|| "write HOST:PORT, such as 127.0.0.1:8080".to_owned())
}

/// Reads a name that fits in a header.
pub(crate) fn node(text: &str) -> Result<String, String> {
    let fits = (1..=NAME_LEN_MAX).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_graphic());
    fits.then(|| text.to_owned())
        .ok_or_else(|| format!("write 1 to {NAME_LEN_MAX} letters, digits or signs, without spaces"))
}
