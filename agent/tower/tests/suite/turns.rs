//! Requests that wait for their turn, and the service that takes them then.

use std::convert::Infallible;
use std::future::{Ready, ready};
use std::task::{Context, Poll};

use axum::Router;
use axum::body::Body;
use axum::routing::get;
use http::{Request, Response};
use tollgate_core::clock::Stopwatch;
use tollgate_tower::RateLimitLayer;
use tower::{Layer, Service, ServiceExt};

use crate::support::{Client, agent, serve};

const QUEUE: &str = "rules: [{ name: queue, per: [method], quota: 20/s, algorithm: leaky_bucket, burst: 10 }]";

/// Service that takes a request only after it was polled ready. A clone is not ready, as that of a service with permits.
#[derive(Default)]
struct ReadyOnce {
    is_ready: bool,
}

impl Clone for ReadyOnce {
    fn clone(&self) -> Self {
        Self::default()
    }
}

impl Service<Request<Body>> for ReadyOnce {
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = Ready<Result<Response<Body>, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        self.is_ready = true;
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: Request<Body>) -> Self::Future {
        assert!(std::mem::take(&mut self.is_ready), "the service was polled ready");
        ready(Ok(Response::default()))
    }
}

/// P2: a leaky bucket lets requests through one by one.
#[tokio::test]
async fn a_request_under_a_leaky_bucket_waits_for_its_turn() {
    let router = Router::new().route("/", get(|| async {})).layer(RateLimitLayer::new(agent(QUEUE)));
    let mut client = Client::connect(serve(router).await).await;
    let first = client.get("/", &[]).await;
    assert!(!first.headers.contains_key("x-ratelimit-delay-ms"));
    let waited = Stopwatch::start();
    let second = client.get("/", &[]).await;
    let delay_ms: u64 = second.header("x-ratelimit-delay-ms").parse().unwrap();
    assert!(delay_ms > 0 && waited.elapsed().as_millis() >= delay_ms.into(), "{delay_ms} ms");
}

/// A request goes to the service that was polled ready for it, at once and after a wait.
#[tokio::test]
async fn a_request_takes_the_service_that_is_ready_for_it() {
    let mut service = RateLimitLayer::new(agent(QUEUE)).layer(ReadyOnce::default());
    let mut delays = Vec::new();
    for _ in 0..3 {
        let response = service.ready().await.unwrap().call(Request::default()).await.unwrap();
        delays.push(response.headers().contains_key("x-ratelimit-delay-ms"));
    }
    assert_eq!(delays, [false, true, true]);
}
