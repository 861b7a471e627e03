//! Entries that a reader of the ledger has seen, so that it recognises repetitions.
//!
//! A process numbers its entries, so its last number stands for all before. A give-back is the only entry of a writer of its own. Both
//! have a table: otherwise thousands of give-backs would evict the processes, and the requests that a mirror repeats would count
//! twice.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use tollgate_core::messages::ledger::{EntryId, LedgerEntry, LedgerRecord};

/// Maximum number of processes. The one that has been silent for longest is forgotten.
pub(super) const WRITERS_LEN_MAX: usize = 4_096;
/// Maximum number of give-backs. The oldest one is forgotten. A repetition of it is void all the same once its grant
/// got more units or has ended. It then gives nothing back that it has not given before.
pub(super) const GIVE_BACKS_LEN_MAX: usize = 16_384;

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct SeenEntries {
    writers: BTreeMap<u64, SeenWriter>,
    give_backs: BTreeSet<EntryId>,
    give_backs_in_order: VecDeque<EntryId>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct SeenWriter {
    /// Its last entry.
    sequence: u64,
    /// Length of the ledger after it.
    at: u64,
}

impl SeenEntries {
    /// Returns true if an entry was seen: a give-back, or a process's entry or a later one of it.
    pub(super) fn contains(&self, id: EntryId) -> bool {
        let is_numbered = self.writers.get(&id.writer).is_some_and(|writer| id.sequence <= writer.sequence);
        is_numbered || self.give_backs.contains(&id)
    }

    /// Adds an entry. `len` is the length of the ledger with it.
    pub(super) fn add(&mut self, record: &LedgerRecord, len: u64) {
        let id = record.id;
        if matches!(record.entry, LedgerEntry::GiveBack { .. } | LedgerEntry::FloorGiveBack { .. }) {
            if self.give_backs.insert(id) {
                self.give_backs_in_order.push_back(id);
            }
            if self.give_backs.len() > GIVE_BACKS_LEN_MAX
                && let Some(oldest) = self.give_backs_in_order.pop_front()
            {
                self.give_backs.remove(&oldest);
            }
            return;
        }
        self.writers.insert(id.writer, SeenWriter { sequence: id.sequence, at: len });
        if self.writers.len() > WRITERS_LEN_MAX
            && let Some(silent) = self.writers.iter().min_by_key(|(_, writer)| writer.at).map(|(id, _)| *id)
        {
            self.writers.remove(&silent);
        }
    }
}

#[cfg(test)]
mod tests {
    use tollgate_core::counter::CounterId;

    use super::*;

    fn id(writer: u64, sequence: u64) -> EntryId {
        EntryId { writer, sequence }
    }

    fn numbered(id: EntryId) -> LedgerRecord {
        let entry = LedgerEntry::Renewal { counter: CounterId::from_u128(1), grant: id, wants: 0 };
        LedgerRecord { id, entry }
    }

    fn give_back(id: EntryId) -> LedgerRecord {
        let entry = LedgerEntry::GiveBack { counter: CounterId::from_u128(1), grant: id, keeps: 0 };
        LedgerRecord { id, entry }
    }

    /// Past the cap, the writer that has been silent for longest is forgotten.
    #[test]
    fn writers_are_capped() {
        let mut seen = SeenEntries::default();
        let (count, mut len) = (WRITERS_LEN_MAX as u64, 0);
        let entries = (0..count).map(|writer| id(writer, 1)).chain([id(0, 5), id(count, 1)]);
        for entry in entries {
            len += 1;
            seen.add(&numbered(entry), len);
        }
        assert_eq!(seen.writers.len(), WRITERS_LEN_MAX);
        let contains = [id(0, 5), id(0, 6), id(1, 1), id(2, 1)].map(|id| seen.contains(id));
        assert_eq!(contains, [true, false, false, true]);
    }

    /// Past the cap, the oldest give-back is forgotten. Give-backs evict no processes, and the reverse.
    #[test]
    fn give_backs_are_capped_beside_the_writers() {
        let mut seen = SeenEntries::default();
        seen.add(&numbered(id(7, 3)), 1);
        let first = 1_000_000;
        let last = first + GIVE_BACKS_LEN_MAX as u64;
        for (len, writer) in (2..).zip(first..=last) {
            seen.add(&give_back(id(writer, 1)), len);
        }
        let contains = [id(7, 3), id(first, 1), id(first + 1, 1), id(last, 1)].map(|id| seen.contains(id));
        assert_eq!(contains, [true, false, true, true]);
        for writer in 0..2 * WRITERS_LEN_MAX as u64 {
            seen.add(&numbered(id(writer, 1)), last + writer);
        }
        assert!(seen.contains(id(first + 1, 1)));
        assert_eq!((seen.give_backs.len(), seen.give_backs_in_order.len()), (GIVE_BACKS_LEN_MAX, GIVE_BACKS_LEN_MAX));
    }
}
