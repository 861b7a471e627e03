//! Contract of the agent: each answer of the suites has a status, headers and a body that `agent/http/openapi.yaml` describes.

use std::collections::HashMap;
use std::sync::OnceLock;

use boon::{Compiler, SchemaIndex, Schemas};
use serde_json::Value;

use crate::support::Answer;

pub(crate) const TEXT: &str = include_str!("../../openapi.yaml");
/// Name of the file for boon, under which its schemas refer to each other.
const NAME: &str = "openapi.json";
/// Methods that a description may have.
pub(crate) const METHODS: [&str; 8] = ["get", "put", "post", "delete", "options", "head", "patch", "trace"];
/// Headers of HTTP itself, which need no description.
const OF_HTTP: [&str; 5] = ["content-type", "content-length", "date", "connection", "transfer-encoding"];

pub(crate) struct Contract {
    pub(crate) document: Value,
    schemas: Schemas,
    /// Schemas by their JSON pointers in the document.
    compiled: HashMap<String, SchemaIndex>,
}

impl Contract {
    pub(crate) fn get() -> &'static Self {
        static CONTRACT: OnceLock<Contract> = OnceLock::new();
        CONTRACT.get_or_init(|| {
            let document: Value = serde_yaml_ng::from_str(TEXT).expect("agent/http/openapi.yaml is YAML");
            let (mut schemas, mut builder) = (Schemas::new(), Compiler::new());
            builder.add_resource(NAME, document.clone()).unwrap();
            let mut compiled = HashMap::new();
            each_value(&document, "", &mut |pointer, _| {
                if pointer.ends_with("/schema") {
                    let index = builder.compile(&format!("{NAME}#{pointer}"), &mut schemas);
                    compiled.insert(pointer.to_owned(), index.unwrap_or_else(|error| panic!("{pointer}: {error:#}")));
                }
            });
            Self { document, schemas, compiled }
        })
    }

    /// Returns path, method and description of each operation.
    pub(crate) fn operations(&self) -> impl Iterator<Item = (&str, &'static str, &Value)> {
        let paths = self.document["paths"].as_object().unwrap();
        paths.iter().flat_map(|(path, item)| {
            METHODS.iter().filter_map(move |method| Some((path.as_str(), *method, item.get(method)?)))
        })
    }

    /// Returns the name that a path has in the document.
    pub(crate) fn path(&self, path: &str) -> Option<&str> {
        let path = path.split('?').next().unwrap_or_default();
        let known = self.document["paths"].as_object().unwrap().keys();
        let names = |known: &&String| known.split_once('{').is_some_and(|(prefix, _)| path.starts_with(prefix));
        known.clone().find(|known| *known == path).or_else(|| known.clone().find(names)).map(String::as_str)
    }

    /// Returns the pointer to an operation.
    pub(crate) fn pointer(path: &str, method: &str) -> String {
        format!("/paths/{}/{method}", escaped(path))
    }

    /// Compares an answer with its description.
    pub(crate) fn check(&self, method: &str, path: &str, answer: &Answer) -> Result<(), String> {
        let status = answer.status.as_u16();
        let response = self.response(method, path, status)?;
        self.check_headers(&response, answer)?;
        if method == "HEAD" {
            return if answer.body.is_empty() { Ok(()) } else { Err("an answer to HEAD has a body".to_owned()) };
        }
        let content_type = answer.header("content-type").split(';').next().unwrap_or_default();
        let pointer = format!("{response}/content/{}/schema", escaped(content_type));
        if !self.compiled.contains_key(&pointer) {
            return Err(fault(&format!("answers {status} with {content_type}"), "add it under `content`"));
        }
        let is_json = content_type.ends_with("json");
        let text = || Value::from(String::from_utf8_lossy(&answer.body).into_owned());
        let body = if is_json { answer.json() } else { text() };
        self.validate(&pointer, &body).map_err(|error| {
            fault(&format!("answers {status} with the body {body}, in which {error}"), "correct its schema")
        })
    }

    /// Validates a value against the schema at this pointer.
    pub(crate) fn validate(&self, pointer: &str, value: &Value) -> Result<(), String> {
        self.schemas.validate(value, self.compiled[pointer]).map_err(|error| format!("{error:#}"))
    }

    /// Returns the pointer to the description of answers with this status.
    fn response(&self, method: &str, path: &str, status: u16) -> Result<String, String> {
        let Some(name) = self.path(path) else {
            let told = "answers a path that is not described";
            return if status == 404 { Ok("/components/responses/NotFound".into()) } else { Err(fault(told, ADD)) };
        };
        let described = |method: &str| self.document.pointer(&Self::pointer(name, method)).is_some();
        let method = method.to_lowercase();
        // `get` answers HEAD, and a path that takes all methods takes those that OpenAPI does not know.
        let is_as_get = method == "head" || METHODS.into_iter().all(described) && !METHODS.contains(&&*method);
        let method = if is_as_get && !described(&method) { "get" } else { &method };
        if !described(method) {
            let told = "answers a method that is not described";
            return if status == 405 {
                Ok("/components/responses/MethodNotAllowed".into())
            } else {
                Err(fault(told, ADD))
            };
        }
        let responses = format!("{}/responses", Self::pointer(name, method));
        // A class such as `4XX` describes the statuses that are not named.
        let classes = [status.to_string(), format!("{}XX", status / 100)];
        let mut responses = classes.map(|status| format!("{responses}/{status}")).into_iter();
        let described = responses.find_map(|response| Some((self.document.pointer(&response)?, response)));
        let (described, response) =
            described.ok_or_else(|| fault(&format!("answers {status}"), "add it under `responses`"))?;
        Ok(described["$ref"].as_str().map_or(response, |reference| reference[1..].to_owned()))
    }

    fn check_headers(&self, response: &str, answer: &Answer) -> Result<(), String> {
        let described = self.document.pointer(response).and_then(|response| response["headers"].as_object());
        let described: HashMap<String, String> = described
            .into_iter()
            .flatten()
            .map(|(name, header)| {
                let own = || format!("{response}/headers/{name}");
                (name.to_lowercase(), header["$ref"].as_str().map_or_else(own, |reference| reference[1..].to_owned()))
            })
            .collect();
        for (name, header) in &described {
            if self.document.pointer(header).unwrap()["required"] == true && !answer.headers.contains_key(name) {
                return Err(fault(&format!("answers without {name}"), "remove `required`"));
            }
        }
        for name in answer.headers.keys().map(http::HeaderName::as_str).filter(|name| !OF_HTTP.contains(name)) {
            let text = answer.header(name);
            let header =
                described.get(name).ok_or_else(|| fault(&format!("sends {name}"), "add it under `headers`"))?;
            let value = text.parse::<i64>().map_or_else(|_| text.into(), Value::from);
            let valid = self.validate(&format!("{header}/schema"), &value);
            valid.map_err(|error| fault(&format!("sends {name}: {text}, where {error}"), "correct its schema"))?;
        }
        Ok(())
    }
}

/// Remedy of a route that is not described.
const ADD: &str = "describe it under `paths`, with each status, header and body";

fn fault(told: &str, remedy: &str) -> String {
    format!("the agent {told}: {remedy} in agent/http/openapi.yaml, or correct the agent")
}

/// Calls `visit` with the JSON pointer of each value below this one.
pub(crate) fn each_value<'v>(value: &'v Value, pointer: &str, visit: &mut impl FnMut(&str, &'v Value)) {
    visit(pointer, value);
    match value {
        Value::Object(map) => {
            map.iter().for_each(|(key, value)| each_value(value, &format!("{pointer}/{}", escaped(key)), visit));
        }
        Value::Array(items) => {
            items.iter().enumerate().for_each(|(place, value)| each_value(value, &format!("{pointer}/{place}"), visit));
        }
        _ => {}
    }
}

/// Returns a key as a part of a JSON pointer.
fn escaped(key: &str) -> String {
    key.replace('~', "~0").replace('/', "~1")
}
