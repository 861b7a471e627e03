//! Counts of an engine: plain atomic numbers that a shell reads and exports.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use tollgate_core::counter::StoreError;

use parking_lot::Mutex;
use tollgate_core::decision::Source;

/// Maximum number of rules with counts of their own. Decisions of further rules are counted under the empty name.
const RULES_LEN_MAX: usize = 20_000;

/// Number that only grows.
#[derive(Debug, Default)]
pub struct Total(AtomicU64);

/// Decisions of one rule. A matched rule holds its own counts, so a decision looks up no label.
#[derive(Debug, Default)]
pub struct RuleCounts {
    /// Decisions by source; of each pair, the first counts denials and the second admissions.
    pub decisions: [[Total; 2]; Source::ALL.len()],
    /// Calls that the rule would have denied if it were not in shadow.
    pub shadow_denials: Total,
}

/// Counts of one engine.
#[derive(Debug, Default)]
pub struct EngineMetrics {
    /// Charges on overflow counters.
    pub overflow_charges: Total,
    /// Counters that the store re-based after its clock stepped back.
    pub store_clock_steps: Total,
    /// Units that were admitted without the store and backfilled later.
    pub unsynced_units: Total,
    /// Counters whose unsynced units were dropped past the cap.
    pub unsynced_forgotten: Total,
    /// Records of the bus that could not be decoded.
    pub undecodable_records: Total,
    /// Rule sets that were refused.
    pub rules_rejected: Total,
    store_errors: [Total; StoreError::NAMES.len()],
    rules: Mutex<BTreeMap<Arc<str>, Arc<RuleCounts>>>,
}

impl Total {
    /// Adds `n`.
    pub fn add(&self, n: u64) {
        self.0.fetch_add(n, Ordering::Relaxed);
    }

    /// Returns the number.
    #[must_use]
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

impl EngineMetrics {
    /// Returns the counts of decisions that show this rule. They survive a change of the rule set.
    pub(crate) fn of_rule(&self, rule: &Arc<str>) -> Arc<RuleCounts> {
        let mut rules = self.rules.lock();
        let name = if rules.len() < RULES_LEN_MAX || rules.contains_key(rule) { rule.clone() } else { "".into() };
        rules.entry(name).or_default().clone()
    }

    pub(crate) fn store_error(&self, error: StoreError) {
        self.store_errors[error as usize].add(1);
    }

    /// Returns the counts of each rule, by name.
    #[must_use]
    pub fn rules(&self) -> Vec<(Arc<str>, Arc<RuleCounts>)> {
        self.rules.lock().iter().map(|(name, counts)| (name.clone(), counts.clone())).collect()
    }

    /// Returns the number of requests that the store did not answer, by the names of the reasons.
    pub fn store_errors(&self) -> impl Iterator<Item = (&'static str, u64)> + '_ {
        StoreError::NAMES.map(|(_, name)| name).into_iter().zip(self.store_errors.iter().map(Total::get))
    }
}
