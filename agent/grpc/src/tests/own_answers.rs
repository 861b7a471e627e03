//! Own answers of rules over `ext_authz` and the rate limit service.

use serde_json::{Value, json};

use super::*;
use crate::proto::envoy::config::core::v3::HeaderValueOption;
use crate::proto::envoy::service::auth::v3::CheckResponse;
use crate::proto::envoy::service::auth::v3::check_response::HttpResponse;

const RULES: &str = r#"
rules:
  - name: own
    match: { api_key: own* }
    per: [api_key]
    quota: 1/min
    answer: { status: 503, body: nested, message: "Wait, please.", fields: { plan: free }, hide: [RateLimit, RateLimit-Policy] }
  - { name: shadowed, match: { api_key: shadowed }, per: [api_key], quota: 1/min, shadow: true, answer: { status: 420 } }
  - { name: limited, match: { domain: web }, per: [user], quota: 1/min, answer: { status: 420, hide: [RateLimit] } }
"#;

fn own_router() -> Router {
    let rules = tollgate_rules::from_yaml("rules.yaml", RULES, 1).unwrap();
    crate::router(Agent::builder().node("gw-1").rules(rules).start().unwrap())
}

async fn check(router: &Router, key: &str) -> HttpResponse {
    let request = check_request(&[("x-api-key", key)]);
    ask::<CheckResponse>(router, CHECK, request.encode_to_vec()).await.unwrap().http_response.unwrap()
}

fn names(headers: &[HeaderValueOption]) -> Vec<&str> {
    headers.iter().map(|option| &*option.header.as_ref().unwrap().key).collect()
}

/// H3: Envoy gives the client the status, the body and the headers of the rule, and the backend still sees no hidden header of the
/// client.
#[tokio::test]
async fn external_authorization_gives_the_answer_of_the_rule() {
    let router = own_router();
    let HttpResponse::OkResponse(passed) = check(&router, "own-1").await else { panic!("admitted") };
    assert!(names(&passed.response_headers_to_add).contains(&"x-ratelimit-limit"));
    assert!(!names(&passed.response_headers_to_add).contains(&"ratelimit"));
    assert!(passed.headers_to_remove.iter().any(|name| name == "ratelimit"));
    let HttpResponse::DeniedResponse(denied) = check(&router, "own-1").await else { panic!("denied") };
    assert_eq!(denied.status.unwrap().code, 503);
    let body: Value = serde_json::from_str(&denied.body).unwrap();
    assert_eq!(json!([body["error"]["message"], body["plan"]]), json!(["Wait, please.", "free"]));
    let names = names(&denied.headers);
    assert!(names.contains(&"retry-after") && !names.contains(&"ratelimit-policy"), "{names:?}");
}

/// H3: a rule in shadow never answers.
#[tokio::test]
async fn external_authorization_passes_calls_of_a_rule_in_shadow() {
    let router = own_router();
    for _ in 0..2 {
        let HttpResponse::OkResponse(passed) = check(&router, "shadowed").await else { panic!("admitted") };
        assert_eq!(names(&passed.response_headers_to_add), ["x-gateway-node"]);
    }
}

/// H3: the rate limit service hides headers. The status is that of Envoy's filter.
#[tokio::test]
async fn the_rate_limit_service_hides_headers() {
    let router = own_router();
    for code in [Code::Ok, Code::OverLimit] {
        let answer = limit(&router, &request(vec![descriptor(&[("user", "u1")])])).await.unwrap();
        assert_eq!(answer.overall_code(), code);
        let names: Vec<_> = answer.response_headers_to_add.iter().map(|header| &*header.key).collect();
        assert!(names.contains(&"x-ratelimit-limit") && !names.contains(&"ratelimit"), "{names:?}");
    }
}
