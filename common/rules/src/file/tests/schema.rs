//! The schema against the parser: each file that the tests of this folder read goes through both, and each key is misspelt once.

use std::collections::BTreeSet;
use std::sync::OnceLock;

use boon::{Compiler, SchemaIndex, Schemas};
use serde_json::Value;

use super::*;
use crate::json_schema;

/// Files that have each key at each of its levels together.
const FILES: [&str; 4] = [
    include_str!("sample.yaml"),
    include_str!("every_key.yaml"),
    "defaults: { burst_multiplier: 2, shadow: false, quota_mode: false, refunds: false, answer: { body: nested } }
tiers: { free: { burst_multiplier: 2 } }
rules: [{ name: a, per: [ip], quota: 1/s, burst_multiplier: 1.5 }, { name: b, match: { ip: a }, deny: true, answer: { status: 451 } }]",
    "regions: { eu: { floor: 10% }, us: {} }
rules: [{ name: a, per: [ip], quota: 100/min, scope: global }]",
];

/// Validates a file against the schema, which is itself validated against that of JSON Schema.
fn validate(yaml: &str) -> Result<(), String> {
    static SCHEMA: OnceLock<(Schemas, SchemaIndex)> = OnceLock::new();
    let (schemas, index) = SCHEMA.get_or_init(|| {
        let (mut schemas, mut compiler) = (Schemas::new(), Compiler::new());
        compiler.add_resource("rules.json", json_schema()).expect("a resource");
        let index = compiler.compile("rules.json", &mut schemas).expect("a valid schema");
        (schemas, index)
    });
    schemas.validate(&as_json(yaml), *index).map_err(|error| format!("{error:#}"))
}

/// Reads a file as an editor does: values have types, and merged mappings (`<<`) are merged.
fn as_json(yaml: &str) -> Value {
    let mut document: serde_yaml_ng::Value = serde_yaml_ng::from_str(yaml).unwrap();
    document.apply_merge().unwrap();
    serde_json::to_value(document).unwrap()
}

/// Asserts that the schema accepts a file that the parser accepts.
pub(super) fn must_validate(yaml: &str) {
    validate(yaml).unwrap_or_else(|error| {
        panic!("the parser accepts this file, and the schema does not; widen the form of the key\n{yaml}\n{error}")
    });
}

/// Asserts that the schema refuses a file with an unknown key.
pub(super) fn must_not_validate(yaml: &str) {
    assert!(validate(yaml).is_err(), "the parser refuses a key here, and the schema does not\n{yaml}");
}

/// Calls `visit` with the path of each key of each mapping in a value.
fn each_key(value: &Value, path: &str, visit: &mut impl FnMut(&str, &str)) {
    match value {
        Value::Object(map) => {
            for (key, value) in map {
                visit(path, key);
                each_key(value, &format!("{path}/{}", key.replace('~', "~0").replace('/', "~1")), visit);
            }
        }
        Value::Array(items) => {
            items.iter().enumerate().for_each(|(place, item)| each_key(item, &format!("{path}/{place}"), visit));
        }
        _ => {}
    }
}

/// Returns the document with another name of one key.
fn renamed(document: &Value, path: &str, key: &str, name: &str) -> String {
    let mut document = document.clone();
    let map = document.pointer_mut(path).and_then(Value::as_object_mut).unwrap();
    let entry = |(known, value)| (if known == key { name.to_owned() } else { known }, value);
    *map = std::mem::take(map).into_iter().map(entry).collect();
    document.to_string()
}

/// The parser and the schema accept and refuse the same names, at each level.
#[test]
fn a_misspelt_key_is_refused_by_both() {
    let (mut refused, mut free) = (0, 0);
    for file in FILES {
        accepted(file);
        let document = as_json(file);
        each_key(&document, "", &mut |path, key| {
            let yaml = renamed(&document, path, key, &format!("{key}_x"));
            match crate::from_yaml("rules.yaml", &yaml, 1) {
                Err(error) if error.to_string().contains("unknown field") => {
                    must_not_validate(&yaml);
                    refused += 1;
                }
                // The name of a caller, a descriptor, a tier or a region.
                _ => free += 1,
            }
        });
    }
    assert!(refused > 80 && free > 10, "{refused} keys are refused, and {free} names are free");
}

/// A key that no file of this test has could be misspelt in the schema unnoticed.
#[test]
fn the_files_have_each_key_of_the_schema() {
    let mut known = BTreeSet::new();
    each_key(&json_schema(), "", &mut |path, key| {
        if path.ends_with("/properties") && !path.ends_with("/then/properties") && !path.ends_with("/if/properties") {
            known.insert(key.to_owned());
        }
    });
    let mut used = BTreeSet::new();
    for file in FILES {
        each_key(&as_json(file), "", &mut |_, key| {
            used.insert(key.to_owned());
        });
    }
    let missing: Vec<_> = known.difference(&used).collect();
    assert!(missing.is_empty(), "add to `every_key.yaml`: {missing:?}");
}

/// Each key tells an editor what it is for.
#[test]
fn each_key_has_a_description() {
    let schema = json_schema();
    each_key(&schema, "", &mut |path, key| {
        let property = &schema.pointer(path).unwrap()[key];
        if path.ends_with("/properties") && property.is_object() && !path.ends_with("/if/properties") {
            let description = property["description"].as_str().unwrap_or_default();
            assert!(description.ends_with('.'), "`{key}` at {path}: add its description with `.schema(…)`");
        }
    });
}

/// A value that the parser refuses by its form alone is refused by the schema, too.
#[test]
fn a_value_of_another_form_is_refused() {
    for settings in [
        "quota: 100",
        "quota: 1/s, algorithm: sliding",
        "quota: 1/s, consistency: stric",
        "quota: 1/s, sub_windows: 0",
        "quota: 1/s, on_failure: limit 5",
        "quota: 1/s, deadline: 15 ms!",
        "quota: 1/s, leases: yes",
        "quota: 1/s, cost: -1",
        "quota: 1/s, costs: { a: { b: 1 }, c: { d: 1 } }",
        "quota: { from: limit }",
        "quota: 1/s, match: { ip: [] }",
        "quota: 1/s, deny: true",
        "quota: 1/s, tiers: { pro: { quota: tier } }",
        "quota: 1/s, answer: { status: 200 }",
        "quota: 1/s, answer: { body: flat }",
        "quota: 1/s, answer: { fields: { a: [1] } }",
        "quota: 1/s, answer: { hide: [x-gateway-node] }",
        "quota: 1/s, answer: text",
    ] {
        let yaml = format!("rules: [{{ name: a, per: [ip], {settings} }}]");
        refusal(&yaml);
        must_not_validate(&yaml);
    }
    for yaml in [
        "rules: [{ name: a, quota: 1/s }]",
        "rules: [{ per: [ip], quota: 1/s }]",
        "rules: [{ name: 'a,b', per: [ip], quota: 1/s }]",
        "rules: []\ndescriptors: { a: ip }",
        "rules: []\ndescriptors: { a: { header: a, query: b } }",
        "rules: []\ndescriptors: { a: { of: ip } }",
        "rules: []\ndeny_status: 404",
        "rules: []\nowner: \"two\\nlines\"",
        "rules: []\nowner: []",
        "rules: []\nregions: { eu: { floor: 10 } }",
    ] {
        refusal(yaml);
        must_not_validate(yaml);
    }
}
