//! The examples, on free ports.

use tokio::net::TcpListener;
use tonic::Code;
use tonic_health::pb::HealthCheckRequest;

use crate::grpc::client;
use crate::support::Client;

#[path = "../../examples/axum_server.rs"]
#[expect(dead_code, reason = "the test calls the rest of the example, without its `main`")]
mod axum_server;
#[path = "../../examples/tonic_server.rs"]
#[expect(dead_code, reason = "the test calls the rest of the example, without its `main`")]
mod tonic_server;

/// P4: the fourth request of a minute is denied, on the limited route only.
#[tokio::test]
async fn the_example_with_axum_admits_three_requests() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async { axum_server::serve(listener).await.expect("it serves") });
    let mut client = Client::connect(address).await;
    for expected in [(200, "2"), (200, "1"), (200, "0"), (429, "0")] {
        assert_eq!(client.get("/search", &[]).await.left(), expected);
    }
    assert_eq!(client.get("/healthz", &[]).await.status.as_u16(), 200);
}

/// P4: the fourth request of a minute is denied.
#[tokio::test]
async fn the_example_with_tonic_admits_three_requests() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async { tonic_server::serve(listener).await.expect("it serves") });
    let mut client = client(address).await;
    for _ in 0..3 {
        client.check(HealthCheckRequest::default()).await.unwrap();
    }
    assert_eq!(client.check(HealthCheckRequest::default()).await.unwrap_err().code(), Code::ResourceExhausted);
}
