//! Names of the imported rules.

use std::collections::HashMap;
use std::hash::Hasher as _;

use siphasher::sip::SipHasher13;

use super::tree::{LimitedPath, TreeNode};
use crate::rule_name::is_name_char;
use tollgate_core::call::NAME_LEN_MAX;

/// Parts of keys whose values are secret.
const SECRETS: [&str; 7] = ["key", "token", "secret", "auth", "password", "session", "credential"];
/// Name of constants in Envoy's configuration, which are not secret.
const GENERIC: &str = "generic_key";
/// Maximum number of characters of a secret in a name.
const SECRET_LEN_MAX: usize = 4;

/// Returns a unique name for each path. A name depends on its own path only, so that counters survive a reload. Paths
/// that read the same, because of a `/` in a value, are distinguished by a digest. Names appear in metrics and headers,
/// so a value that looks secret is cut, and the digest is added.
pub(super) fn rule_names(limited: &[LimitedPath<'_>]) -> Vec<String> {
    let spelled_names: Vec<String> = limited.iter().map(spelled).collect();
    let mut uses: HashMap<String, u32> = HashMap::new();
    for name in &spelled_names {
        *uses.entry(sanitized(name)).or_default() += 1;
    }
    let named = |(name, limited): (&String, &LimitedPath<'_>)| {
        let plain = sanitized(name);
        let secret = limited.path.iter().any(|(node, _)| node.value.text().is_some() && is_secret(node));
        if !secret && plain == *name && name.len() <= NAME_LEN_MAX && uses[&plain] == 1 {
            return plain;
        }
        let digest = format!(".{:08x}", digest(limited));
        let cut = plain.len().min(NAME_LEN_MAX - digest.len());
        plain[..cut].to_owned() + &digest
    };
    spelled_names.iter().zip(limited).map(named).collect()
}

fn spelled(limited: &LimitedPath<'_>) -> String {
    let mut name = limited.domain.to_owned();
    for (node, _) in &limited.path {
        name.push('/');
        name.push_str(&node.key);
        if let Some(value) = node.value.text() {
            name.push(':');
            name.extend(value.chars().take(if is_secret(node) { SECRET_LEN_MAX } else { usize::MAX }));
        }
    }
    name
}

fn is_secret(node: &TreeNode) -> bool {
    let key = node.key.to_ascii_lowercase();
    key != GENERIC && SECRETS.iter().any(|part| key.contains(part))
}

/// Replaces the characters that a rule's name must not have; the result is ASCII.
fn sanitized(name: &str) -> String {
    name.chars().map(|c| if is_name_char(c) { c } else { '-' }).collect()
}

fn digest(limited: &LimitedPath<'_>) -> u32 {
    let mut hasher = SipHasher13::new();
    let mut part = |tag: u8, text: &str| {
        hasher.write_u8(tag);
        hasher.write_u64(text.len() as u64);
        hasher.write(text.as_bytes());
    };
    part(0, limited.domain);
    for (node, _) in &limited.path {
        part(1, &node.key);
        if let Some(value) = node.value.text() {
            part(2, value);
        }
    }
    #[expect(clippy::cast_possible_truncation, reason = "the low half of a digest is a digest")]
    let low = hasher.finish() as u32;
    low
}
