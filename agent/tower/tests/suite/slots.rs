//! Slots of `concurrency`: held until the body of the response has ended, whoever ends it.
//!
//! Server and client share a thread, so what the server drops together is dropped before the test goes on.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::body::Body;
use axum::routing::get;
use futures_util::stream::poll_fn;
use http_body_util::BodyExt;
use tokio::sync::mpsc::{self, Sender};
use tollgate_tower::RateLimitLayer;

use crate::support::{Client, agent, serve};

const ONE_AT_A_TIME: &str = "rules: [{ name: slots, per: [ip], quota: 1/10min, algorithm: concurrency }]";

/// Serves `/`, and one request with chunks from the returned sender: to `/stream` as its body, or to `/upload` before it responds. The
/// server drops the other end when it drops the body or the handler.
async fn start() -> (Sender<&'static str>, SocketAddr) {
    let (chunks, streamed) = mpsc::channel(1);
    let streamed = Arc::new(Mutex::new(Some(streamed)));
    let upload = {
        let streamed = streamed.clone();
        async move || {
            let mut chunks = streamed.lock().unwrap().take().expect("the only upload");
            while chunks.recv().await.is_some() {}
        }
    };
    let stream = async move || {
        let mut chunks = streamed.lock().unwrap().take().expect("the only streamed request");
        Body::from_stream(poll_fn(move |context| chunks.poll_recv(context).map(|chunk| chunk.map(Ok::<_, Infallible>))))
    };
    let router = Router::new().route("/upload", get(upload)).route("/stream", get(stream)).route("/", get(|| async {}));
    (chunks, serve(router.layer(RateLimitLayer::new(agent(ONE_AT_A_TIME)))).await)
}

async fn status(address: SocketAddr) -> u16 {
    Client::connect(address).await.get("/", &[]).await.status.as_u16()
}

/// The slot is free when the streamed body ends, not when its headers are sent.
#[tokio::test]
async fn a_slot_is_held_until_the_streamed_body_ends() {
    let (chunks, address) = start().await;
    let mut client = Client::connect(address).await;
    let mut response = client.send("/stream", &[]).await;
    assert_eq!(
        (response.status().as_u16(), &response.headers()["x-ratelimit-remaining"]),
        (200, &"0".parse().unwrap())
    );
    chunks.send("first").await.unwrap();
    assert_eq!(response.frame().await.unwrap().unwrap().into_data().unwrap(), "first");
    assert_eq!(status(address).await, 429, "the body has not ended");
    drop(chunks);
    assert!(response.frame().await.is_none(), "the body has ended");
    assert_eq!([status(address).await, status(address).await], [200, 200]);
}

/// A client that goes away in the middle of a body frees its slot.
#[tokio::test]
async fn a_slot_is_free_when_the_client_disconnects_from_the_body() {
    let (chunks, address) = start().await;
    let mut client = Client::connect(address).await;
    let response = client.send("/stream", &[]).await;
    assert_eq!(status(address).await, 429);
    drop((response, client));
    chunks.closed().await;
    assert_eq!(status(address).await, 200);
}

/// A client that goes away before the response frees its slot.
#[tokio::test]
async fn a_slot_is_free_when_the_client_disconnects_from_the_handler() {
    let (chunks, address) = start().await;
    let mut client = Client::connect(address).await;
    let request = tokio::spawn(async move { client.send("/upload", &[]).await });
    chunks.send("first").await.unwrap();
    chunks.send("second").await.unwrap(); // there is room for it once the handler has the first one
    assert_eq!(status(address).await, 429);
    request.abort();
    chunks.closed().await;
    assert_eq!(status(address).await, 200);
}
