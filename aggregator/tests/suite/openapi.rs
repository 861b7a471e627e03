//! `openapi.yaml`: it is served, it is valid, it has the routes and the parameters of the router, and its objects are closed.

use std::collections::BTreeSet;
use std::path::Path;

use axum::Router;
use boon::{Compiler, Schemas};
use serde_json::{Value, json};
use tollgate_aggregator::api;
use tollgate_servers::each_value;

use crate::contract::{TEXT, contract, operations};
use crate::regions::world::{Member, World};
use crate::support::{ask, get, serve};

/// Responses of every path, which no operation names.
const OF_ALL_PATHS: [&str; 1] = ["#/components/responses/MethodNotAllowed"];

async fn member() -> Member {
    World::new(1_000).start(0, "eu-a", 81, true).await
}

/// Returns the texts between backticks.
fn quoted(text: &str) -> BTreeSet<&str> {
    text.split('`').skip(1).step_by(2).collect()
}

/// Returns the paths of a router, which axum shows only in its debug form.
fn paths(router: &Router) -> BTreeSet<String> {
    let shown = format!("{router:?}");
    let (listed, _) = shown.split_once("fallback_router").expect("axum shows routes before the fallback");
    let paths: BTreeSet<_> = listed.split('"').filter(|text| text.starts_with('/')).map(str::to_owned).collect();
    assert!(paths.contains("/api/v1/status"), "axum shows its routes in another way: {shown}");
    paths
}

/// Returns the described paths with one of these tags.
fn described(tags: &[&str]) -> BTreeSet<String> {
    let is_tagged = |operation: &Value| tags.iter().any(|tag| operation["tags"] == json!([tag]));
    let operations = operations().filter(|(_, operation)| is_tagged(operation));
    operations.map(|(path, _)| path.to_owned()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_description_is_served_as_it_stands_in_the_file() {
    let served = ask(member().await.http, "GET", "/api/v1/openapi.yaml");
    assert_eq!((served.status, &*served.body), (200, TEXT));
    assert_eq!(contract().document["info"]["version"], env!("CARGO_PKG_VERSION"));
}

/// By [the published schema](https://spec.openapis.org/oas/3.1/schema/2022-10-07). The schemas inside are compiled,
/// and thereby validated, for the comparison with answers.
#[test]
fn the_description_is_valid_openapi() {
    let schema = include_str!("../../../agent/http/tests/suite/oas-3.1.schema.json");
    let (mut schemas, mut compiler) = (Schemas::new(), Compiler::new());
    compiler.add_resource("oas.json", serde_json::from_str(schema).expect("JSON")).expect("a schema");
    let schema = compiler.compile("oas.json", &mut schemas).expect("a schema");
    let valid = schemas.validate(&contract().document, schema);
    valid.unwrap_or_else(|error| panic!("aggregator/openapi.yaml: {error:#}"));
}

/// The tags tell which process has a path. Another method than `GET` and `HEAD` is refused on each.
#[tokio::test(flavor = "multi_thread")]
async fn every_route_is_described_and_every_description_is_routed() {
    let member = member().await;
    let aggregator = &member.aggregator;
    let handles = || (aggregator.queries(), aggregator.analytics());
    let of_aggregator = |regions| api::router("eu-a".into(), handles(), regions, aggregator.metrics(), None);
    let (queries, analytics) = handles();
    let of_up = api::analytics_router("eu-a".into(), false, queries, analytics, None);
    let remedy = "describe the routes in aggregator/openapi.yaml, or remove those that no router has";
    assert_eq!(paths(&of_up), described(&["analytics"]), "of `tollgate up`: {remedy}");
    assert_eq!(paths(&of_aggregator(None)), described(&["analytics", "operation"]), "without a ledger: {remedy}");
    let with_ledger = of_aggregator(Some(member.part.queries()));
    assert_eq!(paths(&with_ledger), described(&["analytics", "operation", "regions"]), "with a ledger: {remedy}");
    let of_up = serve(of_up).await;
    assert_eq!(get(of_up, "/api/v1/status")["scope"], "agent");
    for path in described(&["analytics"]) {
        assert_eq!(ask(of_up, "POST", &path.replace("{file}", "app.js")).status, 405, "{path}");
    }
    for path in described(&["analytics", "operation", "regions"]) {
        let path = path.replace("{file}", "app.js");
        for method in ["POST", "PUT", "DELETE", "PATCH", "PROPFIND"] {
            assert_eq!(ask(member.http, method, &path).status, 405, "{method} {path}");
        }
        ask(member.http, "HEAD", &path);
    }
    assert_eq!(ask(member.http, "GET", "/api/v1").status, 404);
}

/// The answer to an unknown parameter lists the others, or says that there are none; only the page takes any. The bounds of a parameter
/// are those of the description.
#[tokio::test(flavor = "multi_thread")]
async fn every_parameter_is_described_and_every_description_is_taken() {
    let member = member().await;
    let asked = |path: &str, query: &str| ask(member.http, "GET", &format!("{path}?{query}"));
    for (path, operation) in operations().filter(|(path, _)| !path.contains('{')) {
        let parameters = operation["parameters"].as_array().map_or(&[][..], Vec::as_slice);
        let names: BTreeSet<&str> = parameters.iter().filter_map(|parameter| parameter["name"].as_str()).collect();
        let has_any_name = parameters.iter().any(|parameter| parameter["schema"]["type"] == "object");
        let refused = asked(path, "unknown=1");
        if path == "/" || has_any_name {
            assert_eq!(refused.status, 200, "{path}");
            continue;
        }
        assert_eq!(refused.status, 400, "{path}");
        let detail = refused.json()["detail"].as_str().expect("a reason").to_owned();
        assert!(detail.contains("`unknown`"), "{path}: {detail}");
        match detail.split_once("expected ") {
            Some((_, expected)) => assert_eq!(quoted(expected), names, "{path} has the parameters on the left"),
            None => assert!(names.is_empty() && detail.ends_with("has no parameters"), "{path}: {detail}"),
        }
        for parameter in parameters {
            let (name, schema) = (parameter["name"].as_str().expect("a name"), &parameter["schema"]);
            let bound = |of: &str, by: i64| schema[of].as_i64().map(|bound| (bound + by).to_string());
            let words = schema["enum"].as_array().into_iter().flatten().filter_map(Value::as_str).map(str::to_owned);
            let default = schema["default"].as_str().map_or_else(|| schema["default"].to_string(), str::to_owned);
            let mut taken: Vec<String> = words.chain(bound("maximum", 0)).collect();
            taken.extend((!schema["default"].is_null()).then_some(default));
            let mut refused: Vec<String> = bound("maximum", 1).into_iter().chain(bound("minimum", -1)).collect();
            refused.extend((schema["type"] != "string").then(|| "other".to_owned()));
            for (values, status) in [(taken, 200), (refused, 400)] {
                for value in values {
                    assert_eq!(asked(path, &format!("{name}={value}")).status, status, "{name}={value} of {path}");
                }
            }
        }
    }
    for path in ["/counters?rule=x&label=x&limit=1&local=true", "/regions?limit=1", "/api/v1/regions?limit=1"] {
        assert_eq!(ask(member.http, "GET", path).status, 200, "{path}");
    }
}

#[test]
fn every_file_of_the_page_is_described() {
    let operation = &contract().document["paths"]["/page/{file}"]["get"];
    let of_page = &operation["parameters"][0]["schema"]["enum"];
    let described: BTreeSet<&str> = of_page.as_array().expect("names").iter().filter_map(Value::as_str).collect();
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("page");
    let entries = std::fs::read_dir(folder).expect("the folder of the page");
    let names = entries.map(|entry| entry.expect("a file").file_name().into_string().expect("UTF-8"));
    let served: Vec<String> = names.filter(|name| name != "index.html" && !name.ends_with("LICENSE")).collect();
    assert_eq!(served.iter().map(String::as_str).collect::<BTreeSet<_>>(), described);
}

/// A member that is added to an answer, or removed from it, is a fault. `...Members` are parts of other objects.
#[test]
fn every_object_is_closed_and_has_all_its_members() {
    let schemas = &contract().document["components"]["schemas"];
    let mut count = 0;
    each_value(schemas, "", &mut |pointer, schema| {
        let Some(properties) = schema["properties"].as_object() else { return };
        let closed = if schema["allOf"].is_array() { "unevaluatedProperties" } else { "additionalProperties" };
        assert!(pointer.ends_with("Members") || schema[closed] == false, "{pointer}: add `{closed}: false`");
        let required = schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str);
        let (required, known): (BTreeSet<_>, BTreeSet<_>) =
            (required.collect(), properties.keys().map(String::as_str).collect());
        assert_eq!(required, known, "{pointer}: an aggregator leaves no member out");
        count += 1;
    });
    assert!(count > 20, "only {count} objects were found");
}

#[test]
fn every_component_is_used() {
    let document = &contract().document;
    let mut used: BTreeSet<&str> = OF_ALL_PATHS.into();
    each_value(document, "", &mut |_, value| used.extend(value["$ref"].as_str()));
    let components = document["components"].as_object().expect("components");
    for (kind, components) in components {
        for name in components.as_object().expect("names").keys() {
            let reference = format!("#/components/{kind}/{name}");
            assert!(used.contains(&*reference), "{reference}: remove it");
        }
    }
}
