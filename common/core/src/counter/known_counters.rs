//! Counters that a thread used lately, by the values that select them.
//!
//! The keyed digest is the same on every node, and therefore slow. A thread finds the digest of a known caller by a
//! hash that only the process knows; of two callers in one place the later one stays. The 128 bits of the hash stand
//! for the values: its seeds are random, so that nobody can aim at another caller's.

use std::cell::RefCell;
use std::hash::{BuildHasher, Hasher};
use std::sync::LazyLock;

use foldhash::fast::RandomState;

use super::id::CounterId;

/// Number of counters that a thread remembers: 128 KiB.
const KNOWN_LEN: usize = 4_096;

static SEEDS: LazyLock<[RandomState; 2]> = LazyLock::new(Default::default);

thread_local! {
    static KNOWN: RefCell<Vec<(u128, CounterId)>> = const { RefCell::new(Vec::new()) };
}

/// Returns the counter of these values under a rule and a digest key, which is computed only if it is not known.
pub(super) fn counter<'a>(
    key: u128,
    rule: &'a str,
    values: impl Iterator<Item = &'a str>,
    digest: impl FnOnce() -> CounterId,
) -> CounterId {
    let [mut low, mut high] = SEEDS.each_ref().map(BuildHasher::build_hasher);
    for hasher in [&mut low, &mut high] {
        hasher.write_u128(key);
        hasher.write(rule.as_bytes());
    }
    for value in values {
        for hasher in [&mut low, &mut high] {
            // The length separates the values.
            hasher.write_usize(value.len());
            hasher.write(value.as_bytes());
        }
    }
    let (low, high) = (low.finish(), high.finish());
    let hash = u128::from(high) << 64 | u128::from(low);
    let mut digest = Some(digest);
    let known = KNOWN.try_with(|known| {
        let mut known = known.borrow_mut();
        if known.is_empty() {
            known.resize(KNOWN_LEN, (0, CounterId::from_u128(0)));
        }
        #[expect(clippy::cast_possible_truncation, reason = "the lower bits are enough")]
        let place = &mut known[low as usize % KNOWN_LEN];
        if place.0 != hash
            && let Some(digest) = digest.take()
        {
            *place = (hash, digest());
        }
        place.1
    });
    // A thread that ends knows none any more.
    known.unwrap_or_else(|_| digest.take().expect("it is not computed yet")())
}

#[cfg(test)]
mod tests {
    use crate::counter::DigestKey;

    #[test]
    fn a_known_counter_is_the_counter_however_many_came_between() {
        let keys = [DigestKey::default(), DigestKey::new([7; 16])];
        for round in 0..3 {
            for caller in 0..10_000 {
                let (key, text) = (&keys[caller % 2], caller.to_string());
                let values = [text.as_str(), "v"];
                assert_eq!(key.known_counter("r", values.into_iter()), key.counter("r", values), "{round}");
            }
        }
        assert_ne!(
            keys[0].known_counter("r", ["ab", "c"].into_iter()),
            keys[0].known_counter("r", ["a", "bc"].into_iter())
        );
    }
}
