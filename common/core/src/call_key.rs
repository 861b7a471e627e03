//! Key of a call: a copy of everything by which rules match it, to recognise an equal call later.
//!
//! It holds the text itself. A hash in its place would have to be as strong as the digests of counters, or a client
//! could look for a call that passes for another one; to compare short texts costs less than such a hash. A thread
//! holds thousands of keys and looks at one for each call, so a key is small: a call with more than it can hold has
//! none.

use std::hash::Hasher;

use smallvec::SmallVec;

use crate::call::Call;

/// Length of a text that needs no memory of its own, in bytes: an API key of 36 bytes with its name, or two short
/// descriptors.
const TEXT_LEN_INLINE: usize = 46;
/// Length past which a call has no key, in bytes.
const TEXT_LEN_MAX: usize = 1_024;
/// Length of a name past which a call has no key, in bytes.
const NAME_LEN_MAX: usize = 255;
/// Length of the lengths of a descriptor, in bytes.
const LENS_LEN: usize = 3;

/// Descriptors and cost of a call. The default is the key of no call.
#[derive(Clone, Debug)]
pub struct CallKey {
    /// Encoded descriptors: for each one, the length of the name in one byte, that of the value in two, and both texts.
    text: KeyText,
    /// Bit set of the unverified descriptors, or [`NO_CALL`].
    unverified: u32,
    cost: u32,
}

#[derive(Clone, Debug)]
enum KeyText {
    Inline(u8, [u8; TEXT_LEN_INLINE]),
    Long(Box<[u8]>),
}

/// Bit set of the default key, which no call has: that key has no text, and a call without descriptors sets no bit.
const NO_CALL: u32 = u32::MAX;

impl Default for CallKey {
    fn default() -> Self {
        Self { text: KeyText::Inline(0, [0; TEXT_LEN_INLINE]), unverified: NO_CALL, cost: 0 }
    }
}

impl CallKey {
    /// Returns the key of a call; none if the call has too much for one.
    #[must_use]
    pub fn of(call: &Call<'_>) -> Option<Self> {
        let unverified = u32::try_from(call.parts().1).ok().filter(|unverified| *unverified != NO_CALL)?;
        let cost = u32::try_from(call.cost()).ok()?;
        let mut text: SmallVec<[u8; 128]> = SmallVec::new();
        for (name, value) in call.descriptors() {
            let (name, value) = (name.as_bytes(), value.as_bytes());
            if name.len() > NAME_LEN_MAX || text.len() + LENS_LEN + name.len() + value.len() > TEXT_LEN_MAX {
                return None;
            }
            text.extend_from_slice(&lens(name, value));
            text.extend_from_slice(name);
            text.extend_from_slice(value);
        }
        Some(Self { text: KeyText::of(&text), unverified, cost })
    }

    /// Returns true if this is the key of a call.
    #[inline]
    #[must_use]
    pub fn is_of(&self, call: &Call<'_>) -> bool {
        let (descriptors, unverified) = call.parts();
        if u64::from(self.unverified) != unverified || u64::from(self.cost) != call.cost() {
            return false;
        }
        let mut rest = match &self.text {
            KeyText::Inline(len, text) => &text[..usize::from(*len)],
            KeyText::Long(text) => text,
        };
        for (name, value) in descriptors {
            let (name, value) = (name.as_bytes(), value.as_bytes());
            // The lengths are equal unless one was cut, and then the text ends before.
            let known = rest.split_first_chunk().filter(|(known, _)| **known == lens(name, value));
            let Some((texts, behind)) = known.and_then(|(_, texts)| texts.split_at_checked(name.len() + value.len()))
            else {
                return false;
            };
            if texts[..name.len()] != *name || texts[name.len()..] != *value {
                return false;
            }
            rest = behind;
        }
        rest.is_empty()
    }
}

impl KeyText {
    fn of(text: &[u8]) -> Self {
        let mut inline = [0; TEXT_LEN_INLINE];
        match (inline.get_mut(..text.len()), u8::try_from(text.len())) {
            (Some(start), Ok(len)) => {
                start.copy_from_slice(text);
                Self::Inline(len, inline)
            }
            _ => Self::Long(text.into()),
        }
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
fn lens(name: &[u8], value: &[u8]) -> [u8; LENS_LEN] {
    let [low, high] = (value.len() as u16).to_le_bytes();
    [name.len() as u8, low, high]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_of_calls_with_the_same_descriptors_and_cost_only() {
        let long = |len: usize| "x".repeat(len);
        let unverified = |names: usize| {
            let mut call = Call::new();
            (0..names).for_each(|name| call.set_unverified(format!("k{name}").into(), "a".into()));
            call
        };
        let calls = [
            Call::new(),
            Call::new().with("k0", "a"),
            unverified(1),
            Call::new().with("k0", "a").costing(2),
            Call::new().with("k0", "a").costing(u32::MAX.into()),
            Call::new().with("k0", "b"),
            Call::new().with("k0a", ""),
            Call::new().with("", "k0a"),
            Call::new().with("k0", "a").with("l", "b"),
            Call::new().with("k0", "al").with("", "b"),
            Call::new().with("l", "b").with("k0", "a"),
            Call::new().with("k0", long(TEXT_LEN_INLINE - 5)),
            Call::new().with("k0", long(TEXT_LEN_INLINE - 4)),
            Call::new().with("k0", long(TEXT_LEN_MAX - 5)),
            Call::new().with(long(255), "a"),
            unverified(31),
        ];
        assert!(!calls.iter().any(|call| CallKey::default().is_of(call)), "the key of no call");
        let too_much = [
            Call::new().with("k0", long(TEXT_LEN_MAX - 4)),
            Call::new().with("k0", long((1 << 16) + 1)),
            Call::new().with(long(256), "a"),
            Call::new().with("k0", "a").costing((1 << 32) + 1),
            unverified(32),
            unverified(33),
        ];
        for (position, call) in calls.iter().enumerate() {
            let key = CallKey::of(call).expect("a key");
            let found: Vec<_> = (0..calls.len()).filter(|other| key.is_of(&calls[*other])).collect();
            assert_eq!(found, [position]);
            assert!(!too_much.iter().any(|call| key.is_of(call)));
        }
        assert!(too_much.iter().all(|call| CallKey::of(call).is_none()));
        assert_eq!(size_of::<CallKey>(), 56);
    }
}
