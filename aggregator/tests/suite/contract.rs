//! Contract of an aggregator: each answer of the suite has a status, headers and a body that `aggregator/openapi.yaml` describes.

use std::collections::HashMap;
use std::sync::OnceLock;

use boon::{Compiler, SchemaIndex, Schemas};
use serde_json::Value;

use crate::support::Answer;

pub(crate) const TEXT: &str = include_str!("../../openapi.yaml");
/// Name of the file for boon, under which its schemas refer to each other.
const NAME: &str = "openapi.json";
/// Headers of HTTP itself, which need no description.
const OF_HTTP: [&str; 5] = ["content-type", "content-length", "date", "connection", "transfer-encoding"];
/// Remedy of a route that is not described.
const ADD: &str = "describe it under `paths`, with each status, header and body";

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
            let document: Value = serde_yaml_ng::from_str(TEXT).expect("aggregator/openapi.yaml is YAML");
            let (mut schemas, mut builder) = (Schemas::new(), Compiler::new());
            builder.add_resource(NAME, document.clone()).expect("the document has no `$schema`");
            let mut compiled = HashMap::new();
            each_value(&document, "", &mut |pointer, _| {
                if pointer.ends_with("/schema") || pointer.ends_with("/x-event-data") {
                    let index = builder.compile(&format!("{NAME}#{pointer}"), &mut schemas);
                    compiled.insert(pointer.to_owned(), index.unwrap_or_else(|error| panic!("{pointer}: {error:#}")));
                }
            });
            Self { document, schemas, compiled }
        })
    }

    /// Returns path and description of each operation, all of which are `get`.
    pub(crate) fn operations(&self) -> impl Iterator<Item = (&str, &Value)> {
        let paths = self.document["paths"].as_object().expect("paths");
        paths.iter().flat_map(|(path, item)| {
            let methods = item.as_object().expect("methods").iter();
            methods.map(move |(method, operation)| {
                assert_eq!(method, "get", "{path}: an aggregator changes nothing");
                (path.as_str(), operation)
            })
        })
    }

    /// Returns the name that a path has in the document.
    pub(crate) fn path(&self, path: &str) -> Option<&str> {
        let path = path.split('?').next().unwrap_or_default();
        let names = |known: &str| {
            let begins = known.split_once('{').is_some_and(|(prefix, _)| path.starts_with(prefix));
            known == path || begins
        };
        self.operations().map(|(known, _)| known).find(|known| names(known))
    }

    /// Compares an answer with its description.
    pub(crate) fn check(&self, method: &str, path: &str, answer: &Answer) -> Result<(), String> {
        let response = self.response(method, path, answer.status)?;
        self.check_headers(&response, answer)?;
        if method == "HEAD" {
            return if answer.body.is_empty() { Ok(()) } else { Err("an answer to HEAD has a body".to_owned()) };
        }
        let content_type = answer.content_type();
        let content = format!("{response}/content/{}", escaped(content_type));
        if self.document.pointer(&content).is_none() {
            return Err(fault(
                &format!("answers {} with the content type `{content_type}`", answer.status),
                "add it under `content`",
            ));
        }
        let body = if content_type.ends_with("json") { answer.json() } else { answer.body.as_str().into() };
        let events = answer.events().into_iter().map(|data| ("x-event-data", data));
        for (kind, value) in [("schema", body)].into_iter().chain(events) {
            self.validate(&format!("{content}/{kind}"), &value).map_err(|error| {
                fault(&format!("answers {} with {value}, in which {error}", answer.status), "correct its schema")
            })?;
        }
        Ok(())
    }

    /// Validates a value against the schema at this pointer.
    fn validate(&self, pointer: &str, value: &Value) -> Result<(), String> {
        let schema = self.compiled.get(pointer).ok_or_else(|| format!("{pointer} is missing"))?;
        self.schemas.validate(value, *schema).map_err(|error| format!("{error:#}"))
    }

    /// Returns the pointer to the description of answers with this status.
    fn response(&self, method: &str, path: &str, status: u16) -> Result<String, String> {
        let Some(name) = self.path(path) else {
            let told = "answers a path that is not described";
            return if status == 404 { Ok("/components/responses/NotFound".into()) } else { Err(fault(told, ADD)) };
        };
        if !["GET", "HEAD"].contains(&method) {
            let told = format!("answers {method} with {status}");
            let is_refused = status == 405;
            return if is_refused {
                Ok("/components/responses/MethodNotAllowed".into())
            } else {
                Err(fault(&told, ADD))
            };
        }
        let response = format!("/paths/{}/get/responses/{status}", escaped(name));
        let described = self.document.pointer(&response);
        let described = described.ok_or_else(|| fault(&format!("answers {status}"), "add it under `responses`"))?;
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
            let is_required = self.document.pointer(header).is_some_and(|header| header["required"] == true);
            if is_required && !answer.headers.contains_key(name) {
                return Err(fault(&format!("answers without {name}"), "remove `required`"));
            }
        }
        for (name, text) in answer.headers.iter().filter(|(name, _)| !OF_HTTP.contains(&name.as_str())) {
            let header =
                described.get(name).ok_or_else(|| fault(&format!("sends {name}"), "add it under `headers`"))?;
            let value = text.parse::<i64>().map_or_else(|_| text.as_str().into(), Value::from);
            let valid = self.validate(&format!("{header}/schema"), &value);
            valid.map_err(|error| fault(&format!("sends {name}: {text}, where {error}"), "correct its schema"))?;
        }
        Ok(())
    }
}

fn fault(told: &str, remedy: &str) -> String {
    format!("the aggregator {told}: {remedy} in aggregator/openapi.yaml, or correct the aggregator")
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
