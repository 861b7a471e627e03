//! How far back a partition is read to restore its counts.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tollgate_bus::ReadFrom;
use tollgate_core::clock::Timestamp;
use tollgate_core::rules::RuleSet;

/// What a record may be older than its window, in ms: late batches, and clocks that differ.
const SLACK_MS: u64 = 120_000;
const UNKNOWN: u64 = 0;

/// How far back: as wide as the widest window of the rules that are known, else all that is kept. Clones are the same one.
#[derive(Clone, Debug, Default)]
pub struct Reach(Arc<AtomicU64>);

impl Reach {
    /// Takes the windows of these rules into account.
    pub fn cover(&self, rules: &RuleSet) {
        let windows = rules.rules.iter().flat_map(|rule| rule.all_policies()).map(|policy| policy.window);
        let reaches = windows.map(|window| window.width_ms() + window.part_ms() + SLACK_MS);
        self.0.fetch_max(reaches.max().unwrap_or(UNKNOWN), Ordering::Relaxed);
    }

    pub(super) fn from(&self, now: Timestamp) -> ReadFrom {
        match self.0.load(Ordering::Relaxed) {
            UNKNOWN => ReadFrom::Oldest,
            reach_ms => ReadFrom::Time(now.minus_ms(reach_ms)),
        }
    }
}
