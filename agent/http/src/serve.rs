//! HTTP server with graceful shutdown: accepted requests are answered, and idle connections are closed.

use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::time::Duration;

use axum::Router;
use axum::serve::ListenerExt;
use tokio::net::TcpListener;
use tokio::sync::oneshot;

/// Maximum time for requests in progress after the shutdown has begun.
pub const DRAIN_WAIT: Duration = Duration::from_secs(5);

/// Serves requests on a socket. When `shutdown` completes, new connections are refused and idle ones are closed;
/// requests in progress have up to [`DRAIN_WAIT`] to finish.
///
/// # Errors
/// Returns an error if the socket fails.
pub async fn serve(
    listener: TcpListener,
    router: Router,
    shutdown: impl Future<Output = ()> + Send + 'static,
) -> io::Result<()> {
    serve_until(listener, router, Box::pin(shutdown)).await
}

/// Serves without type parameters, so that the code of connections is compiled and optimized in this crate.
async fn serve_until(
    listener: TcpListener,
    router: Router,
    shutdown: Pin<Box<dyn Future<Output = ()> + Send>>,
) -> io::Result<()> {
    // Responses are single small packets, which Nagle's algorithm would only delay.
    let listener = listener.tap_io(|connection| {
        if let Err(error) = connection.set_nodelay(true) {
            tracing::debug!(%error, "TCP_NODELAY cannot be set; responses on this connection may be delayed by 40 ms");
        }
    });
    let (stopping, stopped) = oneshot::channel();
    let server = axum::serve(listener, router.into_make_service_with_connect_info::<SocketAddr>());
    let server = server.with_graceful_shutdown(async move {
        shutdown.await;
        let _ = stopping.send(());
    });
    let drain_timeout = async {
        let _ = stopped.await;
        tokio::time::sleep(DRAIN_WAIT).await;
    };
    tokio::select! {
        ended = async { server.await } => ended,
        () = drain_timeout => {
            let wait_s = DRAIN_WAIT.as_secs();
            tracing::warn!("requests in progress did not finish within {wait_s} s and were aborted; their clients see a closed connection");
            Ok(())
        }
    }
}
