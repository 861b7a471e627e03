//! Key of a call: a copy of everything by which rules match it, to recognise an equal call later.
//!
//! It holds the text itself. A hash in its place would have to be as strong as the digests of counters, or a client could
//! look for a call that passes for another one; to compare short texts costs less than such a hash.

use std::hash::Hasher;

use smallvec::SmallVec;

use crate::call::Call;

/// Length of a text that needs no memory of its own, in bytes.
const TEXT_LEN_INLINE: usize = 64;
/// Length past which a call has no key, in bytes.
const TEXT_LEN_MAX: usize = 1_024;

/// Descriptors and cost of a call. The default is the key of no call.
#[derive(Clone, Debug)]
pub struct CallKey {
    /// Of each descriptor the lengths of name and value, in two bytes each, and the texts.
    text: SmallVec<[u8; TEXT_LEN_INLINE]>,
    /// Bit set of the unverified descriptors; that of no call has a bit that no call can have.
    unverified: u64,
    cost: u64,
}

/// Bits of no call: a call has no bit set without a descriptor.
const NO_CALL: u64 = u64::MAX;

impl Default for CallKey {
    fn default() -> Self {
        Self { text: SmallVec::new(), unverified: NO_CALL, cost: 0 }
    }
}

impl CallKey {
    /// Makes this the key of a call; returns false if the call is too long for one. Memory is used again.
    pub fn set(&mut self, call: &Call<'_>) -> bool {
        self.text.clear();
        self.unverified = NO_CALL;
        for (name, value) in call.descriptors() {
            if self.text.len() + name.len() + value.len() > TEXT_LEN_MAX {
                self.text.clear();
                return false;
            }
            self.text.extend_from_slice(&lens(name, value));
            self.text.extend_from_slice(name.as_bytes());
            self.text.extend_from_slice(value.as_bytes());
        }
        (self.unverified, self.cost) = (call.parts().1, call.cost());
        true
    }

    /// Returns true if this is the key of a call.
    #[inline]
    #[must_use]
    pub fn is_of(&self, call: &Call<'_>) -> bool {
        let (descriptors, unverified) = call.parts();
        let mut rest = &self.text[..];
        for (name, value) in descriptors {
            // The lengths are equal unless one was cut, and then the text ends before.
            let known = rest.split_first_chunk().filter(|(known, _)| **known == lens(name, value));
            let Some((texts, behind)) = known.and_then(|(_, texts)| texts.split_at_checked(name.len() + value.len()))
            else {
                return false;
            };
            if texts[..name.len()] != *name.as_bytes() || texts[name.len()..] != *value.as_bytes() {
                return false;
            }
            rest = behind;
        }
        rest.is_empty() && self.unverified == unverified && self.cost == call.cost()
    }
}

/// Adds to a hash the values of a call: equal calls have equal hashes, and most others do not.
#[inline]
pub fn hash_call(call: &Call<'_>, hasher: &mut impl Hasher) {
    for (_, value) in call.parts().0 {
        hasher.write(value.as_bytes());
    }
}

#[expect(clippy::cast_possible_truncation, reason = "texts are compared in full")]
fn lens(name: &str, value: &str) -> [u8; 4] {
    let ([a, b], [c, d]) = ((name.len() as u16).to_le_bytes(), (value.len() as u16).to_le_bytes());
    [a, b, c, d]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_of_calls_with_the_same_descriptors_and_cost_only() {
        let long = "x".repeat((1 << 16) + 1);
        let mut unverified = Call::new();
        unverified.set_unverified("k".into(), "a".into());
        let calls = [
            Call::new(),
            Call::new().with("k", "a"),
            unverified,
            Call::new().with("k", "a").costing(2),
            Call::new().with("k", "b"),
            Call::new().with("ka", ""),
            Call::new().with("", "ka"),
            Call::new().with("k", "a").with("l", "b"),
            Call::new().with("k", "al").with("", "b"),
            Call::new().with("l", "b").with("k", "a"),
            Call::new().with("k", "x".repeat(TEXT_LEN_INLINE)),
            Call::new().with("k", "x"),
        ];
        let mut key = CallKey::default();
        assert!(!calls.iter().any(|call| key.is_of(call)), "the key of no call");
        for (position, call) in calls.iter().enumerate() {
            assert!(key.set(call));
            let found: Vec<_> = (0..calls.len()).filter(|other| key.is_of(&calls[*other])).collect();
            assert_eq!(found, [position]);
            assert!(!key.is_of(&Call::new().with("k", long.as_str())));
        }
        assert!(!key.set(&Call::new().with("k", long.as_str())));
        assert!(!calls.iter().any(|call| key.is_of(call)), "a call that is too long has no key");
    }
}
