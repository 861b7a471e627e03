//! Names of regions, and identities of ledger entries.

use std::sync::Arc;

/// Name of a region.
pub type Region = Arc<str>;

/// Identity of an entry: the life of its writer, and its number there. A writer appends its entries in their order; an entry
/// that is not after the last one of its writer is a repetition.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EntryId {
    /// Life of the writer's process.
    pub writer: u64,
    /// Number of the entry, from 1.
    pub sequence: u64,
}
