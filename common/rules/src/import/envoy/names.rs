//! Names of the imported descriptors.

use std::borrow::Cow;
use std::collections::HashMap;

/// Name of the descriptor that holds the domain.
pub(super) const DOMAIN: &str = "domain";

/// Returns the names under which a call carries the entries of one Envoy descriptor. A call has each name once, so a
/// repeated key (or `domain`, which is taken) is numbered: `files`, `files#2`.
pub fn envoy_names<'k>(keys: impl IntoIterator<Item = &'k str>) -> Vec<Cow<'k, str>> {
    let mut seen = HashMap::from([(DOMAIN, 1_u32)]);
    let numbered = |key: &'k str| {
        let nth = seen.entry(key).and_modify(|nth| *nth += 1).or_insert(1);
        if *nth == 1 { Cow::Borrowed(key) } else { Cow::Owned(format!("{key}#{nth}")) }
    };
    keys.into_iter().map(numbered).collect()
}
