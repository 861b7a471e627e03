//! Values of JSON objects by their paths, such as `request.headers.User-Agent`.

use serde_json::{Map, Value};

/// Returns the value at a path: a key, or keys between dots. The first element stands for an array.
pub(super) fn value_at<'v>(object: &'v Map<String, Value>, path: &str) -> Option<&'v Value> {
    if let Some(value) = object.get(path) {
        return Some(first_of(value)).filter(|value| !value.is_null());
    }
    let (key, rest) = path.split_once('.')?;
    let inner = first_of(object.get(key)?);
    value_at(inner.as_object()?, rest)
}

/// Returns a text, a number or a truth value as text.
pub(in crate::replay::log) fn text_at(object: &Map<String, Value>, path: &str) -> Option<String> {
    match value_at(object, path)? {
        Value::String(text) => Some(text.clone()),
        value @ (Value::Number(_) | Value::Bool(_)) => Some(value.to_string()),
        _ => None,
    }
}

fn first_of(value: &Value) -> &Value {
    value.as_array().and_then(|array| array.first()).unwrap_or(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_leads_through_objects_and_arrays() {
        let text = r#"{"a": 1, "b": {"c": {"d": "x"}}, "e": {"f": ["y", "z"]}, "g.h": "w", "n": null}"#;
        let object: Map<String, Value> = serde_json::from_str(text).unwrap();
        for (path, expected) in [
            ("a", Some("1")),
            ("b.c.d", Some("x")),
            ("e.f", Some("y")),
            ("g.h", Some("w")),
            ("n", None),
            ("b.c", None),
            ("b.x.d", None),
        ] {
            assert_eq!(text_at(&object, path).as_deref(), expected, "{path}");
        }
    }
}
