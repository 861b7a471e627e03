//! `POST /batch`: several calls in one request.

use http::StatusCode;
use serde_json::Value;

use crate::support::Sidecar;

/// A14: each call has an answer of its own, in the order of the request, and a denied one changes nothing for the others.
#[tokio::test]
async fn each_call_of_a_batch_is_decided_by_itself() {
    let mut client = Sidecar::start(&["api_key"]).await.client().await;
    let call = |key: &str| format!(r#"{{"descriptors": {{"api_key": "{key}"}}}}"#);
    let calls = ["a", "a", "a", "b"].map(call).join(", ");
    let answer = client.ask("POST", "/batch", &[], format!(r#"{{"calls": [{calls}]}}"#)).await;
    assert_eq!((answer.status, answer.header("content-type")), (StatusCode::OK, "application/json"));
    let answers = answer.json()["answers"].as_array().unwrap().clone();
    let shown =
        answers.iter().map(|answer| (answer["allowed"].as_bool().unwrap(), answer["remaining"].as_u64().unwrap()));
    assert_eq!(shown.collect::<Vec<_>>(), [(true, 1), (true, 0), (false, 0), (true, 1)]);
    assert_eq!((&answers[2]["status"], &answers[0]["status"]), (&429.into(), &Value::Null));
    // The id of an answer settles its call.
    let id = answers[3]["id"].as_str().unwrap();
    let settled = format!(r#"{{"descriptors": {{"api_key": "b"}}, "units": 1, "id": "{id}"}}"#);
    assert_eq!(client.ask("POST", "/settle", &[], settled).await.json()["remaining"], 0);
}

/// A retry of a batch under ids is charged once.
#[tokio::test]
async fn ids_hold_for_the_calls_of_a_batch() {
    let mut client = Sidecar::start(&["api_key"]).await.client().await;
    let body = r#"{"calls": [{"descriptors": {"api_key": "a"}, "id": "r-1"}, {"descriptors": {"api_key": "a"}, "id": "r-2"}]}"#;
    for _ in 0..3 {
        let answers = client.ask("POST", "/batch", &[], body.to_owned()).await.json()["answers"].clone();
        assert_eq!((&answers[0]["allowed"], &answers[1]["allowed"]), (&true.into(), &true.into()));
    }
}

/// A batch that cannot be read charges nothing, and the answer names the place.
#[tokio::test]
async fn an_invalid_batch_is_refused_whole() {
    let mut client = Sidecar::start(&["api_key"]).await.client().await;
    let call = r#"{"descriptors": {"api_key": "a"}}"#;
    let many = vec![call; 257].join(",");
    for (body, reason) in [
        (String::new(), "EOF while parsing"),
        (format!("[{call}]"), "expected an object with `calls`"),
        (r#"{"calls": []}"#.to_owned(), "there are 0 `calls`; send 1 to 256"),
        (format!(r#"{{"calls": [{many}]}}"#), "there are 257 `calls`"),
        (format!("{{\"calls\": [{call},\n{{\"cost\": 1}}]}}"), "missing field `descriptors` at line 2 column 11"),
        (format!("{{\"calls\": [{call}, {{\"descriptors\": {{}}, \"units\": 1}}]}}"), "unknown field `units`"),
    ] {
        let detail = client.ask("POST", "/batch", &[], body.clone()).await.problem(400);
        assert!(detail.contains(reason), "{body}: {detail}");
    }
    assert_eq!(client.post(call.to_owned()).await.json()["remaining"], 1, "nothing was charged");
}
