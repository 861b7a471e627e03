//! Responses of `/check`.

use http::StatusCode;
use tollgate::Agent;

use crate::support::{Answer, CALL, Sidecar};

/// H1: an admission reports the state of the limit.
#[tokio::test]
async fn an_allowed_call_is_a_200_with_headers_and_body() {
    let mut client = Sidecar::start(&["api_key"]).await.client().await;
    let answer = client.get("/check", &[("x-api-key", "k1")]).await;
    assert_eq!((answer.status, answer.header("content-type")), (StatusCode::OK, "application/json"));
    assert_eq!(answer.header("x-gateway-node"), "gw-1");
    assert_eq!((answer.header("x-ratelimit-limit"), answer.header("x-ratelimit-remaining")), ("2", "1"));
    assert!(answer.header("x-ratelimit-reset").parse::<u64>().unwrap() > 1_700_000_000);
    assert!(answer.header("ratelimit").starts_with("\"pair\";r=1;t="));
    assert_eq!(answer.header("ratelimit-policy"), "\"pair\";q=2;w=60");
    assert_eq!(answer.header("cache-control"), "no-store");
    assert!(answer.headers.get("retry-after").is_none());
    let body = answer.json();
    assert_eq!((body["allowed"].as_bool(), body["rule"].as_str()), (Some(true), Some("pair")));
    assert_eq!((body["limit"].as_u64(), body["remaining"].as_u64()), (Some(2), Some(1)));
}

/// H2, H5: a denial contains the time to retry, in headers and body.
#[tokio::test]
async fn a_denied_call_is_a_429_problem_with_the_time_to_retry() {
    let mut client = Sidecar::start(&["api_key"]).await.client().await;
    assert_eq!(client.post(CALL).await.status, StatusCode::OK);
    assert_eq!(client.post(CALL).await.status, StatusCode::OK);
    let answer = client.post(CALL).await;
    assert_eq!((answer.status.as_u16(), answer.header("content-type")), (429, "application/problem+json"));
    let body = answer.json();
    let retry_after_ms = body["retry_after_ms"].as_u64().unwrap();
    assert!((1..=65_000).contains(&retry_after_ms));
    assert!(answer.header("retry-after").parse::<u64>().unwrap() * 1_000 >= retry_after_ms);
    assert_eq!((body["allowed"].as_bool(), body["status"].as_u64()), (Some(false), Some(429)));
    assert_eq!((answer.header("x-ratelimit-remaining"), answer.header("x-gateway-node")), ("0", "gw-1"));
}

/// A14: a call may cost more than one unit; it is charged completely or not at all.
#[tokio::test]
async fn a_cost_in_the_body_is_charged() {
    let mut client = Sidecar::start(&["api_key"]).await.client().await;
    let call = |cost: u64| format!(r#"{{"descriptors": {{"api_key": "k1"}}, "cost": {cost}}}"#);
    assert_eq!(client.post(call(3)).await.status.as_u16(), 403);
    assert_eq!(client.post(call(2)).await.status, StatusCode::OK);
    assert_eq!(client.post(call(1)).await.status.as_u16(), 429);
    assert_eq!(client.post(call(tollgate_core::call::COST_MAX)).await.status.as_u16(), 403);
}

/// A call of cost 0 tells what is left, and charges nothing, also under rules with costs of their own.
#[tokio::test]
async fn a_call_of_cost_0_asks_without_a_charge() {
    let rules = "rules: [{ name: own, per: [api_key], quota: 9/min, cost: 4 }, { name: log, per: [api_key], quota: 5/min, algorithm: sliding_log }]";
    let rules = tollgate_rules::from_yaml("rules.yaml", rules, 7).unwrap();
    let mut client = Sidecar::of(Agent::builder().rules(rules).start().unwrap()).await.client().await;
    let call = |cost: u64| format!(r#"{{"descriptors": {{"api_key": "k1"}}, "cost": {cost}}}"#);
    for _ in 0..20 {
        let asked = client.post(call(0)).await;
        assert_eq!((asked.status, asked.header("x-ratelimit-remaining")), (StatusCode::OK, "9"));
    }
    assert_eq!(client.post(call(1)).await.status, StatusCode::OK);
    assert_eq!(client.post(call(0)).await.header("x-ratelimit-remaining"), "5");
}

/// P2: a request is counted by its peer address, its method and its path.
#[tokio::test]
async fn a_request_is_described_by_itself() {
    let sidecar = Sidecar::start(&["ip", "method", "endpoint"]).await;
    let mut client = sidecar.client().await;
    for remaining in ["1", "0"] {
        assert_eq!(client.get("/check?x=1", &[]).await.header("x-ratelimit-remaining"), remaining);
    }
    assert_eq!(client.ask("HEAD", "/check", &[], "").await.header("x-ratelimit-remaining"), "1", "another method");
    let same = client.ask(
        "POST",
        "/check",
        &[],
        r#"{"descriptors": {"ip": "127.0.0.1", "method": "GET", "endpoint": "/check"}}"#,
    );
    assert_eq!(same.await.status.as_u16(), 429);
}

/// P1: Envoy forwards the client's method, and its path behind a prefix. Headers with another path are from the client.
#[tokio::test]
async fn a_path_behind_check_is_the_path_of_the_client() {
    let mut client = Sidecar::start(&["method", "endpoint"]).await.client().await;
    let forged = [("x-forwarded-uri", "/free"), ("x-original-uri", "/other"), ("x-forwarded-method", "GET")];
    assert_eq!(client.ask("POST", "/check/users/17?page=2", &[], CALL).await.header("x-ratelimit-remaining"), "1");
    assert_eq!(client.ask("POST", "/check//users/18/", &forged, "").await.header("x-ratelimit-remaining"), "0");
    let same = r#"{"descriptors": {"method": "POST", "endpoint": "/users/{id}"}}"#;
    assert_eq!(client.post(same).await.status.as_u16(), 429);
    for path in ["/check/", "/check/%ff%2F", "/check/check", "/check/settle"] {
        assert_eq!(client.ask("DELETE", path, &[], "").await.header("x-ratelimit-remaining"), "1", "{path}");
    }
    let root = r#"{"descriptors": {"method": "DELETE", "endpoint": "/"}}"#;
    assert_eq!(client.post(root).await.header("x-ratelimit-remaining"), "0");
}

/// P1: gateways that check by subrequest forward the client's request in headers.
#[tokio::test]
async fn a_gateway_forwards_the_request_that_it_checks() {
    let mut client = Sidecar::start(&["method", "endpoint"]).await.client().await;
    let traefik = [("x-forwarded-method", "POST"), ("x-forwarded-uri", "/users/17?page=2")];
    let nginx = [("x-original-method", "post"), ("x-original-uri", "http://shop.example/users/18")];
    assert_eq!(client.get("/check", &traefik).await.header("x-ratelimit-remaining"), "1");
    assert_eq!(client.get("/check", &nginx).await.header("x-ratelimit-remaining"), "0");
    assert_eq!(client.get("/check", &traefik).await.status.as_u16(), 429);
    assert_eq!(client.get("/check", &[]).await.status, StatusCode::OK, "another endpoint");
}

/// P1: ingress-nginx forwards a whole URL. The same request in two forms agrees.
#[tokio::test]
async fn ingress_nginx_forwards_a_whole_url() {
    let mut client = Sidecar::start(&["method", "endpoint"]).await.client().await;
    let url = ("x-original-url", "https://shop.example/users/17?page=2");
    let ingress = [("x-original-method", "POST"), url];
    let both = [("x-original-method", "POST"), url, ("x-original-uri", "/users/17?page=2")];
    assert_eq!(client.get("/check", &ingress).await.header("x-ratelimit-remaining"), "1");
    assert_eq!(client.get("/check", &both).await.header("x-ratelimit-remaining"), "0");
    let call = r#"{"descriptors": {"method": "POST", "endpoint": "/users/{id}"}}"#;
    assert_eq!(client.post(call).await.status.as_u16(), 429, "it is the same endpoint");
    let other = [url, ("x-original-uri", "/login")];
    assert_eq!(client.get("/check", &other).await.status.as_u16(), 400, "one of the two is the client's");
}

/// Callers that use the same id on a shared counter are charged each.
#[tokio::test]
async fn a_request_id_is_one_of_its_caller() {
    let rules = tollgate_rules::from_yaml("rules.yaml", "rules: [{ name: all, per: [], quota: 10/min }]", 7).unwrap();
    let mut client = Sidecar::of(Agent::builder().rules(rules).start().unwrap()).await.client().await;
    let call = |user: u32| format!(r#"{{"descriptors": {{"user": "u{user}"}}, "id": "same"}}"#);
    let mut passed = 0;
    for user in 0..30 {
        passed += u32::from(client.post(call(user)).await.status == StatusCode::OK);
    }
    assert_eq!(passed, 10);
    assert_eq!(client.post(call(0)).await.status, StatusCode::OK, "a retry of the caller is not charged again");
}

/// Calls that are denied regardless of their count get 429 with a time, or 403 without one, as the rules say.
#[tokio::test]
async fn the_status_of_the_deny_list_is_a_setting_of_the_rules() {
    for (setting, expected) in [("", 429), ("deny_status: 429", 429), ("deny_status: 403", 403)] {
        let rules = format!(
            "{setting}
rules:
  - {{ name: closed, match: {{ endpoint: /closed }}, deny: true }}
  - {{ name: pair, per: [api_key], quota: 1/min }}
lists: {{ deny: [{{ api_key: stolen }}] }}"
        );
        let rules = tollgate_rules::from_yaml("rules.yaml", &rules, 7).unwrap();
        let mut client = Sidecar::of(Agent::builder().rules(rules).start().unwrap()).await.client().await;
        for (body, rule, by) in [
            (r#"{"descriptors": {"api_key": "stolen"}}"#, "lists.deny", "the deny list"),
            (r#"{"descriptors": {"endpoint": "/closed"}}"#, "closed", "closed"),
        ] {
            let denied = client.post(body).await;
            assert_eq!((denied.status.as_u16(), denied.header("content-type")), (expected, "application/problem+json"));
            assert_eq!(denied.headers.contains_key("retry-after"), expected == 429);
            let problem = denied.json();
            assert_eq!((&problem["status"], &problem["rule"]), (&expected.into(), &rule.into()));
            assert_eq!(problem["retry_after_ms"].is_null(), expected == 403);
            assert_eq!(problem["detail"], format!("{by} denies this call regardless of its count"));
        }
        let json = r#"{"domain": "d", "descriptors": [{"entries": [{"key": "api_key", "value": "stolen"}]}]}"#;
        let denied = client.ask("POST", "/json", &[], json).await;
        assert_eq!((denied.status.as_u16(), &denied.json()["overallCode"]), (expected, &"OVER_LIMIT".into()));
        assert_eq!(client.post(CALL).await.status, StatusCode::OK);
        assert_eq!(client.post(CALL).await.status.as_u16(), 429, "a quota denies with 429");
        let explained = client.ask("POST", "/explain", &[], r#"{"descriptors": {"endpoint": "/closed"}}"#).await.json();
        let why = format!("it denies what it matches, with status {expected}");
        assert_eq!((&explained["deny_status"], &explained["rules"][0]["why"]), (&expected.into(), &why.into()));
    }
}

/// `/explain` names the answer that the agent holds for a rule.
#[tokio::test]
async fn an_explanation_names_the_cached_denial() {
    let rules = "rules: [{ name: pair, per: [api_key], quota: 1/h }, { name: other, per: [user], quota: 1/h }]";
    let rules = tollgate_rules::from_yaml("rules.yaml", rules, 7).unwrap();
    let mut client = Sidecar::of(Agent::builder().rules(rules).start().unwrap()).await.client().await;
    let held = |explained: serde_json::Value| [0, 1].map(|rule: usize| explained["rules"][rule]["by"].clone());
    assert_eq!(client.post(CALL).await.status, StatusCode::OK);
    assert_eq!(held(client.ask("POST", "/explain", &[], CALL).await.json()), [const { serde_json::Value::Null }; 2]);
    assert_eq!(client.post(CALL).await.status.as_u16(), 429);
    let denied = client.ask("POST", "/explain", &[], CALL).await.json();
    assert_eq!(held(denied), ["cached_denial".into(), serde_json::Value::Null]);
}

/// `/json` has the status of the denial that no retry changes, at any place among its descriptors.
#[tokio::test]
async fn a_request_of_envoy_gets_the_status_of_the_deny_list() {
    for (setting, expected) in [("", 429), ("deny_status: 403", 403)] {
        let rules = format!(
            "{setting}\nrules: [{{ name: none, match: {{ domain: d }}, per: [path], quota: 1/h }}]\nlists: {{ deny: [{{ domain: d, user: stolen }}] }}"
        );
        let rules = tollgate_rules::from_yaml("rules.yaml", &rules, 7).unwrap();
        let mut client = Sidecar::of(Agent::builder().rules(rules).start().unwrap()).await.client().await;
        let [limited, stolen] = [("path", "/x"), ("user", "stolen")]
            .map(|(key, value)| serde_json::json!({ "entries": [{ "key": key, "value": value }] }));
        let mut ask = async |descriptors: &[&serde_json::Value]| {
            let json = serde_json::json!({ "domain": "d", "descriptors": descriptors }).to_string();
            let denied = client.ask("POST", "/json", &[], json).await;
            denied.status.as_u16()
        };
        assert_eq!([ask(&[&limited]).await, ask(&[&limited]).await], [200, 429]);
        for descriptors in [&[&stolen][..], &[&limited, &stolen], &[&stolen, &limited]] {
            assert_eq!(ask(descriptors).await, expected);
        }
    }
}

/// A8: with `wait=true`, the answer comes at the turn of the call, so a client that waits for it needs no timer of its own.
#[tokio::test]
async fn an_answer_is_held_back_until_the_turn_of_its_call() {
    let queue = "rules: [{ name: queue, match: { of: x }, per: [], quota: 2/s, algorithm: leaky_bucket, burst: 9 }]";
    let rules = tollgate_rules::from_yaml("rules.yaml", queue, 1).unwrap();
    let mut client = Sidecar::of(Agent::builder().rules(rules).start().unwrap()).await.client().await;
    let call = r#"{"descriptors": {"of": "x"}}"#;
    let delay = |answer: &Answer| answer.json().get("delay_ms").and_then(serde_json::Value::as_u64);
    assert_eq!(delay(&client.post(call.to_owned()).await), None, "the first call has its turn at once");
    let told = client.post(call.to_owned()).await;
    assert!(delay(&told).is_some_and(|delay_ms| delay_ms > 0), "the second one is told to wait");
    for _ in 0..3 {
        let held = client.ask("POST", "/check?wait=true", &[], call.to_owned()).await;
        assert_eq!((held.status, delay(&held)), (StatusCode::OK, None));
        assert!(held.headers.get("x-ratelimit-delay-ms").is_none());
    }
    // Held answers come at their turns, so a call after them has to wait for one turn at most, and not for four.
    let next = delay(&client.post(call.to_owned()).await).unwrap_or_default();
    assert!(next <= 500, "{next}");
    let detail = client.ask("POST", "/check?wait=1s", &[], call.to_owned()).await.problem(400);
    assert!(detail.contains("wait=1s is not known; write wait=true"), "{detail}");
}

/// Two rules that count and one in shadow: by default the deciding rule is told, and with `policies=all` both that clients see.
#[tokio::test]
async fn all_policies_are_told_when_asked_for() {
    const RULES: &str = "rules: [{ name: tenant, per: [tenant], quota: 10/h }, { name: key, per: [api_key], quota: 2/min }, { name: trial, per: [api_key], quota: 1/min, shadow: true }]";
    let rules = tollgate_rules::from_yaml("rules.yaml", RULES, 1).unwrap();
    let mut client = Sidecar::of(Agent::builder().rules(rules).start().unwrap()).await.client().await;
    let call = r#"{"descriptors": {"tenant": "t", "api_key": "k"}}"#;
    let mut ask = async |query: &str| client.ask("POST", &format!("/check{query}"), &[], call).await;
    let (key, tenant) = (r#""key";q=2;w=60"#, r#""tenant";q=10;w=3600"#);
    assert_eq!(ask("").await.header("ratelimit-policy"), key);
    let answer = ask("?policies=all").await;
    assert_eq!(answer.header("ratelimit-policy"), format!("{key}, {tenant}"));
    let limits: Vec<_> =
        answer.header("ratelimit").split(", ").map(|limit| limit.split(";t=").next().unwrap()).collect();
    assert_eq!(limits, [r#""key";r=0"#, r#""tenant";r=8"#]);
    assert_eq!(answer.header("x-ratelimit-limit"), "2");
    let denied = ask("?policies=all").await;
    assert_eq!((denied.status.as_u16(), denied.header("ratelimit-policy")), (429, &*format!("{key}, {tenant}")));
    let full_again_s = denied.header("ratelimit").rsplit(";t=").next().and_then(|s| s.parse::<u64>().ok());
    assert!(full_again_s.is_some_and(|s| s > 3_000), "{}", denied.header("ratelimit"));
    let detail = ask("?policies=key").await.problem(400);
    assert!(detail.contains("policies=key is not known; write policies=all"), "{detail}");
}

/// H6: the usage of a user and of a tenant is read without a charge; over time, aggregators and metrics show it.
#[tokio::test]
async fn current_usage_is_read_without_a_charge() {
    const RULES: &str =
        "rules: [{ name: tenant, per: [tenant], quota: 10/h }, { name: user, per: [user], quota: 5/h }]";
    let rules = tollgate_rules::from_yaml("rules.yaml", RULES, 1).unwrap();
    let mut client = Sidecar::of(Agent::builder().rules(rules).start().unwrap()).await.client().await;
    for user in ["a", "a", "b"] {
        let call = format!(r#"{{"descriptors": {{"tenant": "t", "user": "{user}"}}}}"#);
        assert_eq!(client.post(call).await.status, StatusCode::OK);
    }
    for _ in 0..10 {
        for (caller, used) in [(r#""user": "a""#, 2), (r#""user": "b""#, 1), (r#""tenant": "t""#, 3)] {
            let usage = client.post(format!(r#"{{"descriptors": {{{caller}}}, "cost": 0}}"#)).await.json();
            let count = |name: &str| usage[name].as_u64().unwrap();
            assert_eq!(count("limit") - count("remaining"), used, "{caller}: {usage}");
        }
    }
}
