//! The layer in a real server of tonic, asked by a client of tonic.

use std::net::SocketAddr;

use tokio::net::TcpListener;
use tollgate::{Agent, Call, Rule};
use tollgate_servers::wait_for;
use tollgate_tower::RateLimitLayer;
use tonic::transport::server::TcpIncoming;
use tonic::transport::{Channel, Server};
use tonic::{Code, Request, Status};
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_client::HealthClient;

use crate::support::agent;

pub(crate) async fn start(layer: RateLimitLayer) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (_reporter, health) = tonic_health::server::health_reporter();
    let server = Server::builder().layer(layer).add_service(health);
    tokio::spawn(server.serve_with_incoming(TcpIncoming::from(listener)));
    address
}

pub(crate) async fn client(address: SocketAddr) -> HealthClient<Channel> {
    let endpoint = Channel::from_shared(format!("http://{address}")).unwrap();
    HealthClient::new(endpoint.connect().await.unwrap())
}

fn with_key(key: &str) -> Request<HealthCheckRequest> {
    let mut request = Request::new(HealthCheckRequest::default());
    request.metadata_mut().insert("x-api-key", key.parse().unwrap());
    request
}

fn value<'a>(status: &'a Status, name: &str) -> &'a str {
    status.metadata().get(name).unwrap_or_else(|| panic!("no {name}")).to_str().unwrap()
}

/// H1, H2, P1: a client of gRPC learns the limit from the metadata, and a denial from the status.
#[tokio::test]
async fn a_denied_request_has_a_status_of_grpc() {
    // A message of gRPC escapes characters of this name.
    let rule = Rule::per("a%20b «keys»", &["api_key", "ip"], "1/min".parse().unwrap());
    let agent = Agent::builder().node("gw-1").rule(rule).start().unwrap();
    let mut client = client(start(RateLimitLayer::new(agent)).await).await;
    let response = client.check(with_key("k1")).await.unwrap();
    assert_eq!(response.metadata().get("x-ratelimit-remaining").unwrap(), "0");
    let denial = client.check(with_key("k1")).await.unwrap_err();
    assert_eq!(denial.code(), Code::ResourceExhausted);
    assert!(denial.message().starts_with("rule a%20b «keys» allows 1 in 60 s; this call passes in "), "{denial}");
    assert!(value(&denial, "retry-after").parse::<u64>().unwrap() >= 1);
    assert_eq!((value(&denial, "x-ratelimit-limit"), value(&denial, "x-gateway-node")), ("1", "gw-1"));
    assert!(client.check(with_key("k2")).await.is_ok(), "another key");
}

/// H2: clients do not retry a request that no retry helps.
#[tokio::test]
async fn a_request_that_never_passes_is_without_permission() {
    let rules = "{ deny_status: 403, rules: [{ name: closed, match: { api_key: k1 }, deny: true }] }";
    let mut client = client(start(RateLimitLayer::new(agent(rules))).await).await;
    let denial = client.check(with_key("k1")).await.unwrap_err();
    let message = "closed denies this call regardless of its count";
    assert_eq!((denial.code(), denial.message()), (Code::PermissionDenied, message));
    assert!(client.check(with_key("k2")).await.is_ok());
}

/// A stream holds its slot until its client leaves.
#[tokio::test(flavor = "multi_thread")]
async fn a_slot_is_held_until_the_stream_ends() {
    let rules = "rules: [{ name: slots, per: [ip], quota: 1/10min, algorithm: concurrency }]";
    let agent = agent(rules);
    let address = start(RateLimitLayer::new(agent.clone())).await;
    let (mut watcher, mut other) = (client(address).await, client(address).await);
    assert!(other.check(HealthCheckRequest::default()).await.is_ok());
    let stream = watcher.watch(HealthCheckRequest::default()).await.unwrap();
    let denial = other.check(HealthCheckRequest::default()).await.unwrap_err();
    assert_eq!((denial.code(), value(&denial, "x-ratelimit-remaining")), (Code::ResourceExhausted, "0"));
    drop(stream);
    let call = Call::new().with("ip", "127.0.0.1");
    drop(wait_for("the slot", || agent.try_check(&call)?.ok()));
    assert!(other.check(HealthCheckRequest::default()).await.is_ok());
}
