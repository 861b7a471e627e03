//! Bytes of one connection: over TCP, a Unix socket or TLS.
//!
//! A handshake of TLS is a part of the first read, so the server's timeouts and caps hold for it as for the first request. After a
//! failed handshake, what the client still sends is discarded: closing with unread bytes would reset the connection, and the client
//! would not read the alert.

use std::io::{self, IoSlice};
use std::net::SocketAddr;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpStream, UnixStream};
use tokio_rustls::server::{FallibleAccept, TlsStream};

use crate::tls::Tls;

/// Length of a buffer for bytes that nobody reads.
const DISCARD_LEN: usize = 1 << 10;

pub(crate) enum Stream {
    Tcp(TcpStream),
    Unix(UnixStream),
    Tls(Box<TlsStream<TcpStream>>),
    Handshake(Box<Handshake>),
    /// The handshake failed, and the alert is sent.
    Refused(TcpStream),
}

pub(crate) struct Handshake {
    accept: FallibleAccept<TcpStream>,
    peer: SocketAddr,
    tls: Tls,
}

impl Stream {
    /// Begins with the handshake of a client.
    pub(crate) fn handshake(stream: TcpStream, peer: SocketAddr, tls: &Tls) -> Self {
        let accept = tls.accept(stream).into_fallible();
        Self::Handshake(Box::new(Handshake { accept, peer, tls: tls.clone() }))
    }

    /// Returns the side that is written. A server reads first, so it writes nothing before the end of a handshake.
    fn writer(self: Pin<&mut Self>) -> io::Result<Pin<&mut (dyn AsyncWrite + Unpin)>> {
        match self.get_mut() {
            Self::Tcp(stream) => Ok(Pin::new(stream)),
            Self::Unix(stream) => Ok(Pin::new(stream)),
            Self::Tls(stream) => Ok(Pin::new(stream)),
            Self::Handshake(_) | Self::Refused(_) => Err(io::ErrorKind::NotConnected.into()),
        }
    }
}

impl AsyncRead for Stream {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        loop {
            match this {
                Self::Tcp(stream) => return Pin::new(stream).poll_read(cx, buffer),
                Self::Unix(stream) => return Pin::new(stream).poll_read(cx, buffer),
                Self::Tls(stream) => return Pin::new(stream).poll_read(cx, buffer),
                Self::Handshake(handshake) => match ready!(Pin::new(&mut handshake.accept).poll(cx)) {
                    Ok(stream) => *this = Self::Tls(Box::new(stream)),
                    Err((error, stream)) => {
                        handshake.tls.failed(handshake.peer, &error);
                        *this = Self::Refused(stream);
                    }
                },
                Self::Refused(stream) => return poll_discard(stream, cx),
            }
        }
    }
}

impl AsyncWrite for Stream {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.writer()?.poll_write(cx, bytes)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.writer()?.poll_write_vectored(cx, bytes)
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.writer()?.poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.writer()?.poll_shutdown(cx)
    }
}

/// Ends the sending side, and reads until the client has ended, too.
fn poll_discard(stream: &mut TcpStream, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
    ready!(Pin::new(&mut *stream).poll_shutdown(cx))?;
    loop {
        let mut bytes = [0; DISCARD_LEN];
        let mut buffer = ReadBuf::new(&mut bytes);
        ready!(Pin::new(&mut *stream).poll_read(cx, &mut buffer))?;
        if buffer.filled().is_empty() {
            return Poll::Ready(Ok(()));
        }
    }
}
