//! JSON Schema of the rules file, by which editors complete and check it.
//!
//! Each key stands once, in the table of settings or in a list of `file`, with its description and the form of its value.
//! The reader takes the names that it accepts from there, and the schema all of it, so the two have the same keys. A form
//! accepts each value that the reader accepts, and in places more: a pattern does not know how long a window may be.
//! Checks between settings are left out, because `rules validate` names their reason and remedy.

use serde_json::{Map, Value, json};

/// Number of units in a window, as text.
const QUOTA: &str = r"\s*[0-9][0-9,_]*\s*[A-Za-z ]*/\s*[0-9]*\s*[A-Za-z]+\s*";

/// Key of a mapping, for its reader and for the schema.
#[derive(Clone, Copy)]
pub(crate) struct Key {
    pub(crate) name: &'static str,
    pub(crate) description: &'static str,
    pub(crate) form: fn() -> Value,
}

impl Key {
    pub(crate) const fn new(name: &'static str, description: &'static str, form: fn() -> Value) -> Self {
        Self { name, description, form }
    }
}

/// Returns the names of keys, for the reader.
pub(crate) fn names(keys: &[Key]) -> Vec<&'static str> {
    keys.iter().map(|key| key.name).collect()
}

/// Returns the schema of a mapping with these keys and no others. A mapping without any may be left empty.
pub(crate) fn object(keys: impl IntoIterator<Item = Key>) -> Value {
    let property = |key: Key| {
        let mut schema = (key.form)();
        schema["description"] = key.description.into();
        (key.name.to_owned(), schema)
    };
    let properties: Map<_, _> = keys.into_iter().map(property).collect();
    json!({ "type": ["object", "null"], "properties": properties, "additionalProperties": false })
}

/// Returns the schema of a mapping that must have these keys.
pub(crate) fn with_required(mut object: Value, names: &[&str]) -> Value {
    (object["type"], object["required"]) = ("object".into(), names.into());
    object
}

/// Returns the schema of a mapping with free keys.
pub(crate) fn map_of(value: &Value) -> Value {
    json!({ "type": ["object", "null"], "additionalProperties": value })
}

/// Returns a reference to a schema under `$defs`.
pub(crate) fn reference(name: &str) -> Value {
    json!({ "$ref": format!("#/$defs/{name}") })
}

/// Returns the schema of a list. A single value is a list of one.
pub(crate) fn list_of(item: &Value) -> Value {
    json!({ "anyOf": [item, { "type": "array", "items": item }] })
}

/// Returns the schema of a text. Numbers and truth values need no quotes.
pub(crate) fn text() -> Value {
    json!({ "type": ["string", "number", "boolean"] })
}

pub(crate) fn flag() -> Value {
    json!({ "type": "boolean" })
}

pub(crate) fn whole(min: u64, max: u64) -> Value {
    json!({ "type": "integer", "minimum": min, "maximum": max })
}

pub(crate) fn words<T>(words: &[(&str, T)]) -> Value {
    json!({ "enum": words.iter().map(|(word, _)| *word).collect::<Vec<_>>() })
}

/// Returns the schema of a text of this form.
pub(crate) fn pattern(regex: &str) -> Value {
    json!({ "type": "string", "pattern": format!("^(?:{regex})$") })
}

pub(crate) fn quota() -> Value {
    pattern(QUOTA)
}

pub(crate) fn quota_or_unlimited() -> Value {
    json!({ "anyOf": [quota(), { "const": "unlimited" }] })
}

pub(crate) fn units() -> Value {
    json!({ "type": ["integer", "string"], "minimum": 0, "pattern": r"^\s*[0-9][0-9,_]*\s*[A-Za-z ]*$" })
}

/// Returns the schema of `on_failure`: one of the words, or a limit.
pub(crate) fn words_or_limit<T>(known: &[(&str, T)]) -> Value {
    json!({ "anyOf": [words(known), pattern(&format!("limit {QUOTA}"))] })
}
