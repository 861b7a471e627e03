//! TCP proxy between the agents and Redis: it delays, loses answers, or passes nothing on, as a network does.
//!
//! It has a thread and a runtime of its own, so that its timers wait for no other work of this process.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::sleep;
use tollgate_core::clock::Stopwatch;

/// Bytes that are read at once.
const READ_LEN: usize = 16 << 10;
/// Chunks of one direction that are under way; past it, the sender waits.
const CHUNKS_LEN_MAX: usize = 4_096;

/// Behaviour of the network between agents and Redis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Network {
    /// Passes everything on; the time is added to a round trip, half of it in each direction.
    Delayed(Duration),
    /// Loses the answers. Requests arrive.
    LostAnswers,
    /// Loses everything. Connections are accepted and stay open.
    BlackHole,
}

/// Ends when it is dropped.
pub(super) struct Proxy {
    pub(super) address: SocketAddr,
    network: watch::Sender<Network>,
    _stop: oneshot::Sender<()>,
}

impl Proxy {
    /// Starts a proxy before a port of this machine.
    pub(super) fn start(port: u16) -> io::Result<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let listener = runtime.block_on(TcpListener::bind("127.0.0.1:0"))?;
        let address = listener.local_addr()?;
        let (network, changes) = watch::channel(Network::Delayed(Duration::ZERO));
        let (stop, stopped) = oneshot::channel::<()>();
        let serve = move || {
            runtime.block_on(async move {
                tokio::select! {
                    () = accept(listener, port, changes) => {}
                    _ = stopped => {}
                }
            });
        };
        std::thread::Builder::new().name("failure-proxy".into()).spawn(serve)?;
        Ok(Self { address, network, _stop: stop })
    }

    /// Cuts the connections that have lost bytes.
    pub(super) fn set(&self, network: Network) {
        self.network.send_replace(network);
    }
}

async fn accept(listener: TcpListener, port: u16, network: watch::Receiver<Network>) {
    while let Ok((client, _)) = listener.accept().await {
        tokio::spawn(connect(client, port, network.clone()));
    }
}

async fn connect(client: TcpStream, port: u16, network: watch::Receiver<Network>) {
    let Ok(server) = TcpStream::connect(("127.0.0.1", port)).await else { return };
    let _ = (client.set_nodelay(true), server.set_nodelay(true));
    let ((from_client, to_client), (from_server, to_server)) = (client.into_split(), server.into_split());
    // One direction that ends closes the whole connection.
    tokio::select! {
        () = pass(from_client, to_server, network.clone(), |network| network != Network::BlackHole) => {}
        () = pass(from_server, to_client, network, |network| matches!(network, Network::Delayed(_))) => {}
    }
}

/// Passes bytes on in one direction, until the connection ends or bytes were lost and others would follow them.
async fn pass(
    mut from: OwnedReadHalf,
    mut to: OwnedWriteHalf,
    mut network: watch::Receiver<Network>,
    passes: impl Fn(Network) -> bool,
) {
    let since = Stopwatch::start();
    let (sender, mut receiver) = mpsc::channel::<(Duration, Arc<[u8]>)>(CHUNKS_LEN_MAX);
    let read = async move {
        let (mut buffer, mut has_lost) = (vec![0; READ_LEN], false);
        loop {
            let len = tokio::select! {
                // A connection that lost bytes ends as soon as bytes pass again.
                changed = network.changed(), if has_lost => match changed {
                    Ok(()) if !passes(*network.borrow()) => continue,
                    _ => return,
                },
                len = from.read(&mut buffer) => len.unwrap_or(0),
            };
            if len == 0 {
                return;
            }
            let now = *network.borrow();
            if !passes(now) {
                has_lost = true;
                continue;
            }
            if has_lost {
                return;
            }
            let delay = if let Network::Delayed(round_trip) = now { round_trip / 2 } else { Duration::ZERO };
            if sender.send((since.elapsed() + delay, buffer[..len].into())).await.is_err() {
                return;
            }
        }
    };
    let write = async move {
        while let Some((due, bytes)) = receiver.recv().await {
            let wait = due.saturating_sub(since.elapsed());
            if !wait.is_zero() {
                sleep(wait).await;
            }
            if to.write_all(&bytes).await.is_err() {
                return;
            }
        }
    };
    tokio::select! {
        () = read => {}
        () = write => {}
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};

    use super::*;

    fn ask(stream: &mut std::net::TcpStream) -> io::Result<Duration> {
        let took = Stopwatch::start();
        stream.write_all(b"x")?;
        stream.read_exact(&mut [0])?;
        Ok(took.elapsed())
    }

    #[test]
    fn it_delays_then_loses_then_cuts_what_has_lost() {
        let echo = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let port = echo.local_addr().unwrap().port();
        std::thread::spawn(move || {
            for client in echo.incoming() {
                let mut client = client.unwrap();
                std::thread::spawn(move || io::copy(&mut client.try_clone().unwrap(), &mut client));
            }
        });
        let proxy = Proxy::start(port).unwrap();
        let connect = || {
            let stream = std::net::TcpStream::connect(proxy.address).unwrap();
            stream.set_read_timeout(Some(Duration::from_millis(300))).unwrap();
            stream
        };
        let mut stream = connect();
        ask(&mut stream).unwrap();
        proxy.set(Network::Delayed(Duration::from_millis(40)));
        assert!(ask(&mut stream).unwrap() >= Duration::from_millis(40));
        for lossy in [Network::BlackHole, Network::LostAnswers] {
            proxy.set(lossy);
            let mut fresh = connect();
            for stream in [&mut stream, &mut fresh] {
                let error = ask(stream).unwrap_err();
                assert!(
                    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut),
                    "{lossy:?}: {error}"
                );
            }
            proxy.set(Network::Delayed(Duration::ZERO));
            for lost in [&mut stream, &mut fresh] {
                assert!(
                    lost.read_exact(&mut [0]).is_err_and(|error| error.kind() != io::ErrorKind::WouldBlock),
                    "{lossy:?}"
                );
            }
            stream = connect();
            ask(&mut stream).unwrap();
        }
    }
}
