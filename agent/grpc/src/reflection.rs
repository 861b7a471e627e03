//! Reflection: tools such as `grpcurl` read the schemas of the services. Only peers on the same machine may.

use axum::Router;
use axum::extract::{ConnectInfo, Request};
use axum::middleware::{Next, from_fn};
use axum::response::Response;
use tollgate_listen::Peer;
use tonic::Status;
use tonic_reflection::server::Builder;

/// Schemas of all services.
const SCHEMAS: &[u8] = include_bytes!("proto/services.bin");

/// Returns the routes of both versions of the protocol.
///
/// # Panics
/// If the generated schemas cannot be read.
pub(crate) fn router() -> Router {
    let builder = || Builder::configure().register_encoded_file_descriptor_set(SCHEMAS);
    let valid = "the generated schemas are valid";
    Router::new()
        .route_service("/grpc.reflection.v1.ServerReflection/{method}", builder().build_v1().expect(valid))
        .route_service("/grpc.reflection.v1alpha.ServerReflection/{method}", builder().build_v1alpha().expect(valid))
        .layer(from_fn(local_only))
}

async fn local_only(request: Request, next: Next) -> Response {
    let peer = request.extensions().get::<ConnectInfo<Peer>>();
    if !peer.is_some_and(|ConnectInfo(peer)| peer.is_local()) {
        return Status::permission_denied("only peers on the same machine may read the schemas").into_http();
    }
    next.run(request).await
}
