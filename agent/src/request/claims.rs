//! Verified claims of a token, found by their paths.
//!
//! Only [`jwt`](super) makes claims; without that feature no request has any.

use serde_json::{Map, Value};

/// Claims of a token whose signature is valid.
#[derive(Debug)]
pub struct Claims(pub(super) Map<String, Value>);

impl Claims {
    /// Returns the claim at a path such as `sub` or `realm.tier` as text. A claim whose own name contains dots takes
    /// precedence. Only strings, numbers and booleans have a text.
    #[must_use]
    pub fn text(&self, path: &str) -> Option<String> {
        match find(&self.0, path)? {
            Value::String(text) => Some(text.clone()),
            Value::Number(number) => Some(number.to_string()),
            Value::Bool(truth) => Some(truth.to_string()),
            Value::Null | Value::Array(_) | Value::Object(_) => None,
        }
    }
}

/// Finds the claim with the longest matching name first, so that `https://example.com/tier` and
/// `https://example.com/realm.tier` are found as well.
fn find<'a>(claims: &'a Map<String, Value>, path: &str) -> Option<&'a Value> {
    claims.get(path).or_else(|| {
        path.rmatch_indices('.').find_map(|(dot, _)| find(claims.get(&path[..dot])?.as_object()?, &path[dot + 1..]))
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn claims(value: Value) -> Claims {
        Claims(serde_json::from_value(value).unwrap())
    }

    #[test]
    fn a_path_finds_text_numbers_and_truth_values() {
        let claims = claims(json!({
            "sub": "u1", "limit": 500, "big": u64::MAX, "beta": true, "roles": ["a"], "none": null, "a": { "b": { "c": "deep" } },
            "https://example.com/tier": "pro", "https://example.com/realm": { "tier": "gold" }, "a.b": { "c": "whole", "x": 1 },
        }));
        for (path, text) in [
            ("sub", Some("u1")),
            ("limit", Some("500")),
            ("big", Some("18446744073709551615")),
            ("beta", Some("true")),
            ("roles", None),
            ("none", None),
            ("a", None),
            ("sub.x", None),
            ("https://example.com/tier", Some("pro")),
            ("https://example.com/realm.tier", Some("gold")),
            ("a.b.c", Some("whole")),
            ("a.b.x", Some("1")),
            ("", None),
            (".", None),
        ] {
            assert_eq!(claims.text(path).as_deref(), text, "{path}");
        }
    }
}
