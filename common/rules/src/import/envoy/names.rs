//! Names of the imported descriptors.

use std::borrow::Cow;

/// Name of the descriptor that holds the domain.
pub(super) const DOMAIN: &str = "domain";

/// Name of the descriptor that holds the limit that a request brings. No entry has it, because a rule trusts its value.
const LIMIT: &str = "limit";

/// Returns the names under which a call carries the entries of one Envoy descriptor. A call has each name once, so a
/// repeated key (or `domain` and `limit`, which are taken) is numbered: `files`, `files#2`.
pub fn envoy_names<'k>(keys: impl IntoIterator<Item = &'k str>) -> Vec<Cow<'k, str>> {
    let keys: Vec<&str> = keys.into_iter().collect();
    let numbered = |(at, key): (usize, &&'k str)| {
        let taken =
            keys[..at].iter().filter(|other| *other == key).count() + usize::from([DOMAIN, LIMIT].contains(key));
        if taken == 0 { Cow::Borrowed(*key) } else { Cow::Owned(format!("{key}#{}", taken + 1)) }
    };
    keys.iter().enumerate().map(numbered).collect()
}
