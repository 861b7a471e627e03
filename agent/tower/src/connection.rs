//! Address of the client and path of a request, as servers attach them to it.

use std::net::{IpAddr, SocketAddr};

use http::Uri;
use http::request::Parts;
use http::uri::PathAndQuery;

/// Returns the address of the connected peer; none on a Unix socket, or if the server does not tell it.
pub(crate) fn peer(parts: &mut Parts) -> Option<IpAddr> {
    let address = parts.extensions.get::<SocketAddr>().copied();
    #[cfg(feature = "axum")]
    let address = address.or_else(|| {
        let info = parts.extensions.get::<axum::extract::ConnectInfo<SocketAddr>>();
        info.map(|axum::extract::ConnectInfo(address)| *address)
    });
    #[cfg(feature = "tonic")]
    let address = address.or_else(|| {
        // Only this type of tonic reads the addresses of all its connections, with and without TLS.
        let extensions = std::mem::take(&mut parts.extensions);
        let request = tonic::Request::from_parts(tonic::metadata::MetadataMap::new(), extensions, ());
        let address = request.remote_addr();
        (_, parts.extensions, ()) = request.into_parts();
        address
    });
    address.map(|address| address.ip())
}

/// Returns path and query as the client sent them. A nested router of axum has removed its prefix from the URI.
pub(crate) fn path_and_query(parts: &Parts) -> &str {
    #[cfg(feature = "axum")]
    let uri: &Uri = parts.extensions.get::<axum::extract::OriginalUri>().map_or(&parts.uri, |original| &original.0);
    #[cfg(not(feature = "axum"))]
    let uri: &Uri = &parts.uri;
    uri.path_and_query().map_or_else(|| uri.path(), PathAndQuery::as_str)
}
