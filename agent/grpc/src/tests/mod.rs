//! Services, asked with messages in the frames of gRPC.

mod drop_in;
mod own_answers;
mod redis;
mod traces;
mod waits;

use std::net::SocketAddr;

use axum::Router;
use axum::body::Body;
use axum::extract::ConnectInfo;
use http::{HeaderMap, Request};
use http_body_util::BodyExt;
use prost::Message;
use prost_types::value::Kind;
use tollgate::{Agent, Builder, RulesSource, Timestamp};
use tollgate_listen::Peer;
use tollgate_rules::import::EnvoySettings;
use tonic::Code as GrpcCode;
use tower::ServiceExt;

use crate::proto::envoy::extensions::common::ratelimit::v3::RateLimitDescriptor;
use crate::proto::envoy::extensions::common::ratelimit::v3::rate_limit_descriptor::{Entry, RateLimitOverride};
use crate::proto::envoy::service::auth::v3::attribute_context::{HttpRequest, Request as AttributeRequest};
use crate::proto::envoy::service::auth::v3::{AttributeContext, CheckRequest};
use crate::proto::envoy::service::ratelimit::v3::rate_limit_response::rate_limit::Unit;
use crate::proto::envoy::service::ratelimit::v3::rate_limit_response::{Code, DescriptorStatus};
use crate::proto::envoy::service::ratelimit::v3::{RateLimitRequest, RateLimitResponse};
use crate::proto::envoy::r#type::v3::RateLimitUnit;
use crate::proto::grpc::health::v1::health_check_response::ServingStatus;
use crate::proto::grpc::health::v1::{HealthCheckRequest, HealthCheckResponse};

const SHOULD_RATE_LIMIT: &str = "/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit";
const CHECK: &str = "/envoy.service.auth.v3.Authorization/Check";
const CONFIG: &str = "domain: web
descriptors:
  - key: user
    rate_limit: { unit: minute, requests_per_unit: 3 }
    descriptors:
      - { key: path, value: /slow, rate_limit: { unit: week, requests_per_unit: 1 } }
  - { key: plan, value: free, rate_limit: { unit: month, requests_per_unit: 5 } }
  - { key: plan, value: paid, rate_limit: { unit: year, requests_per_unit: 7 } }
  - { key: closed, rate_limit: { unit: day, requests_per_unit: 0 } }
";

/// Sends one frame, and returns the message of the answer, or the code and the text of the error.
async fn ask<M: Message + Default>(router: &Router, method: &str, message: Vec<u8>) -> Result<M, (GrpcCode, String)> {
    ask_with(router, method, &[], message).await
}

/// Sends one frame with this metadata.
async fn ask_with<M: Message + Default>(
    router: &Router,
    method: &str,
    metadata: &[(&str, &str)],
    message: Vec<u8>,
) -> Result<M, (GrpcCode, String)> {
    let mut frame = vec![0];
    frame.extend(u32::try_from(message.len()).unwrap().to_be_bytes());
    frame.extend(message);
    let request = Request::post(method).header("content-type", "application/grpc").header("te", "trailers");
    let request = metadata.iter().fold(request, |request, (name, value)| request.header(*name, *value));
    let response = router.clone().oneshot(request.body(Body::from(frame)).unwrap()).await.unwrap();
    let (parts, body) = response.into_parts();
    let body = body.collect().await.unwrap();
    let status = |headers: &HeaderMap| tonic::Status::from_header_map(headers);
    let status = body.trailers().and_then(status).or_else(|| status(&parts.headers)).unwrap();
    match status.code() {
        GrpcCode::Ok => Ok(M::decode(&body.to_bytes()[5..]).unwrap()),
        code => Err((code, status.message().to_owned())),
    }
}

fn router() -> Router {
    crate::router(builder(CONFIG, EnvoySettings::default()).start().unwrap())
}

/// Returns the builder of an agent with the configuration of a domain.
fn builder(config: &str, settings: EnvoySettings) -> Builder {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("web.yaml"), config).unwrap();
    let rules = RulesSource::Envoy(folder.path().to_owned(), settings).read(Timestamp::from_ms(1)).unwrap();
    Agent::builder().node("gw-1").rules(rules)
}

fn descriptor(entries: &[(&str, &str)]) -> RateLimitDescriptor {
    let entry = |(key, value): &(&str, &str)| Entry { key: (*key).into(), value: (*value).into() };
    RateLimitDescriptor { entries: entries.iter().map(entry).collect(), ..RateLimitDescriptor::default() }
}

fn request(descriptors: Vec<RateLimitDescriptor>) -> RateLimitRequest {
    RateLimitRequest { domain: "web".to_owned(), descriptors, hits_addend: 0 }
}

async fn limit(router: &Router, request: &RateLimitRequest) -> Result<RateLimitResponse, (GrpcCode, String)> {
    ask(router, SHOULD_RATE_LIMIT, request.encode_to_vec()).await
}

/// Returns the question of `ext_authz` about a request with these headers.
fn check_request(headers: &[(&str, &str)]) -> CheckRequest {
    let headers = headers.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    let http = HttpRequest { method: "GET".to_owned(), path: "/".to_owned(), headers, ..HttpRequest::default() };
    CheckRequest { attributes: Some(AttributeContext { request: Some(AttributeRequest { http: Some(http) }) }) }
}

/// P1: the status of each descriptor has the limit that decided it, and the answer the headers of HTTP.
#[tokio::test]
async fn each_descriptor_has_a_status_of_its_own() {
    let router = router();
    let both = request(vec![descriptor(&[("user", "u1")]), descriptor(&[("user", "u1"), ("path", "/slow")])]);
    let passed = limit(&router, &both).await.unwrap();
    assert_eq!(passed.overall_code(), Code::Ok);
    let shown = |response: &RateLimitResponse| -> Vec<_> {
        let statuses = response.statuses.iter();
        statuses
            .map(|status| {
                let limit = status.current_limit.as_ref().unwrap();
                (status.code(), limit.requests_per_unit, limit.unit(), status.limit_remaining)
            })
            .collect()
    };
    assert_eq!(shown(&passed), [(Code::Ok, 3, Unit::Minute, 2), (Code::Ok, 1, Unit::Week, 0)]);
    let denied = limit(&router, &both).await.unwrap();
    assert_eq!(denied.overall_code(), Code::OverLimit);
    assert_eq!(shown(&denied), [(Code::Ok, 3, Unit::Minute, 1), (Code::OverLimit, 1, Unit::Week, 0)]);
    let reset = denied.statuses[1].duration_until_reset.unwrap();
    assert!((1..=7 * 86_400).contains(&reset.seconds), "{reset:?}");
    let header = |name: &str| {
        let header = denied.response_headers_to_add.iter().find(|header| header.key == name);
        header.unwrap_or_else(|| panic!("no {name}")).value.clone()
    };
    assert_eq!((&*header("x-ratelimit-limit"), &*header("x-gateway-node")), ("1", "gw-1"));
    assert!(header("retry-after").parse::<u64>().unwrap() >= 1);
    let rule = denied.statuses[1].current_limit.as_ref().unwrap().name.clone();
    let metadata = denied.dynamic_metadata.unwrap().fields;
    assert_eq!(metadata["rule"].kind, Some(Kind::StringValue(rule)));
    assert_eq!(metadata["source"].kind, Some(Kind::StringValue("store".to_owned())));
}

/// A14: hits of the request and of one descriptor.
#[tokio::test]
async fn hits_are_those_of_the_descriptor_or_of_the_request() {
    let router = router();
    let plan = |plan, hits_addend| RateLimitDescriptor { hits_addend, ..descriptor(&[("plan", plan)]) };
    let both = request(vec![plan("free", None), plan("paid", Some(4))]);
    let response = limit(&router, &RateLimitRequest { hits_addend: 2, ..both }).await.unwrap();
    let remaining: Vec<_> = response.statuses.iter().map(|status| status.limit_remaining).collect();
    assert_eq!(remaining, [3, 3]);
    let asked = limit(&router, &request(vec![plan("free", Some(0))])).await.unwrap();
    assert_eq!(asked.statuses[0].limit_remaining, 3, "0 hits ask without charging");
    let units = response.statuses.iter().map(|status| status.current_limit.as_ref().unwrap().unit());
    assert_eq!(units.collect::<Vec<_>>(), [Unit::Month, Unit::Year]);
}

/// A descriptor without a rule passes; one with a limit of 0 never does.
#[tokio::test]
async fn descriptors_without_a_rule_pass() {
    let router = router();
    let response = limit(&router, &request(vec![descriptor(&[("other", "x")])])).await.unwrap();
    assert_eq!((response.overall_code(), response.statuses[0].current_limit.is_none()), (Code::Ok, true));
    let response = limit(&router, &request(vec![descriptor(&[("closed", "x")])])).await.unwrap();
    assert_eq!(response.overall_code(), Code::OverLimit);
}

/// P1: Envoy copies headers of clients into descriptors. Bytes that are no UTF-8 and long values select counters as any other value,
/// because Envoy lets a request pass that gets no decision.
#[tokio::test]
async fn no_value_of_a_client_keeps_a_request_from_its_limits() {
    let bytes = |value: &[u8]| {
        let entries = vec![Entry { key: "user".into(), value: value.to_vec() }];
        RateLimitDescriptor { entries, ..RateLimitDescriptor::default() }
    };
    for value in [&b"k\xff"[..], &[0xff; 2_000], "é".repeat(1_000).as_bytes()] {
        let router = router();
        let of_client = request(vec![bytes(value), descriptor(&[("user", "u1")])]);
        let mut last = limit(&router, &of_client).await.unwrap();
        let quota = last.statuses[0].current_limit.as_ref().expect("the value has a counter").requests_per_unit;
        for _ in 0..quota {
            last = limit(&router, &of_client).await.unwrap();
        }
        let codes: Vec<_> = last.statuses.iter().map(DescriptorStatus::code).collect();
        assert_eq!(codes, [Code::OverLimit; 2], "after {quota} calls of {value:?}");
    }
}

/// An invalid request is told what is wrong with it.
#[tokio::test]
async fn an_invalid_request_is_refused_with_a_remedy() {
    let router = router();
    let many = |len| request(vec![descriptor(&[("user", "u1")]); len]);
    let wide: Vec<_> = (0..32).map(|number| Entry { key: format!("k{number}").into(), value: "v".into() }).collect();
    let hour = RateLimitOverride { requests_per_unit: 5, unit: RateLimitUnit::Hour.into() };
    let with_hour = RateLimitDescriptor { limit: Some(hour), ..descriptor(&[("user", "u1")]) };
    let negative = RateLimitDescriptor { is_negative_hits: true, ..descriptor(&[("user", "u1")]) };
    let with_limit = RateLimitDescriptor { limit: Some(RateLimitOverride::default()), ..descriptor(&[("user", "u1")]) };
    for (refused, why) in [
        (RateLimitRequest::default(), "the `domain` is missing"),
        (many(0), "it has 0 descriptors; it must have 1 to 64"),
        (many(65), "it has 65 descriptors"),
        (request(vec![descriptor(&[])]), "descriptor 1: it has 0 entries; it must have 1 to 31"),
        (request(vec![RateLimitDescriptor { entries: wide, ..descriptor(&[]) }]), "it has 32 entries"),
        (request(vec![descriptor(&[("", "x")])]), "the name of a descriptor has 0 bytes"),
        (request(vec![with_limit]), "it brings a limit of 0 requests per UNKNOWN; it must have"),
        (
            request(vec![with_hour]),
            "no rule takes one for it; write `quota: { from: limit, default: 100/min }` in the rule",
        ),
        (
            request(vec![negative]),
            "rule `web/user` gives back no units without the `id` of a call; write `refunds: true`",
        ),
    ] {
        let (code, text) = limit(&router, &refused).await.unwrap_err();
        assert_eq!(code, GrpcCode::InvalidArgument, "{text}");
        assert!(text.contains(why), "{text}");
    }
    let (code, _) = ask::<RateLimitResponse>(&router, SHOULD_RATE_LIMIT, vec![0xff; 9]).await.unwrap_err();
    assert_ne!(code, GrpcCode::Ok);
    let (code, text) = ask::<RateLimitResponse>(&router, "/envoy.service.none.v3.None/Ask", vec![]).await.unwrap_err();
    assert_eq!(code, GrpcCode::Unimplemented);
    assert!(text.contains("RateLimitService/ShouldRateLimit"), "{text}");
}

/// Probes learn what `/readyz` says, also while the agent drains.
#[tokio::test]
async fn the_health_service_reports_readiness() {
    let check = |service: &str| HealthCheckRequest { service: service.to_owned() }.encode_to_vec();
    let path = "/grpc.health.v1.Health/Check";
    let agent = builder(CONFIG, EnvoySettings::default()).start().unwrap();
    let router = crate::router(agent.clone());
    for status in [ServingStatus::Serving, ServingStatus::NotServing] {
        for service in ["", "envoy.service.ratelimit.v3.RateLimitService"] {
            let health: HealthCheckResponse = ask(&router, path, check(service)).await.unwrap();
            assert_eq!(health.status(), status, "{service}");
        }
        agent.drain();
    }
    let (code, text) = ask::<HealthCheckResponse>(&router, path, check("other")).await.unwrap_err();
    assert_eq!((code, text.contains("unknown service `other`")), (GrpcCode::NotFound, true));
}

/// Tools on the same machine read the schemas; others are refused.
#[tokio::test]
async fn only_peers_on_the_same_machine_read_the_schemas() {
    // The field `list_services` of a request, which is empty.
    let frame = [0, 0, 0, 0, 2, 0x3a, 0];
    for (peer, may_read) in [([127, 0, 0, 1], true), ([192, 0, 2, 1], false)] {
        let request = Request::post("/grpc.reflection.v1.ServerReflection/ServerReflectionInfo");
        let request = request.header("content-type", "application/grpc").header("te", "trailers");
        let request = request.extension(ConnectInfo(Peer::from(SocketAddr::from((peer, 9)))));
        let response = router().oneshot(request.body(Body::from(frame.to_vec())).unwrap()).await.unwrap();
        let is_refused = tonic::Status::from_header_map(response.headers())
            .is_some_and(|status| status.code() == GrpcCode::PermissionDenied);
        let body = response.into_body().collect().await.unwrap().to_bytes();
        let names = String::from_utf8_lossy(&body);
        assert_eq!((is_refused, names.contains("envoy.service.ratelimit.v3.RateLimitService")), (!may_read, may_read));
    }
}

/// A client that does not speak gRPC is told so.
#[tokio::test]
async fn a_client_of_http_is_told_which_protocol_this_is() {
    let response = router().oneshot(Request::get("/check").body(Body::empty()).unwrap()).await.unwrap();
    assert_eq!(response.status(), 415);
    let text = response.into_body().collect().await.unwrap().to_bytes();
    assert!(text.starts_with(b"this address speaks gRPC"));
}
