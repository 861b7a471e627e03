//! Contract of an HTTP API: a description by `OpenAPI` 3.1, with which a suite compares each answer that it receives.
//!
//! A status, a header, a content type or a member of a body that the description lacks is a fault, and so is a required one that the
//! answer lacks. The feature is `contract`.

use std::collections::HashMap;

use boon::{Compiler, SchemaIndex, Schemas};
use serde_json::Value;

/// Methods that a description may have.
pub const METHODS: [&str; 8] = ["get", "put", "post", "delete", "options", "head", "patch", "trace"];
/// Name of the document for boon, under which its schemas refer to each other.
const NAME: &str = "openapi.json";
/// Ends of the pointers to schemas: those of bodies and headers, and that of the data of server-sent events.
const SCHEMAS: [&str; 2] = ["/schema", "/x-event-data"];
/// Headers of HTTP itself, which need no description.
const OF_HTTP: [&str; 5] = ["content-type", "content-length", "date", "connection", "transfer-encoding"];
/// Remedy of a route that is not described.
const ADD: &str = "describe it under `paths`, with each status, header and body";

/// Description of the API of a process.
pub struct ApiContract {
    /// The description.
    pub document: Value,
    /// Name of the process, and the file of the description, for faults.
    process: &'static str,
    file: &'static str,
    schemas: Schemas,
    /// Schemas by their JSON pointers in the document.
    compiled: HashMap<String, SchemaIndex>,
}

/// Answer to a request.
pub struct ApiAnswer<'a> {
    /// Status code.
    pub status: u16,
    /// Names in lower case, and values.
    pub headers: Vec<(&'a str, &'a str)>,
    /// Body.
    pub body: &'a [u8],
    /// Data of the server-sent events in the body.
    pub events: Vec<Value>,
}

impl ApiContract {
    /// Reads the description of a process, whose text stands in this file.
    ///
    /// # Panics
    /// If the text is no YAML, or a schema is not valid.
    #[must_use]
    pub fn parse(process: &'static str, file: &'static str, text: &str) -> Self {
        let document: Value = serde_yaml_ng::from_str(text).unwrap_or_else(|error| panic!("{file}: {error}"));
        let (mut schemas, mut builder) = (Schemas::new(), Compiler::new());
        builder.add_resource(NAME, document.clone()).expect("the document has no `$schema`");
        let mut compiled = HashMap::new();
        each_value(&document, "", &mut |pointer, _| {
            if SCHEMAS.iter().any(|end| pointer.ends_with(end)) {
                let index = builder.compile(&format!("{NAME}#{pointer}"), &mut schemas);
                compiled.insert(pointer.to_owned(), index.unwrap_or_else(|error| panic!("{pointer}: {error:#}")));
            }
        });
        Self { document, process, file, schemas, compiled }
    }

    /// Returns path, method and description of each operation.
    ///
    /// # Panics
    /// If the document has no paths.
    pub fn operations(&self) -> impl Iterator<Item = (&str, &'static str, &Value)> {
        let paths = self.document["paths"].as_object().expect("paths");
        paths.iter().flat_map(|(path, item)| {
            METHODS.iter().filter_map(move |method| Some((path.as_str(), *method, item.get(method)?)))
        })
    }

    /// Returns the name that a path has in the document.
    ///
    /// # Panics
    /// If the document has no paths.
    #[must_use]
    pub fn path(&self, path: &str) -> Option<&str> {
        let path = path.split('?').next().unwrap_or_default();
        let known = self.document["paths"].as_object().expect("paths").keys();
        let names = |known: &&String| known.split_once('{').is_some_and(|(prefix, _)| path.starts_with(prefix));
        known.clone().find(|known| *known == path).or_else(|| known.clone().find(names)).map(String::as_str)
    }

    /// Returns the pointer to an operation.
    #[must_use]
    pub fn pointer(path: &str, method: &str) -> String {
        format!("/paths/{}/{method}", escaped(path))
    }

    /// Compares an answer with its description.
    ///
    /// # Errors
    /// The first fault, with the remedy.
    pub fn check(&self, method: &str, path: &str, answer: &ApiAnswer<'_>) -> Result<(), String> {
        let status = answer.status;
        let response = self.response(method, path, status)?;
        self.check_headers(&response, answer)?;
        if method == "HEAD" {
            return if answer.body.is_empty() { Ok(()) } else { Err("an answer to HEAD has a body".to_owned()) };
        }
        let content_type = answer.header("content-type").unwrap_or_default().split(';').next().unwrap_or_default();
        let content = format!("{response}/content/{}", escaped(content_type));
        if self.document.pointer(&content).is_none() {
            let told = format!("answers {status} with the content type `{content_type}`");
            return Err(self.fault(&told, "add it under `content`"));
        }
        let text = || Value::from(String::from_utf8_lossy(answer.body).into_owned());
        let json = || serde_json::from_slice(answer.body).map_err(|error| format!("{path}: no JSON: {error}"));
        let body = if content_type.ends_with("json") { json()? } else { text() };
        let events = answer.events.iter().map(|data| ("x-event-data", data));
        for (kind, value) in [("schema", &body)].into_iter().chain(events) {
            self.validate(&format!("{content}/{kind}"), value).map_err(|error| {
                self.fault(&format!("answers {status} with {value}, in which {error}"), "correct its schema")
            })?;
        }
        Ok(())
    }

    /// Validates a value against the schema at this pointer.
    ///
    /// # Errors
    /// The reason why the value does not fit, or there is no schema.
    pub fn validate(&self, pointer: &str, value: &Value) -> Result<(), String> {
        let schema = self.compiled.get(pointer).ok_or_else(|| format!("{pointer} is missing"))?;
        self.schemas.validate(value, *schema).map_err(|error| format!("{error:#}"))
    }

    /// Returns the pointer to the description of answers with this status.
    fn response(&self, method: &str, path: &str, status: u16) -> Result<String, String> {
        let Some(name) = self.path(path) else {
            let fault = || self.fault("answers a path that is not described", ADD);
            return if status == 404 { Ok("/components/responses/NotFound".into()) } else { Err(fault()) };
        };
        let described = |method: &str| self.document.pointer(&Self::pointer(name, method)).is_some();
        let method = method.to_lowercase();
        // `get` answers HEAD, and a path that takes all methods takes those that OpenAPI does not know.
        let is_as_get = method == "head" || METHODS.into_iter().all(described) && !METHODS.contains(&&*method);
        let method = if is_as_get && !described(&method) { "get" } else { &method };
        if !described(method) {
            let fault = || self.fault(&format!("answers {method} with {status}"), ADD);
            return if status == 405 { Ok("/components/responses/MethodNotAllowed".into()) } else { Err(fault()) };
        }
        let responses = format!("{}/responses", Self::pointer(name, method));
        // A class such as `4XX` describes the statuses that are not named.
        let classes = [status.to_string(), format!("{}XX", status / 100)];
        let mut responses = classes.map(|status| format!("{responses}/{status}")).into_iter();
        let described = responses.find_map(|response| Some((self.document.pointer(&response)?, response)));
        let (described, response) =
            described.ok_or_else(|| self.fault(&format!("answers {status}"), "add it under `responses`"))?;
        Ok(described["$ref"].as_str().map_or(response, |reference| reference[1..].to_owned()))
    }

    fn check_headers(&self, response: &str, answer: &ApiAnswer<'_>) -> Result<(), String> {
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
            if is_required && answer.header(name).is_none() {
                return Err(self.fault(&format!("answers without {name}"), "remove `required`"));
            }
        }
        for (name, text) in answer.headers.iter().filter(|(name, _)| !OF_HTTP.contains(name)) {
            let unknown = || self.fault(&format!("sends {name}"), "add it under `headers`");
            let header = described.get(*name).ok_or_else(unknown)?;
            let value = text.parse::<i64>().map_or_else(|_| (*text).into(), Value::from);
            let valid = self.validate(&format!("{header}/schema"), &value);
            valid.map_err(|error| self.fault(&format!("sends {name}: {text}, where {error}"), "correct its schema"))?;
        }
        Ok(())
    }

    fn fault(&self, told: &str, remedy: &str) -> String {
        let Self { process, file, .. } = self;
        format!("the {process} {told}: {remedy} in {file}, or correct the {process}")
    }
}

impl ApiAnswer<'_> {
    fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| *known == name).map(|(_, value)| *value)
    }
}

/// Calls `visit` with the JSON pointer of each value below this one.
pub fn each_value<'v>(value: &'v Value, pointer: &str, visit: &mut impl FnMut(&str, &'v Value)) {
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
