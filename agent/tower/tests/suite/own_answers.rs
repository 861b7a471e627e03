//! Own answers of rules on the responses of the layer.

use axum::Router;
use axum::routing::get;
use serde_json::json;
use tollgate::Agent;
use tollgate_servers::wait_for;
use tollgate_tower::RateLimitLayer;
use tonic::{Code, Request};
use tonic_health::pb::HealthCheckRequest;

use crate::grpc;
use crate::support::{Client, agent, serve};

const RULES: &str = r#"
rules:
  - name: own
    match: { api_key: own* }
    per: [api_key]
    quota: 1/min
    answer: { status: 503, body: nested, message: "Wait, please.", fields: { plan: free }, hide: [RateLimit] }
  - { name: per-ip, per: [ip], quota: 100/min, answer: { status: 420, message: Not this one } }
  - { name: shadowed, match: { api_key: own* }, per: [api_key], quota: 1/h, shadow: true, answer: { status: 421 } }
"#;

async fn client(agent: Agent) -> Client {
    let router = Router::new().fallback(get(|| async { "found" })).layer(RateLimitLayer::new(agent));
    Client::connect(serve(router).await).await
}

/// H3: of several rules, the one that denies gives the answer, as over `/check`.
#[tokio::test]
async fn a_denied_request_has_the_answer_of_its_rule() {
    let mut client = client(agent(RULES)).await;
    let key = [("x-api-key", "own-1")];
    let admitted = client.get("/", &key).await;
    assert_eq!((admitted.status.as_u16(), admitted.headers.get("ratelimit")), (200, None));
    assert_eq!(admitted.header("x-ratelimit-limit"), "1");
    let denied = client.get("/", &key).await;
    assert_eq!((denied.status.as_u16(), denied.header("content-type")), (503, "application/json"));
    let (body, retry_after) = (denied.json(), denied.header("retry-after").parse::<u64>().unwrap());
    let error = &body["error"];
    assert_eq!(json!([error["message"], body["plan"]]), json!(["Wait, please.", "free"]));
    assert_eq!(error["details"]["retry_after_seconds"], retry_after);
    assert!(!denied.headers.contains_key("ratelimit"));
}

/// H3: a client of gRPC gets the text of the rule. The status of gRPC says whether a retry may pass.
#[tokio::test]
async fn a_denied_request_of_grpc_has_the_text_of_its_rule() {
    let mut client = grpc::client(grpc::start(RateLimitLayer::new(agent(RULES))).await).await;
    let request = || {
        let mut request = Request::new(HealthCheckRequest::default());
        request.metadata_mut().insert("x-api-key", "own-1".parse().unwrap());
        request
    };
    client.check(request()).await.unwrap();
    let denial = client.check(request()).await.unwrap_err();
    assert_eq!((denial.code(), denial.message()), (Code::ResourceExhausted, "Wait, please."));
    assert!(denial.metadata().contains_key("retry-after") && !denial.metadata().contains_key("ratelimit"));
}

/// H3: a reload changes the answers of calls that are already known.
#[tokio::test]
async fn a_reload_changes_the_answers() {
    let file = std::env::temp_dir().join(format!("tollgate-tower-answers-{}.yaml", std::process::id()));
    let rule = |answer| format!("rules: [{{ name: a, per: [ip], quota: 1/h, answer: {answer} }}]");
    std::fs::write(&file, rule("{ status: 420 }")).unwrap();
    let agent = Agent::builder().rules_file(&file).start().unwrap();
    let mut client = client(agent.clone()).await;
    for status in [200, 420, 420] {
        assert_eq!(client.get("/", &[]).await.status.as_u16(), status);
    }
    let generation = || agent.engine().with_rules(|rules| rules.generation);
    let before = generation();
    std::fs::write(&file, rule("{ status: 422 }")).unwrap();
    wait_for("the reload", || (generation() != before).then_some(()));
    std::fs::remove_file(&file).unwrap();
    assert_eq!(client.get("/", &[]).await.status.as_u16(), 422);
}
