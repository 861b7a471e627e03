//! Requests that wait for their turn, and the service that takes them then.
//!
//! The layer waits in tokio's time, which passes at once here, and the agent decides in that of the machine: turns are an hour apart.

use std::convert::Infallible;
use std::future::{Ready, ready};
use std::pin::pin;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::Body;
use http::{Request, Response};
use tokio::time::timeout;
use tollgate_tower::RateLimitLayer;
use tower::{Layer, Service, ServiceExt};

use crate::support::agent;

const QUEUE: &str = "rules: [{ name: queue, per: [method], quota: 1/h, algorithm: leaky_bucket, burst: 10 }]";

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
#[tokio::test(start_paused = true)]
async fn a_request_under_a_leaky_bucket_waits_for_its_turn() {
    let service = RateLimitLayer::new(agent(QUEUE)).layer(ReadyOnce::default());
    let first = service.clone().oneshot(Request::default()).await.unwrap();
    assert!(!first.headers().contains_key("x-ratelimit-delay-ms"));
    let mut second = pin!(service.oneshot(Request::default()));
    assert!(timeout(Duration::from_mins(30), &mut second).await.is_err(), "its turn is in an hour");
    let second = second.await.unwrap();
    let delay_ms: u64 = second.headers()["x-ratelimit-delay-ms"].to_str().unwrap().parse().unwrap();
    assert!((1..=3_600_000).contains(&delay_ms), "{delay_ms} ms");
}

/// A request goes to the service that was polled ready for it, at once and after a wait.
#[tokio::test(start_paused = true)]
async fn a_request_takes_the_service_that_is_ready_for_it() {
    let mut service = RateLimitLayer::new(agent(QUEUE)).layer(ReadyOnce::default());
    let mut delays = Vec::new();
    for _ in 0..3 {
        let response = service.ready().await.unwrap().call(Request::default()).await.unwrap();
        delays.push(response.headers().contains_key("x-ratelimit-delay-ms"));
    }
    assert_eq!(delays, [false, true, true]);
}
