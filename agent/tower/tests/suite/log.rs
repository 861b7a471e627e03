//! Warning of a server that does not tell the addresses of its clients.

use std::convert::Infallible;
use std::mem;
use std::net::SocketAddr;
use std::sync::Mutex;

use axum::body::Body;
use http::{Request, Response};
use tollgate_tower::RateLimitLayer;
use tower::{Layer, ServiceExt, service_fn};
use tracing_subscriber::fmt::MakeWriter;

use crate::support::agent;

async fn respond(_: Request<Body>) -> Result<Response<Body>, Infallible> {
    Ok(Response::default())
}

/// Returns the warnings of three requests to a server that tells this address.
async fn warnings(rules: &str, address: Option<SocketAddr>) -> Vec<String> {
    static LOG: Mutex<Vec<u8>> = Mutex::new(Vec::new());
    let subscriber = tracing_subscriber::fmt().with_ansi(false).with_writer(|| LOG.make_writer()).finish();
    let service = RateLimitLayer::new(agent(rules)).layer(service_fn(respond));
    let _guard = tracing::subscriber::set_default(subscriber);
    for _ in 0..3 {
        let mut request = Request::<Body>::default();
        if let Some(address) = address {
            request.extensions_mut().insert(address);
        }
        service.clone().oneshot(request).await.unwrap();
    }
    let log = String::from_utf8(mem::take(&mut LOG.lock().unwrap())).unwrap();
    log.lines().filter(|line| line.contains("WARN")).map(ToOwned::to_owned).collect()
}

/// P1: without addresses, rules per address do not apply; the log says so once, with the remedy.
#[tokio::test]
async fn missing_addresses_are_warned_of_once_and_only_if_a_rule_needs_them() {
    let per_client = "rules: [{ name: per-client, per: [ip], quota: 1/min }]";
    let per_key = "rules: [{ name: per-key, per: [api_key], quota: 1/min }]";
    let warned = warnings(per_client, None).await;
    assert_eq!(warned.len(), 1, "{warned:?}");
    assert!(warned[0].contains("no client address") && warned[0].contains("into_make_service_with_connect_info"));
    assert!(warnings(per_client, Some(([10, 0, 0, 1], 9).into())).await.is_empty());
    assert!(warnings(per_key, None).await.is_empty());
}
