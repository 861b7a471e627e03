//! HTTP server with graceful shutdown: accepted requests are answered, and idle connections are closed.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::time::Duration;

use axum::Router;
use tokio::sync::oneshot;

use crate::listener::Listener;
use crate::peer::Peer;

/// Maximum time for requests in progress after the shutdown has begun.
pub const DRAIN_WAIT: Duration = Duration::from_secs(5);

/// Serves requests on a socket; handlers get the peer as `ConnectInfo<Peer>`. When `shutdown` completes, new connections are refused
/// and idle ones are closed; requests in progress have up to [`DRAIN_WAIT`] to finish.
///
/// # Errors
/// Returns an error if the socket fails.
pub async fn serve(
    listener: impl Into<Listener>,
    router: Router,
    shutdown: impl Future<Output = ()> + Send + 'static,
) -> io::Result<()> {
    serve_until(listener.into(), router, Box::pin(shutdown)).await
}

/// Serves without type parameters, so that the code of connections is compiled and optimized in this crate.
async fn serve_until(
    listener: Listener,
    router: Router,
    shutdown: Pin<Box<dyn Future<Output = ()> + Send>>,
) -> io::Result<()> {
    let (stopping, stopped) = oneshot::channel();
    let server = axum::serve(listener, router.into_make_service_with_connect_info::<Peer>());
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
