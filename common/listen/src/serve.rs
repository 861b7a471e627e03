//! HTTP server with graceful shutdown: accepted requests are answered, and idle connections are closed.

use std::future::Future;
use std::pin::{Pin, pin};
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::ConnectInfo;
use hyper::Request;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto::Builder;
use hyper_util::server::graceful::GracefulShutdown;
use tower_service::Service as _;

use crate::listen_settings::{HEADER_BYTES_MAX_MIN, ListenSettings};
use crate::listener::Listener;

/// Maximum time for requests in progress after the shutdown has begun.
pub const DRAIN_WAIT: Duration = Duration::from_secs(5);

type BoxedFuture = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Serves requests on a socket; handlers get the peer as `ConnectInfo<Peer>`. When `shutdown` completes, new connections are refused
/// and idle ones are closed; requests in progress have up to [`DRAIN_WAIT`] to finish.
pub async fn serve(listener: impl Into<Listener>, router: Router, shutdown: impl Future<Output = ()> + Send + 'static) {
    server(listener.into(), router, Box::pin(shutdown)).await;
}

/// Returns the server as a trait object. Without it, the code of connections would be compiled in the crate that awaits them, with
/// that crate's optimization.
#[inline(never)]
fn server(listener: Listener, router: Router, shutdown: BoxedFuture) -> BoxedFuture {
    Box::pin(serve_until(listener, router, shutdown))
}

async fn serve_until(mut listener: Listener, router: Router, shutdown: BoxedFuture) {
    let (builder, open) = (builder(listener.settings()), GracefulShutdown::new());
    let mut shutdown = pin!(shutdown);
    loop {
        let (connection, peer) = tokio::select! {
            accepted = listener.accept() => accepted,
            () = &mut shutdown => break,
        };
        let router = router.clone();
        let service = service_fn(move |request: Request<Incoming>| {
            let mut request = request.map(Body::new);
            request.extensions_mut().insert(ConnectInfo(peer));
            router.clone().call(request)
        });
        let served = builder.serve_connection(TokioIo::new(connection), service).into_owned();
        let served = open.watch(served);
        tokio::spawn(async move {
            if let Err(error) = served.await {
                tracing::debug!(?peer, %error, "a connection ended with an error");
            }
        });
    }
    drop(listener);
    if tokio::time::timeout(DRAIN_WAIT, open.shutdown()).await.is_err() {
        let wait_s = DRAIN_WAIT.as_secs();
        tracing::warn!(
            "requests in progress did not finish within {wait_s} s and were aborted; their clients see a closed connection"
        );
    }
}

/// Returns the builder of connections, which accepts HTTP/1 and HTTP/2.
fn builder(settings: &ListenSettings) -> Builder<TokioExecutor> {
    let header_bytes = settings.header_bytes_max.max(HEADER_BYTES_MAX_MIN);
    let mut builder = Builder::new(TokioExecutor::new());
    builder.http1().max_buf_size(usize::try_from(header_bytes).unwrap_or(usize::MAX));
    builder.http2().max_header_list_size(header_bytes);
    builder
}
