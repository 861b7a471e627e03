//! Digests of counters, requests and values, under the key of the fleet.
//!
//! The digest is keyed (SipHash-2-4, Aumasson and Bernstein, 2012), so that neither Redis nor Kafka stores a raw key, and
//! callers cannot construct a collision. Operators see a label, in which secrets are truncated. Undeclared descriptors are
//! secrets there, because a shortened name does less harm than a published key.

use std::fmt;
use std::hash::Hasher;

use siphasher::sip128::{Hasher128, SipHasher24};

use super::id::{CounterId, HashSlotId, RequestId};
use super::known_counters;
use crate::clock::Timestamp;

/// Number of leading characters of a secret value in a label.
const SECRET_SHOWN: usize = 4;
/// Maximum length of a value that a label shows in full, in characters.
const LABEL_VALUE_LEN_MAX: usize = 64;

/// Key of all digests; the same for all agents and regions.
#[derive(Clone)]
pub struct DigestKey([u8; 16]);

/// Kind of the digested value. It separates the digests of different kinds.
#[derive(Clone, Copy)]
enum DigestDomain {
    Counter,
    Value,
    Call,
    Slot,
    Request,
    Correction,
    ProofKey,
    Proof,
    Backfill,
    Fingerprint,
}

impl Default for DigestKey {
    /// Public key, sufficient if no untrusted party can read Redis or Kafka.
    fn default() -> Self {
        Self(*b"tollgate-digest1")
    }
}

impl From<[u8; 16]> for DigestKey {
    fn from(key: [u8; 16]) -> Self {
        Self::new(key)
    }
}

impl DigestKey {
    /// Creates a private key.
    #[must_use]
    pub const fn new(key: [u8; 16]) -> Self {
        Self(key)
    }

    /// Returns the counter of a rule for the values of its `per`, in their order.
    #[must_use]
    pub fn counter<'a>(&self, rule: &'a str, values: impl IntoIterator<Item = &'a str>) -> CounterId {
        CounterId::from_u128(self.digest(DigestDomain::Counter, std::iter::once(rule).chain(values)))
    }

    /// Returns [`Self::counter`]; for counters that the thread used lately without a digest.
    #[must_use]
    pub fn known_counter<'a>(&self, rule: &'a str, values: impl Iterator<Item = &'a str> + Clone) -> CounterId {
        known_counters::counter(u128::from_le_bytes(self.0), rule, values.clone(), || self.counter(rule, values))
    }

    /// Returns the identifier of a call that no rule limits. It selects the partition of the call's row.
    #[must_use]
    pub fn call<'a>(&self, descriptors: impl IntoIterator<Item = (&'a str, &'a str)>) -> CounterId {
        let parts = descriptors.into_iter().flat_map(|(name, value)| [name, value]);
        CounterId::from_u128(self.digest(DigestDomain::Call, parts))
    }

    /// Returns the slot of the counters with this value of the slot descriptor.
    #[must_use]
    pub fn slot(&self, value: &str) -> HashSlotId {
        HashSlotId(self.digest(DigestDomain::Slot, [value]))
    }

    /// Returns the identifier of a request with the caller's `id`, this cost and these descriptors. A retry has all three. The same
    /// `id` with another cost is another request, because a settlement refunds by the cost. With other descriptors, it is one of
    /// another caller, who may share a counter with this one.
    #[must_use]
    pub fn request<'a>(
        &self,
        id: &str,
        cost: u64,
        descriptors: impl IntoIterator<Item = (&'a str, &'a str)>,
    ) -> RequestId {
        let mut descriptors: Vec<_> = descriptors.into_iter().collect();
        descriptors.sort_unstable();
        let cost = cost.to_be_bytes();
        let texts = descriptors.iter().flat_map(|(name, value)| [name.as_bytes(), value.as_bytes()]);
        let parts = [id.as_bytes(), &cost].into_iter().chain(texts);
        RequestId::from_u128(self.digest(DigestDomain::Request, parts))
    }

    /// Returns the identifier of a decision on a call without an id, by which the call is corrected.
    pub(crate) fn decision(&self, id: &str) -> RequestId {
        RequestId::from_u128(self.digest(DigestDomain::Correction, [id]))
    }

    /// Returns a digest that proves who wrote these texts, under a key derived for it.
    pub(crate) fn proof<'a>(&self, texts: impl IntoIterator<Item = &'a str>) -> u64 {
        let derived = Self(self.digest(DigestDomain::ProofKey, [""; 0]).to_be_bytes());
        (derived.digest(DigestDomain::Proof, texts) >> 64) as u64
    }

    /// Returns the first identifier of the units that one life of an agent admits without the store.
    #[must_use]
    pub fn backfill(&self, node: &str, epoch: Timestamp) -> RequestId {
        RequestId::from_u128(self.digest(DigestDomain::Backfill, [node, &epoch.as_ms().to_string()]))
    }

    /// Returns a number by which two processes find out that they have the same key.
    #[must_use]
    pub fn fingerprint(&self) -> u64 {
        (self.digest(DigestDomain::Fingerprint, [""; 0]) >> 64) as u64
    }

    /// Formats a value for display: a secret becomes its first characters and a digest, other values are truncated.
    #[must_use]
    pub fn shown(&self, value: &str, secret: bool) -> String {
        if secret {
            let head: String = value.chars().take(SECRET_SHOWN).filter(|c| !c.is_control()).collect();
            let digest = self.digest(DigestDomain::Value, [value]) >> 96;
            return format!("{head}…{digest:08x}");
        }
        if value.len() <= LABEL_VALUE_LEN_MAX && value.bytes().all(|byte| (b' '..0x7f).contains(&byte)) {
            return value.to_owned();
        }
        let mut shown: String = value.chars().filter(|c| !c.is_control()).take(LABEL_VALUE_LEN_MAX).collect();
        if shown.len() < value.len() {
            shown.push('…');
        }
        shown
    }

    fn digest(&self, domain: DigestDomain, parts: impl IntoIterator<Item = impl AsRef<[u8]>>) -> u128 {
        let mut hasher = SipHasher24::new_with_key(&self.0);
        hasher.write_u8(domain as u8);
        for part in parts {
            let part = part.as_ref();
            hasher.write_u64(part.len() as u64);
            hasher.write(part);
        }
        hasher.finish128().as_u128()
    }
}

impl fmt::Debug for DigestKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("DigestKey(..)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_that_join_to_the_same_text_are_different_counters() {
        let key = DigestKey::default();
        assert_ne!(key.counter("r", ["ab", "c"]), key.counter("r", ["a", "bc"]));
        assert_ne!(key.counter("r", ["a"]), key.counter("ra", []));
        assert_ne!(key.counter("r", ["a"]), DigestKey::new([7; 16]).counter("r", ["a"]));
    }

    /// A retry has the same descriptors in any order. Another caller has others, also on a counter that both share.
    #[test]
    fn a_request_id_is_one_of_its_caller() {
        let request = |descriptors: &[(&'static str, &'static str)]| {
            DigestKey::default().request("same", 1, descriptors.iter().copied())
        };
        assert_eq!(request(&[("ip", "a"), ("user", "b")]), request(&[("user", "b"), ("ip", "a")]));
        assert_ne!(request(&[("user", "a")]), request(&[("user", "b")]));
        assert_ne!(request(&[("user", "ab")]), request(&[("usera", "b")]));
    }

    #[test]
    fn a_secret_shows_four_characters_and_no_more() {
        let shown = DigestKey::default().shown("sk_live_51Hx", true);
        assert!(shown.starts_with("sk_l…") && !shown.contains("live"), "{shown}");
        assert_ne!(shown, DigestKey::default().shown("sk_live_51Hy", true));
        assert_eq!(DigestKey::default().shown("10.0.0.1", false), "10.0.0.1");
    }

    #[test]
    fn counters_spread_over_all_partitions() {
        let key = DigestKey::default();
        let mut hits = [0; 8];
        for caller in 0..8_000 {
            hits[key.counter("r", [caller.to_string().as_str()]).partition(8) as usize] += 1;
        }
        assert!(hits.iter().all(|hits| (800..1_200).contains(hits)), "{hits:?}");
    }
}
