//! Values of an answer as text.

use serde_json::Value;

/// Returns the age of a region in seconds.
pub(super) fn age(region: &Value) -> String {
    region["age_ms"].as_u64().map_or_else(|| "-".to_owned(), |ms| format!("{} s", ms / 1_000))
}

/// Returns the elements of an array; none if the value is something else.
pub(super) fn array(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

/// Returns a value without quotes.
pub(super) fn text(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}
