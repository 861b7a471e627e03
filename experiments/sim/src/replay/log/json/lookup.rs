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

/// Returns the fields of an object, and of the objects in it, whose name has a meaning: its path, the meaning, and the text. The values
/// of a list are joined by commas, as those of a header that is there twice.
pub(super) fn find_texts<K>(object: &Map<String, Value>, meaning: fn(&str) -> Option<K>) -> Vec<(String, K, String)> {
    let mut found = Vec::new();
    for (key, value) in object {
        if let Value::Object(inner) = value {
            let inner = find_texts(inner, meaning);
            found.extend(inner.into_iter().map(|(path, kind, text)| (format!("{key}.{path}"), kind, text)));
        } else if let Some(kind) = meaning(key) {
            let texts = match value {
                Value::Array(values) => values.iter().filter_map(Value::as_str).collect(),
                value => value.as_str().map_or_else(Vec::new, |text| vec![text]),
            };
            found.push((key.clone(), kind, texts.join(", ")));
        }
    }
    found
}

fn first_of(value: &Value) -> &Value {
    value.as_array().and_then(|array| array.first()).unwrap_or(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_found_by_their_names_in_inner_objects() {
        let text = r#"{"b": {"c": {"x": ["y", "z"]}}, "x": "w", "n": {"x": 7}, "o": "x"}"#;
        let found = find_texts(&serde_json::from_str(text).unwrap(), |name| (name == "x").then_some(()));
        let found: Vec<_> = found.iter().map(|(path, (), text)| (&**path, &**text)).collect();
        assert_eq!(found, [("b.c.x", "y, z"), ("n.x", ""), ("x", "w")]);
    }

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
