//! Graceful shutdown.

use http::StatusCode;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::support::{CALL, Sidecar};

/// A request whose head was received before the shutdown is answered before the server ends.
#[tokio::test]
async fn a_request_in_progress_is_answered_before_the_end() {
    let sidecar = Sidecar::start(&["api_key"]).await;
    let mut tcp = sidecar.tcp().await;
    let head =
        format!("POST /check HTTP/1.1\r\nhost: x\r\nexpect: 100-continue\r\ncontent-length: {}\r\n\r\n", CALL.len());
    tcp.write_all(head.as_bytes()).await.unwrap();
    let mut go_on = [0; 25];
    tcp.read_exact(&mut go_on).await.unwrap();
    assert_eq!(&go_on, b"HTTP/1.1 100 Continue\r\n\r\n");
    sidecar.stop.send(()).unwrap();
    while TcpStream::connect(sidecar.address).await.is_ok() {
        tokio::task::yield_now().await; // until the listener is closed
    }
    assert!(!sidecar.served.is_finished());
    tcp.write_all(CALL.as_bytes()).await.unwrap();
    let mut answer = String::new();
    tcp.read_to_string(&mut answer).await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{answer}");
    sidecar.served.await.unwrap();
}

/// Idle connections, used and unused, are closed at once: the virtual clock does not advance.
#[tokio::test]
async fn idle_connections_do_not_delay_the_end() {
    let sidecar = Sidecar::start(&["api_key"]).await;
    let (_unused, mut used) = (sidecar.tcp().await, sidecar.client().await);
    assert_eq!(used.post(CALL).await.status, StatusCode::OK);
    sidecar.stop.send(()).unwrap();
    let served = tokio::time::timeout(tollgate_listen::DRAIN_WAIT / 2, sidecar.served).await;
    served.expect("closed at once").unwrap();
}

/// A client that never completes its request does not keep the server running.
#[tokio::test]
async fn an_unfinished_request_is_aborted() {
    let sidecar = Sidecar::start(&["api_key"]).await;
    let mut tcp = sidecar.tcp().await;
    tcp.write_all(b"GET /healthz HTTP/1.1\r\nhost: x\r\n\r\nGET /che").await.unwrap();
    let mut first = [0; 1];
    tcp.read_exact(&mut first).await.unwrap();
    tokio::time::pause(); // the virtual clock advances only when all tasks are idle
    sidecar.stop.send(()).unwrap();
    sidecar.served.await.unwrap();
}
