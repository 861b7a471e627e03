//! Headers of decisions in the messages of Envoy's services.

use http::HeaderMap;

/// Headers that only the agent sets. A backend does not see those that a client sends.
pub(crate) const HEADERS_OF_ANSWERS: [&str; 9] = [
    "ratelimit",
    "ratelimit-policy",
    "retry-after",
    "x-gateway-node",
    "x-ratelimit-delay-ms",
    "x-ratelimit-limit",
    "x-ratelimit-policy",
    "x-ratelimit-remaining",
    "x-ratelimit-reset",
];

/// Returns names and values as text.
pub(crate) fn pairs(headers: &HeaderMap) -> impl Iterator<Item = (String, String)> {
    headers.iter().map(|(name, value)| (name.as_str().to_owned(), value.to_str().unwrap_or_default().to_owned()))
}
