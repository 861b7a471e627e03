//! Examples of `openapi.yaml`: the request of each is sent, and gets the answer of the same name.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};
use tollgate_servers::{ApiContract, each_value};

use crate::contract::contract;
use crate::openapi::agent;
use crate::support::{Client, Sidecar};

/// Members whose numbers and texts differ from answer to answer.
const VARYING: [&str; 5] = ["at_ms", "id", "reset_ms", "retry_after_ms", "changed_at_ms"];

/// Values of examples by their names.
fn named(content: &Value) -> impl Iterator<Item = (&str, &Value)> {
    content["examples"].as_object().into_iter().flatten().map(|(name, example)| (name.as_str(), &example["value"]))
}

/// Returns status and body of each example of an answer.
fn answers<'c>(contract: &'c ApiContract, operation: &'c Value) -> BTreeMap<&'c str, (u16, &'c Value)> {
    let mut answers = BTreeMap::new();
    for (status, response) in operation["responses"].as_object().unwrap() {
        let reference = response["$ref"].as_str();
        let response = reference.map_or(response, |name| contract.document.pointer(&name[1..]).unwrap());
        for content in response["content"].as_object().unwrap().values() {
            answers.extend(named(content).map(|(name, body)| (name, (status.parse().unwrap(), body))));
        }
    }
    answers
}

/// Sends the request of an example, and returns status and body of the answer. The agent has admitted the call that an `id` names,
/// and all calls of the key `spent`.
async fn answer_to(client: &mut Client, method: &str, path: &str, mut request: Value) -> (u16, Value) {
    let call = json!({ "descriptors": request["descriptors"] });
    if request.get("id").is_some() {
        request["id"] = client.post(call.to_string()).await.json()["id"].clone();
    } else if call["descriptors"]["api_key"] == "spent" {
        client.post(r#"{"descriptors": {"api_key": "spent"}, "cost": 100}"#).await;
    }
    let body = if request.is_null() { String::new() } else { request.to_string() };
    let answer = client.ask(&method.to_uppercase(), path, &[], body).await;
    (answer.status.as_u16(), answer.json())
}

/// Returns a value in which everything that varies is the same.
fn steady(value: &Value) -> Value {
    match value {
        Value::Object(map) => {
            let entry = |(key, value): (&String, &Value)| {
                let varies = VARYING.contains(&&**key) && !value.is_null();
                (key.clone(), if varies { "…".into() } else { steady(value) })
            };
            map.iter().map(entry).collect()
        }
        Value::Array(items) => items.iter().map(steady).collect(),
        // The time in a sentence, or a duration.
        Value::String(text) => {
            let is_time = |word: &str| word.contains('.') && word.starts_with(|first: char| first.is_ascii_digit());
            let words = text.split(' ').map(|word| if is_time(word) { "…" } else { word });
            words.collect::<Vec<_>>().join(" ").into()
        }
        other => other.clone(),
    }
}

/// Each example has an agent of its own.
#[tokio::test]
async fn every_example_is_a_real_request_or_answer() {
    let contract = contract();
    let mut sent = BTreeSet::new();
    for (path, method, operation) in contract.operations() {
        let answers = answers(contract, operation);
        let content = &operation["requestBody"]["content"]["application/json"];
        let mut requests: Vec<(&str, Value)> = named(content).map(|(name, body)| (name, body.clone())).collect();
        if content.is_null() {
            requests.extend(answers.keys().map(|name| (*name, Value::Null)));
        }
        for (name, request) in requests {
            let schema = format!("{}/requestBody/content/application~1json/schema", ApiContract::pointer(path, method));
            if !request.is_null() {
                contract.validate(&schema, &request).unwrap_or_else(|error| panic!("{name} of {path}: {error}"));
            }
            let mut client = Sidecar::of(agent()).await.client().await;
            let (status, body) = answer_to(&mut client, method, path, request).await;
            assert!(status < 500 && status != 400, "example {name} of {path} is refused: {body}");
            if let Some((expected, example)) = answers.get(name) {
                let (real, written) = ((status, steady(&body)), (*expected, steady(example)));
                assert_eq!(real, written, "example {name} of {path}: {body}");
            }
            sent.insert(name);
        }
    }
    let mut unsent = BTreeSet::new();
    each_value(&contract.document, "", &mut |_, value| unsent.extend(named(value).map(|(name, _)| name)));
    unsent.retain(|name| !sent.contains(name));
    assert!(unsent.is_empty(), "no request of this name is sent for the examples {unsent:?}");
}
