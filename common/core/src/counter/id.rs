//! Identifiers of counters: one rule applied to one set of `per` values.
//!
//! A counter is identified by a 128-bit digest; `digest_key` computes it. Two rules, or two sets of values, practically never
//! have the same one.

use std::fmt;

/// Number of a partition of a log.
pub type Partition = u32;

/// Identifier of a counter, equal on every node of the fleet.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CounterId(u128);

/// Hash slot of a counter in the store. All counters of one hash slot are charged in one step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HashSlotId(pub(super) u128);

/// Number of slots of a Redis Cluster, among which hash slots are divided.
pub const CLUSTER_SLOTS: u16 = 16_384;

/// Identifier of a request, by which the store recognises a retry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RequestId(u128);

/// Kind of a correction of a call after its decision; a call may have one of each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallCorrection {
    /// The real cost of the call.
    Settlement,
    /// The end of a call that held slots.
    Release,
}

impl CallCorrection {
    /// Distance of the correction's identifier from that of its request.
    const fn distance(self) -> u128 {
        match self {
            Self::Settlement => 1 << 64,
            Self::Release => 2 << 64,
        }
    }
}

impl CounterId {
    /// Creates an identifier from the 128 bits of a digest.
    #[must_use]
    pub const fn from_u128(digest: u128) -> Self {
        Self(digest)
    }

    /// Returns the 128 bits of the digest.
    #[must_use]
    pub const fn as_u128(self) -> u128 {
        self.0
    }

    /// Returns the counter's partition out of `partitions`.
    #[must_use]
    pub const fn partition(self, partitions: u32) -> Partition {
        ((self.0 >> 64) as u64 % partitions as u64) as Partition
    }
}

impl fmt::Display for CounterId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

impl fmt::Debug for CounterId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl HashSlotId {
    /// Returns a hash slot that contains only `counter`.
    #[must_use]
    pub const fn of(counter: CounterId) -> Self {
        Self(counter.0)
    }

    /// Returns true if the hash slot contains only `counter`.
    #[must_use]
    pub const fn is_of(self, counter: CounterId) -> bool {
        self.0 == counter.0
    }

    /// Returns the slot of a Redis Cluster to which keys with this hash tag belong: CRC-16/XMODEM of the tag's text, as
    /// the cluster specification of Redis defines it.
    #[must_use]
    pub fn cluster_slot(self) -> u16 {
        const DIGITS: &[u8; 16] = b"0123456789abcdef";
        let digits = (0..32).rev().map(|place| DIGITS[(self.0 >> (4 * place) & 15) as usize]);
        digits.fold(0, crc16) % CLUSTER_SLOTS
    }

    /// Returns the slot of a Redis Cluster to which a key without a hash tag belongs.
    #[must_use]
    pub fn cluster_slot_of(key: &[u8]) -> u16 {
        key.iter().copied().fold(0, crc16) % CLUSTER_SLOTS
    }
}

impl RequestId {
    /// Creates an identifier from the 128 bits of a digest.
    #[must_use]
    pub const fn from_u128(digest: u128) -> Self {
        Self(digest)
    }

    /// Returns the 128 bits of the digest.
    #[must_use]
    pub const fn as_u128(self) -> u128 {
        self.0
    }

    /// Returns the identifier by which a store recognises a correction of this request.
    #[must_use]
    pub const fn correction(self, kind: CallCorrection) -> Self {
        Self(self.0.wrapping_add(kind.distance()))
    }

    /// Returns the request that is corrected under this identifier.
    #[must_use]
    pub const fn corrected(self, kind: CallCorrection) -> Self {
        Self(self.0.wrapping_sub(kind.distance()))
    }

    /// Returns the identifier that stands so many places after this one.
    #[must_use]
    pub const fn after(self, places: u64) -> Self {
        Self(self.0.wrapping_add(places as u128))
    }
}

/// Continues the checksum CRC-16/XMODEM with a byte.
fn crc16(crc: u16, byte: u8) -> u16 {
    const TABLE: [u16; 256] = {
        let mut table = [0; 256];
        let (mut index, mut first) = (0, 0_u16);
        while index < 256 {
            let (mut crc, mut bit) = (first << 8, 0);
            while bit < 8 {
                crc = if crc & 0x8000 == 0 { crc << 1 } else { crc << 1 ^ 0x1021 };
                bit += 1;
            }
            table[index] = crc;
            (index, first) = (index + 1, first + 1);
        }
        table
    };
    crc << 8 ^ TABLE[usize::from((crc >> 8) as u8 ^ byte)]
}

impl fmt::Display for HashSlotId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

impl fmt::Display for RequestId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The slots are those that `CLUSTER KEYSLOT` of Redis returns for the tag.
    #[test]
    fn a_hash_slot_lies_in_the_slot_of_its_tag() {
        assert_eq!(
            b"123456789".iter().fold(0, |crc, byte| crc16(crc, *byte)),
            0x31c3,
            "the check value of the checksum"
        );
        for (slot, expected) in [(0, 15_376), (0x1234_5678_9abc_def0_0fed_cba9_8765_4321, 5_251)] {
            assert_eq!(HashSlotId(slot).cluster_slot(), expected, "{slot:032x}");
        }
    }
}
