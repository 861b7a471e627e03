//! Health, readiness and metrics.

use std::sync::Arc;

use http::StatusCode;
use tollgate::store::{ChargeStore, MemoryStore, StoreError, StoreServer};
use tollgate::{Agent, Rule};
use tollgate_core::clock::{SystemClock, Timestamp};
use tollgate_core::counter::Charge;
use tollgate_core::counter::ChargeResults;

use crate::support::{CALL, Sidecar};

struct UnavailableStore;

impl ChargeStore for UnavailableStore {
    async fn charge(&self, _: &[Charge]) -> Result<ChargeResults, StoreError> {
        Err(StoreError::Unreachable)
    }

    async fn ping(&self) -> Result<Timestamp, StoreError> {
        Err(StoreError::Unreachable)
    }

    fn servers(&self) -> Vec<StoreServer> {
        let trouble = Some("nobody listens; remedy: start it".to_owned());
        vec![StoreServer { node: "10.0.0.5:6379".to_owned(), is_connected: false, trouble }]
    }
}

#[tokio::test]
async fn health_contains_node_and_generation() {
    let mut client = Sidecar::start(&["api_key"]).await.client().await;
    let health = client.get("/healthz", &[]).await;
    assert_eq!((health.status, health.header("content-type")), (StatusCode::OK, "application/json"));
    let health = health.json();
    assert_eq!((health["status"].as_str(), health["node"].as_str()), (Some("ok"), Some("gw-1")));
    assert_eq!((health["generation"].as_u64(), health["rules"].as_u64()), (Some(7), Some(1)));
    assert_eq!(
        (health["degraded"].as_bool(), health["version"].as_str()),
        (Some(false), Some(env!("CARGO_PKG_VERSION")))
    );
    let ready = client.get("/readyz", &[]).await;
    assert_eq!((ready.status, ready.json()["ready"].as_bool()), (StatusCode::OK, Some(true)));
}

/// H4: an agent without its store is alive and enforces limits, but reports that it is not ready.
#[tokio::test]
async fn an_agent_without_its_store_is_alive_but_not_ready() {
    let rule = Rule::per("pair", &["api_key"], "2/min".parse().unwrap());
    let agent = Agent::builder().rule(rule).store(Arc::new(UnavailableStore)).start_with_store().unwrap();
    let mut client = Sidecar::of(agent).await.client().await;
    let ready = client.get("/readyz", &[]).await;
    assert_eq!(ready.status, StatusCode::SERVICE_UNAVAILABLE);
    assert!(ready.json()["missing"][0].as_str().unwrap().contains("store"));
    assert_eq!(client.post(CALL).await.header("x-ratelimit-policy"), "degraded");
    let health = client.get("/healthz", &[]).await;
    assert_eq!((health.status, health.json()["degraded"].as_bool()), (StatusCode::OK, Some(true)));
    assert_eq!(health.json()["status"], "degraded");
    let problem = health.json()["problems"][0].clone();
    assert_eq!(problem["part"], "redis");
    let why = problem["why"].as_str().unwrap();
    assert!(why.starts_with("nobody listens; remedy: start it; while it does not decide"), "{why}");
    assert_eq!(client.get("/readyz", &[]).await.json()["problems"][0], problem, "readiness tells it, too");
}

/// Store that, like a server, is asked and then waited for.
struct AskedStore(MemoryStore);

impl ChargeStore for AskedStore {
    async fn charge(&self, charges: &[Charge]) -> Result<ChargeResults, StoreError> {
        self.0.charge(charges).await
    }

    async fn ping(&self) -> Result<Timestamp, StoreError> {
        self.0.ping().await
    }
}

/// The latency of the store counts the requests of calls: a denial after the last unit asks for nothing.
#[tokio::test]
async fn the_latency_of_the_store_is_a_metric() {
    let rule = Rule::per("pair", &["api_key"], "1/min".parse().unwrap());
    let store = AskedStore(MemoryStore::new(Arc::new(SystemClock::start())));
    let agent = Agent::builder().rule(rule.strict()).store(Arc::new(store)).start_with_store().unwrap();
    let mut client = Sidecar::of(agent).await.client().await;
    assert_eq!(client.get("/readyz", &[]).await.status, StatusCode::OK);
    for status in [StatusCode::OK, StatusCode::TOO_MANY_REQUESTS, StatusCode::TOO_MANY_REQUESTS] {
        assert_eq!(client.post(CALL).await.status, status);
    }
    let metrics = client.get("/metrics", &[]).await;
    let text = String::from_utf8(metrics.body.to_vec()).unwrap();
    assert!(text.contains("\ntollgate_store_duration_seconds_count 1\n"), "{text}");
}

#[tokio::test]
async fn metrics_count_decisions_in_the_format_that_is_accepted() {
    let mut client = Sidecar::start(&["api_key"]).await.client().await;
    assert_eq!(client.post(CALL).await.status, StatusCode::OK);
    let line = r#"tollgate_decisions_total{rule="pair",outcome="allowed",source="store"} 1"#;
    let formats = [
        (None, "text/plain; version=0.0.4; charset=utf-8", false),
        (
            Some(("accept", "application/openmetrics-text")),
            "application/openmetrics-text; version=1.0.0; charset=utf-8",
            true,
        ),
    ];
    for (accept, content_type, has_end) in formats {
        let metrics = client.get("/metrics", accept.as_slice()).await;
        assert_eq!(metrics.header("content-type"), content_type);
        let text = String::from_utf8(metrics.body.to_vec()).unwrap();
        assert!(text.lines().any(|l| l == line) && text.ends_with("# EOF\n") == has_end, "{text}");
    }
}
