//! News of the fleet's registry in the store, beside its members: newer rules of other agents, and other digest keys.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use tollgate_core::messages::presence::PresenceSet;

use crate::report::Notice;

/// State of the registry at the last announcement.
#[derive(Debug, Default)]
pub(crate) struct RegistryNews {
    /// Greatest rank of rules.
    newest_rank: AtomicU64,
    /// True if other live agents use another digest key.
    do_keys_differ: AtomicBool,
}

impl RegistryNews {
    /// Follows the answer to an announcement. Returns true if other rules are the newest of the fleet now, and the change of the
    /// digest keys for the log.
    pub(crate) fn follow(&self, set: &PresenceSet) -> (bool, Option<Notice>) {
        let has_newer = self.newest_rank.swap(set.newest_rank, Ordering::Relaxed) != set.newest_rank;
        let differ = set.other_digest_keys > 0;
        let notice = if differ { Notice::DigestKeysDiffer } else { Notice::DigestKeysAgree };
        (has_newer, (self.do_keys_differ.swap(differ, Ordering::Relaxed) != differ).then_some(notice))
    }

    pub(crate) fn do_digest_keys_differ(&self) -> bool {
        self.do_keys_differ.load(Ordering::Relaxed)
    }
}
