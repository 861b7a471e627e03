//! Headers of an answer as names and values.

use http::HeaderMap;
use tollgate::{Decision, http_response};

/// Returns the headers of a decision. Those with characters that no header has, such as a name of a node in other letters, are left out.
pub(crate) fn of_decision(decision: &Decision, node: &str) -> impl Iterator<Item = (String, String)> {
    let is_text = |value: &str| value.bytes().all(|byte| byte == b' ' || byte.is_ascii_graphic());
    let headers = http_response::header_texts(decision, node).into_iter();
    headers.filter(move |(_, value)| is_text(value)).map(|(name, value)| (name.as_str().to_owned(), value))
}

/// Returns names and values as text.
pub(crate) fn of_map(headers: &HeaderMap) -> impl Iterator<Item = (String, String)> {
    headers.iter().map(|(name, value)| (name.as_str().to_owned(), value.to_str().unwrap_or_default().to_owned()))
}
