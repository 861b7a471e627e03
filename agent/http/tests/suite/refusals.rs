//! Responses to invalid requests.

use http::StatusCode;

use crate::support::{CALL, Sidecar};

const BODY_BYTES_MAX: usize = tollgate_http::BODY_BYTES_MAX_DEFAULT as usize;

/// A client that sends the header which the gateway does not set cannot choose the endpoint that it is counted under.
#[tokio::test]
async fn contradicting_headers_are_rejected() {
    let mut client = Sidecar::start(&["endpoint"]).await.client().await;
    let forged = [("x-original-uri", "/search"), ("x-forwarded-uri", "/free")];
    let detail = client.get("/check", &forged).await.problem(400);
    assert!(
        detail.contains("contradict each other; configure the gateway to set one and to clear the others"),
        "{detail}"
    );
    let twice = [("x-forwarded-uri", "/search"), ("x-forwarded-uri", "/free")];
    client.get("/check", &twice).await.problem(400);
    let agreeing = [("x-original-uri", "/search"), ("x-forwarded-uri", "/search")];
    assert_eq!(client.get("/check", &agreeing).await.status, StatusCode::OK);
}

#[tokio::test]
async fn an_invalid_call_is_a_400_and_the_connection_stays_open() {
    let mut client = Sidecar::start(&["api_key"]).await.client().await;
    for (body, reason) in [
        ("{\n  \"descriptors\": {\"api_key\" \"k1\"}\n}", "expected `:` at line 2 column 29"),
        (r#"{"descriptors": {"api_key": "k1"}, "costs": 1}"#, "unknown field `costs`"),
        (r#"{"descriptors": {"api_key": "k1"}, "cost": -1}"#, "`cost`: it must be a whole number from 0"),
        (r#"{"descriptors": {"api_key": ["k1"]}}"#, "`api_key`: invalid type: sequence, expected a string at line 1"),
        ("", "the body is empty"),
    ] {
        let detail = client.post(body).await.problem(400);
        assert!(detail.contains(reason) && detail.contains("; send {"), "{detail}");
    }
    assert_eq!(client.post(CALL).await.header("x-ratelimit-remaining"), "1", "invalid calls are not charged");
}

/// Each field of a settlement or a release that has a wrong type or number is named, with the values that it may have.
#[tokio::test]
async fn a_wrong_number_is_a_400_that_names_the_field_and_its_range() {
    let mut client = Sidecar::start(&["api_key"]).await.client().await;
    for (path, field, range) in [
        ("/settle", r#""units": 0"#, "`units` is 0; a settlement charges 1 or more, or refunds -1 or less at line 1"),
        (
            "/settle",
            r#""units": 1.5"#,
            "`units`: invalid type: floating point `1.5`, expected a whole number from -9007",
        ),
        ("/settle", r#""units": "3""#, "`units`: invalid type: string \"3\", expected a whole number from -9007"),
        (
            "/settle",
            r#""units": -9007199254740993"#,
            "`units`: it must be a whole number from -9007199254740992 to 9007",
        ),
        ("/settle", r#""units": 18446744073709551615"#, "`units`: it must be a whole number from -9007199254740992"),
        ("/settle", r#""cost": 1"#, "unknown field `cost`, expected one of `descriptors`, `unverified`, `units`, `id`"),
        ("/settle", r#""id": "a-1""#, "`units` is missing; send the real cost minus the charged cost"),
        ("/settle", r#""units": -1"#, "`id` is missing; a refund needs the `id` of the response of /check"),
        ("/release", r#""cost": 1"#, "`id` is missing; it names the call: send the `id` of the response of /check"),
        ("/release", r#""id": "a-1""#, "the `id` is not that of an admission of these descriptors"),
        ("/explain", r#""unverified": 3"#, "`unverified`: invalid type: integer `3`, expected an object with names"),
    ] {
        let body = format!(r#"{{"descriptors": {{"api_key": "k1"}}, {field}}}"#);
        let detail = client.ask("POST", path, &[], body).await.problem(400);
        assert!(detail.contains(range), "{detail}");
    }
}

#[tokio::test]
async fn an_oversized_body_is_a_413_and_the_connection_stays_open() {
    let mut client = Sidecar::start(&["api_key"]).await.client().await;
    let padded = |len: usize| format!("{CALL}{}", " ".repeat(len - CALL.len()));
    assert_eq!(client.post(padded(BODY_BYTES_MAX)).await.status, StatusCode::OK);
    let detail = client.post(padded(BODY_BYTES_MAX + 1)).await.problem(413);
    assert!(detail.contains("longer than 65536 bytes"), "{detail}");
    assert_eq!(client.post(CALL).await.status, StatusCode::OK);
}

/// H5: every response names its node, error responses included.
#[tokio::test]
async fn an_error_response_names_its_node() {
    let mut client = Sidecar::start(&["api_key"]).await.client().await;
    let answers = [client.post("{").await, client.get("/nowhere", &[]).await, client.get("/healthz", &[]).await];
    assert!(answers.iter().all(|answer| answer.header("x-gateway-node") == "gw-1"));
}

#[tokio::test]
async fn unknown_paths_and_methods_are_answered_with_the_existing_ones() {
    let mut client = Sidecar::start(&["api_key"]).await.client().await;
    let detail = client.ask("POST", "/chekc", &[], CALL).await.problem(404);
    assert_eq!(
        detail,
        "unknown path `/chekc`; use /check, /batch, /json, /explain, /settle, /release, /reset, /emergency, /healthz, /readyz, /metrics or /openapi.yaml"
    );
    let page = client.get("/", &[]).await.problem(404);
    assert!(page.ends_with("; the page is that of `tollgate aggregator` or `tollgate up`"), "{page}");
    let answer = client.ask("DELETE", "/check", &[], CALL).await;
    assert_eq!(answer.problem(405), "/check does not support DELETE; use GET, HEAD or POST");
    assert_eq!(answer.header("allow"), "GET,HEAD,POST");
    let emergency = client.ask("DELETE", "/emergency", &[], "{}").await;
    assert_eq!(emergency.problem(405), "/emergency does not support DELETE; use GET, HEAD or POST");
    assert_eq!(emergency.header("allow"), "GET,HEAD,POST");
    assert_eq!(
        client.ask("POST", "/metrics", &[], "x").await.problem(405),
        "/metrics does not support POST; use GET or HEAD"
    );
    assert_eq!(client.post(CALL).await.status, StatusCode::OK);
}
