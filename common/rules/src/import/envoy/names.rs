//! Names of rules and of descriptors.

use std::borrow::Cow;
use std::collections::HashMap;
use std::hash::Hasher as _;

use siphasher::sip::SipHasher13;

use super::tree::Step;
use tollgate_core::call::NAME_LEN_MAX;

/// The descriptor that holds the domain.
pub(super) const DOMAIN: &str = "domain";

/// The names under which a call carries the entries of one Envoy descriptor. A call has each name once, so a key that
/// comes again (or is `domain`, which is taken) is numbered: `files`, `files#2`.
pub fn envoy_names<'k>(keys: impl IntoIterator<Item = &'k str>) -> Vec<Cow<'k, str>> {
    let mut seen = HashMap::from([(DOMAIN, 1_u32)]);
    let numbered = |key: &'k str| {
        let nth = seen.entry(key).and_modify(|nth| *nth += 1).or_insert(1);
        if *nth == 1 { Cow::Borrowed(key) } else { Cow::Owned(format!("{key}#{nth}")) }
    };
    keys.into_iter().map(numbered).collect()
}

/// What stands in the key of an entry whose values nobody but the caller should read.
const SECRETS: [&str; 7] = ["key", "token", "secret", "auth", "password", "session", "credential"];
/// Envoy's name for a constant of its own configuration, which is no secret.
const GENERIC: &str = "generic_key";
/// How many characters of a secret a name shows.
const SECRET_SHOWN: usize = 4;

/// A name for each path, unique among them, that only its own path and no other decides: counters outlive a reload.
/// (Where two paths read the same, as a `/` in a value can make them, both are told apart by their digest.) Names stand in
/// metrics and headers, so of a value that looks like a secret there is only the beginning in them, and the digest.
pub(super) fn rule_names(paths: &[(&str, Vec<Step<'_>>)]) -> Vec<String> {
    let plain: Vec<String> = paths.iter().map(|(domain, path)| spelled(domain, path)).collect();
    let mut uses: HashMap<String, u32> = HashMap::new();
    for name in &plain {
        *uses.entry(tamed(name)).or_default() += 1;
    }
    let named = |(name, (domain, path)): (&String, &(&str, Vec<Step<'_>>))| {
        let tame = tamed(name);
        let secret = path.iter().any(|step| step.value.is_some() && is_secret(step.key));
        if !secret && tame == *name && name.len() <= NAME_LEN_MAX && uses[&tame] == 1 {
            return tame;
        }
        let digest = format!(".{:08x}", digest(domain, path));
        let cut = tame.len().min(NAME_LEN_MAX - digest.len());
        tame[..cut].to_owned() + &digest
    };
    plain.iter().zip(paths).map(named).collect()
}

fn spelled(domain: &str, path: &[Step<'_>]) -> String {
    let mut name = domain.to_owned();
    for step in path {
        name.push('/');
        name.push_str(step.key);
        if let Some(value) = step.value {
            name.push(':');
            let shown = if is_secret(step.key) { SECRET_SHOWN } else { usize::MAX };
            name.extend(value.chars().take(shown));
        }
    }
    name
}

fn is_secret(key: &str) -> bool {
    let key = key.to_ascii_lowercase();
    key != GENERIC && SECRETS.iter().any(|part| key.contains(part))
}

/// The name in signs that a rule's name may have; one byte each.
fn tamed(name: &str) -> String {
    name.chars().map(|c| if c.is_ascii_alphanumeric() || "-_.:/ ".contains(c) { c } else { '-' }).collect()
}

fn digest(domain: &str, path: &[Step<'_>]) -> u32 {
    let mut hasher = SipHasher13::new();
    let mut part = |tag: u8, text: &str| {
        hasher.write_u8(tag);
        hasher.write_u64(text.len() as u64);
        hasher.write(text.as_bytes());
    };
    part(0, domain);
    for step in path {
        part(1, step.key);
        if let Some(value) = step.value {
            part(2, value);
        }
    }
    #[expect(clippy::cast_possible_truncation, reason = "the low half of a digest is a digest")]
    let low = hasher.finish() as u32;
    low
}
