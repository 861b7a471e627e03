//! Counts of an engine: plain atomic numbers that a shell reads and exports.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use tollgate_core::counter::StoreError;

use parking_lot::Mutex;
use tollgate_core::decision::Source;

use crate::report::stripes::{STRIPES, Stripes};

/// Maximum number of rules with counts of their own, since the start. Decisions of further rules are counted as those of
/// [`OTHER_RULES`].
pub const RULE_COUNTS_LEN_MAX: usize = 20_000;
/// Name of the rules without counts of their own. No rule has a name with brackets, and calls without a rule have the
/// empty name.
pub const OTHER_RULES: &str = "(other)";
/// Number of rules whose decisions are counted in stripes.
const RULES_LEN_STRIPED: usize = 1_024;

/// Number that only grows.
#[derive(Debug, Default)]
pub struct Total(AtomicU64);

/// Number that grows and falls.
#[derive(Debug, Default)]
pub struct Amount(AtomicI64);

/// Result of a late answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LateOutcome {
    /// The store had charged an admitted call, or one that will be tried again under its id.
    Charged,
    /// The store had charged a denied call, and gives the units back.
    Refunded,
    /// The store had charged a denied call, and other calls spend the units.
    Leased,
    /// The store had charged nothing. Units that were admitted meanwhile are backfilled.
    NotCharged,
    /// There will be no answer: the connection was lost, or the request left its cap. Units that were admitted are
    /// backfilled.
    Lost,
}

/// Number that grows with each call, in a cell of each thread.
#[derive(Debug, Default)]
pub struct StripedTotal(Stripes<Total>);

/// Decisions by source; of each pair, the first counts denials and the second admissions.
type BySource<N> = [[N; 2]; Source::ALL.len()];

/// Decisions of one rule that one thread has made, or several.
#[derive(Debug, Default)]
struct DecisionCounts {
    by_source: BySource<Total>,
    near_limit: Total,
}

/// Decisions of one rule. A matched rule holds its own counts, so a decision looks up no label.
#[derive(Debug)]
pub struct RuleCounts {
    /// By stripe, so that threads write to different cache lines.
    decisions: Stripes<DecisionCounts>,
    /// Calls that the rule would have denied if it were not in shadow.
    pub shadow_denials: Total,
    /// Charges of callers past the cap on counters.
    pub sketch_charges: Total,
    /// Units that the store has leased to this agent.
    pub lease_units: Total,
    /// Units of leases that ended unspent.
    pub lease_units_stranded: Total,
    /// Units of calls that the agent admitted by its part of the quota, because the answer of the store was late.
    pub late_part_units: Total,
    /// Calls that the rule denied because the answer of the store was late.
    pub late_denials: Total,
}

/// Counts of one engine.
#[derive(Debug, Default)]
pub struct EngineMetrics {
    /// Steps of the store's clock by more than a second, back or forward.
    pub store_clock_steps: Total,
    /// Units that were admitted without the store and that it does not know yet.
    pub unsynced_units: Amount,
    /// Units that were admitted without the store and backfilled later.
    pub backfilled_units: Total,
    /// Late answers, in the order of [`LateOutcome::NAMES`].
    late_answers: [Total; LateOutcome::NAMES.len()],
    /// Counters whose unsynced units were dropped past the cap.
    pub unsynced_forgotten: Total,
    /// Calls with an id that are backfilled with others, because there were too many: the store charges a retry again.
    pub unsynced_joined: Total,
    /// Units that the store should have given back and was not told of, past the cap on refunds of a counter.
    pub refund_units_forgotten: Total,
    /// Losses of units of the whole store.
    pub store_losses: Total,
    /// Counters whose units the store had lost, or may have lost.
    pub store_lost: Total,
    /// Lost counters that were not opened again.
    pub lost_forgotten: Total,
    /// Rule sets that were refused.
    pub rules_rejected: Total,
    store_errors: [Total; StoreError::NAMES.len()],
    rules: Mutex<BTreeMap<Arc<str>, Arc<RuleCounts>>>,
}

impl Total {
    /// Adds `n`. Nothing is written if it is 0.
    pub fn add(&self, n: u64) {
        if n > 0 {
            self.0.fetch_add(n, Ordering::Relaxed);
        }
    }

    /// Returns the number.
    #[must_use]
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

impl Amount {
    /// Follows a part of the number from one value to another.
    pub(crate) fn follow(&self, before: u64, after: u64) {
        if before != after {
            let signed = |part: u64| i64::try_from(part).unwrap_or(i64::MAX);
            self.0.fetch_add(signed(after) - signed(before), Ordering::Relaxed);
        }
    }

    /// Returns the number.
    #[must_use]
    pub fn get(&self) -> u64 {
        u64::try_from(self.0.load(Ordering::Relaxed)).unwrap_or(0)
    }
}

impl LateOutcome {
    /// All outcomes in their order, with their names in metrics.
    pub const NAMES: [(Self, &'static str); 5] = [
        (Self::Charged, "charged"),
        (Self::Refunded, "refunded"),
        (Self::Leased, "leased"),
        (Self::NotCharged, "not_charged"),
        (Self::Lost, "lost"),
    ];
}

impl StripedTotal {
    /// Adds `n`.
    pub fn add(&self, n: u64) {
        self.0.own().part(|total| &total.0).add(n);
    }

    /// Returns the number.
    #[must_use]
    pub fn get(&self) -> u64 {
        self.0.iter().map(Total::get).sum()
    }
}

impl RuleCounts {
    fn of_stripes(len: usize) -> Self {
        Self {
            decisions: Stripes::of_len(len),
            shadow_denials: Total::default(),
            sketch_charges: Total::default(),
            lease_units: Total::default(),
            lease_units_stranded: Total::default(),
            late_part_units: Total::default(),
            late_denials: Total::default(),
        }
    }

    #[inline]
    pub(crate) fn decided(&self, source: Source, allowed: bool) {
        self.decisions.own().part(|counts| &counts.by_source[source as usize][usize::from(allowed)].0).add(1);
    }

    #[inline]
    pub(crate) fn came_near_limit(&self) {
        self.decisions.own().part(|counts| &counts.near_limit.0).add(1);
    }

    /// Returns the number of admissions after which less than a fifth of the units is left that may pass at once.
    #[must_use]
    pub fn near_limit(&self) -> u64 {
        self.decisions.iter().map(|counts| counts.near_limit.get()).sum()
    }

    /// Returns the number of decisions by source; of each pair, the first counts denials and the second admissions.
    #[must_use]
    pub fn decisions(&self) -> BySource<u64> {
        let mut sums = BySource::default();
        for counts in self.decisions.iter() {
            let pairs = sums.as_flattened_mut().iter_mut().zip(counts.by_source.as_flattened());
            pairs.for_each(|(sum, count)| *sum += count.get());
        }
        sums
    }
}

impl EngineMetrics {
    /// Returns the counts of decisions that show this rule. They survive a change of the rule set.
    pub(crate) fn of_rule(&self, rule: &Arc<str>) -> Arc<RuleCounts> {
        let mut rules = self.rules.lock();
        let has_place = rules.len() < RULE_COUNTS_LEN_MAX || rules.contains_key(rule);
        let name = if has_place { rule.clone() } else { OTHER_RULES.into() };
        // Many rules would need much memory for cells that hardly any call writes to.
        let stripes = if rules.len() < RULES_LEN_STRIPED { STRIPES } else { 1 };
        rules.entry(name).or_insert_with(|| Arc::new(RuleCounts::of_stripes(stripes))).clone()
    }

    pub(crate) fn store_error(&self, error: StoreError) {
        self.store_errors[error.place()].add(1);
    }

    pub(crate) fn late_answer(&self, outcome: LateOutcome) {
        self.late_answers[outcome as usize].add(1);
    }

    /// Returns the number of late answers, by the names of their outcomes.
    pub fn late_answers(&self) -> impl Iterator<Item = (&'static str, u64)> + '_ {
        LateOutcome::NAMES.map(|(_, name)| name).into_iter().zip(self.late_answers.iter().map(Total::get))
    }

    /// Returns the counts of each rule, by name.
    #[must_use]
    pub fn rules(&self) -> Vec<(Arc<str>, Arc<RuleCounts>)> {
        self.rules.lock().iter().map(|(name, counts)| (name.clone(), counts.clone())).collect()
    }

    /// Returns the number of requests that the store did not answer, by the names of the reasons.
    pub fn store_errors(&self) -> impl Iterator<Item = (&'static str, u64)> + '_ {
        StoreError::NAMES.into_iter().zip(self.store_errors.iter().map(Total::get))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// capped: names of rules that come and go with reloads.
    #[test]
    fn rules_past_the_cap_are_counted_together_and_apart_from_calls_without_a_rule() {
        let metrics = EngineMetrics::default();
        let counts = |name: &str| metrics.of_rule(&name.into());
        counts("").decided(Source::Store, true);
        let rules = RULE_COUNTS_LEN_MAX + 2;
        (1..rules).for_each(|rule| counts(&format!("rule-{rule}")).decided(Source::Store, true));
        counts("rule-1").decided(Source::Store, true);
        let admitted = |name: &str| counts(name).decisions()[Source::Store as usize][1];
        assert_eq!([admitted(""), admitted("rule-1"), admitted(OTHER_RULES)], [1, 2, 2]);
        assert_eq!(metrics.rules().len(), RULE_COUNTS_LEN_MAX + 1);
    }
}
