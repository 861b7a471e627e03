//! Allocations of the layer, beside those of the agent.

use std::convert::Infallible;
use std::future::ready;
use std::net::SocketAddr;

use futures_util::FutureExt;
use http::{HeaderMap, Request, Response};
use tollgate::http_response;
use tollgate_tower::RateLimitLayer;
use tower::{Layer, Service, service_fn};

use crate::support::agent;

const REQUESTS: u64 = 100;

/// A request that is decided at once costs the call and the headers, and nothing in addition.
#[tokio::test]
async fn the_layer_allocates_only_what_the_agent_does() {
    let agent = agent("rules: [{ name: per-client, per: [ip], quota: 1000000/min }]");
    let mut service = RateLimitLayer::new(agent.clone())
        .layer(service_fn(|_: Request<()>| ready(Ok::<_, Infallible>(Response::new(())))));
    let address: SocketAddr = ([10, 0, 0, 1], 9).into();
    let mut layered = || {
        let mut request = Request::default();
        request.extensions_mut().insert(address);
        service.call(request).now_or_never().expect("it is decided at once").expect("a response")
    };
    let alone = || {
        let mut request = Request::<()>::default();
        request.extensions_mut().insert(address);
        let (peer, headers) = (Some(address.ip()), HeaderMap::new());
        let call = agent.describe(&tollgate::Request { method: "GET", path: "/", peer, headers: &headers });
        let admission = agent.try_check(&call).expect("it is decided at once").expect("an admission");
        let mut response = Response::new(());
        response.headers_mut().extend(http_response::headers(&admission.decision, agent.node()));
        response
    };
    assert_eq!(layered().headers().len(), alone().headers().len(), "both know the caller then");
    let count = |request: &mut dyn FnMut() -> Response<()>| {
        let allocations = allocation_counter::measure(|| (0..REQUESTS).for_each(|_| drop(request())));
        allocations.count_total / REQUESTS
    };
    let layered = count(&mut || layered().map(drop));
    assert_eq!(layered, count(&mut || alone()));
}
