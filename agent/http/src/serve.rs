//! Serving on a socket until told to stop, and then ending well: what was asked is answered, who only holds a connection
//! open is not waited for.

use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use axum::Router;
use axum::serve::ListenerExt;
use tokio::net::TcpListener;
use tokio::sync::oneshot;

/// How long requests that are under way are waited for.
pub const DRAIN_WAIT: Duration = Duration::from_secs(5);

/// Answers on this socket. When `shutdown` is done no new connection is taken and idle ones are closed; requests that are
/// under way are answered, at most [`DRAIN_WAIT`] long.
///
/// # Errors
/// Returns an error if the socket fails.
pub async fn serve(
    listener: TcpListener,
    router: Router,
    shutdown: impl Future<Output = ()> + Send + 'static,
) -> io::Result<()> {
    // Answers are one small packet each; holding them back for more would only cost time.
    let listener = listener.tap_io(|connection| {
        if let Err(error) = connection.set_nodelay(true) {
            tracing::debug!(%error, "a connection keeps its packets back; its answers may be 40 ms late");
        }
    });
    let (stopping, stopped) = oneshot::channel();
    let server = axum::serve(listener, router.into_make_service_with_connect_info::<SocketAddr>());
    let server = server.with_graceful_shutdown(async move {
        shutdown.await;
        let _ = stopping.send(());
    });
    let too_long = async {
        let _ = stopped.await;
        tokio::time::sleep(DRAIN_WAIT).await;
    };
    tokio::select! {
        ended = async { server.await } => ended,
        () = too_long => {
            let wait_s = DRAIN_WAIT.as_secs();
            tracing::warn!("requests that were not finished within {wait_s} s are given up; their clients see a closed connection");
            Ok(())
        }
    }
}
