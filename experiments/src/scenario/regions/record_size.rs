//! Size of a ledger's record, estimated from its fields as Protocol Buffers would encode them.
//!
//! A field has a tag of one byte. Numbers are varints, lives of writers and fingerprints 8 bytes, counters 16 bytes with a length.
//! A message within another has a length of one byte. Kafka's framing is not contained.

use tollgate_core::messages::ledger::{EntryId, LedgerEntry, LedgerRecord};

const TAG: u64 = 1;
const LENGTH: u64 = 1;
const FIXED: u64 = TAG + 8;
const COUNTER: u64 = TAG + LENGTH + 16;

/// Returns the bytes of a record.
pub(super) fn record_bytes(record: &LedgerRecord) -> u64 {
    let fields = match &record.entry {
        LedgerEntry::Terms(terms) => {
            let floors = terms.floors.iter().map(|(region, units)| TAG + LENGTH + text(region) + number(*units));
            text(&terms.rule)
                + [terms.generation, terms.quota, terms.window_ms, terms.term_ms].into_iter().map(number).sum::<u64>()
                + FIXED
                + floors.sum::<u64>()
        }
        LedgerEntry::Request(request) => {
            entry_id(request.terms) + COUNTER + text(&request.region) + number(request.wants)
        }
        LedgerEntry::Grant { request, units, .. } => COUNTER + entry_id(*request) + number(*units),
        LedgerEntry::Renewal { grant, wants, .. } => COUNTER + entry_id(*grant) + number(*wants),
        LedgerEntry::GiveBack { grant, keeps, .. } => COUNTER + entry_id(*grant) + number(*keeps),
        LedgerEntry::FloorGiveBack { terms, region } => entry_id(*terms) + text(region),
        LedgerEntry::Expiry { grant, last, .. } => COUNTER + entry_id(*grant) + entry_id(*last),
    };
    entry_id(record.id) + TAG + LENGTH + fields
}

fn entry_id(id: EntryId) -> u64 {
    TAG + LENGTH + FIXED + number(id.sequence)
}

fn text(text: &str) -> u64 {
    TAG + LENGTH + text.len() as u64
}

/// Returns the bytes of a number: 7 bits in each. Zero is left out.
fn number(value: u64) -> u64 {
    if value == 0 { 0 } else { TAG + u64::from(u64::BITS - value.leading_zeros()).div_ceil(7) }
}

#[cfg(test)]
mod tests {
    use tollgate_core::counter::CounterId;

    use super::*;

    #[test]
    fn a_renewal_has_two_identities_a_counter_and_a_number() {
        let id = |sequence| EntryId { writer: 1, sequence };
        let entry = LedgerEntry::Renewal { counter: CounterId::from_u128(1), grant: id(1), wants: 300 };
        // 11 + 3 for the sequence 300; 2; 18; 11 + 2; 3.
        assert_eq!(record_bytes(&LedgerRecord { id: id(300), entry }), 14 + 2 + 18 + 13 + 3);
        assert_eq!([0, 1, 127, 128, u64::MAX].map(number), [0, 2, 2, 3, 11]);
    }
}
