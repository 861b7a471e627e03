//! Rendezvous hashing: items are placed on members without coordination. Everybody who knows the members computes the same
//! placement, and a member that joins or leaves moves only its own items.
//!
//! Thaler and Ravishankar, "A Name-Based Mapping Scheme for Rendezvous", 1996.

use std::hash::Hasher;

use siphasher::sip::SipHasher24;

/// Returns the weight of a member for an item: the members with the greatest weights get it. The weights are the same on
/// every machine and in every version. `life` tells lives of one member apart, where that matters.
#[must_use]
pub fn weight(member: &str, life: u64, item: u128) -> u64 {
    let mut hasher = SipHasher24::new();
    hasher.write(member.as_bytes());
    hasher.write_u64(life);
    hasher.write_u128(item);
    hasher.finish()
}
