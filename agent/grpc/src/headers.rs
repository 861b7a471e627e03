//! Headers of decisions in the messages of Envoy's services.

use http::HeaderMap;

/// Returns names and values as text.
pub(crate) fn pairs(headers: &HeaderMap) -> impl Iterator<Item = (String, String)> {
    headers.iter().map(|(name, value)| (name.as_str().to_owned(), value.to_str().unwrap_or_default().to_owned()))
}
