//! The rules in force, with what is computed once per rule set.

use std::ptr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use arc_swap::{ArcSwap, Cache, Guard};
use tollgate_core::clock::Timestamp;
use tollgate_core::name::Name;
use tollgate_core::rules::{Generation, Index, RuleSet};

use crate::counters::kinds;
use crate::report::{EngineMetrics, RuleCounts};
use crate::rules::emergency_limit::EmergencyLimit;

/// Step of the store's clock after which exceptions that have ended are looked at again, in ms.
const STEP_BACK_MS_MIN: u64 = 2_000;

static NEXT_NUMBER: AtomicU32 = AtomicU32::new(1);

/// Rules, and what is computed once per rule set.
#[derive(Clone, Debug)]
pub(crate) struct ActiveRules {
    /// Number that no other rules of any engine in the process have.
    pub(crate) number: u32,
    /// Generation in charges. It is greater than that of the rules before, whose numbers may have another origin.
    pub(crate) order: Generation,
    pub(crate) set: RuleSet,
    /// The rules with all exceptions and list entries, those that have ended included; none if none ends by itself.
    written: Option<Arc<RuleSet>>,
    /// Instant of store time at which the next one ends.
    ends_at: Option<Timestamp>,
    /// Instant at which these rules were made from those that were written.
    made_at: Timestamp,
    pub(crate) index: Index,
    pub(crate) names: Vec<Name>,
    pub(crate) counts: Vec<Arc<RuleCounts>>,
    /// True if at most one rule has counters.
    pub(crate) has_one_limit: bool,
    pub(crate) sketch_kinds: usize,
    /// Limit in place of all rules that count, while the emergency switch is on.
    pub(crate) emergency: Option<Arc<EmergencyLimit>>,
}

pub(crate) struct RulesInForce(Arc<ArcSwap<ActiveRules>>);

/// View of the rules in force that is quick to bring up to date.
pub(crate) type RulesCache = Cache<Arc<ArcSwap<ActiveRules>>, Arc<ActiveRules>>;

impl ActiveRules {
    /// Creates the rules as they are at an instant of store time.
    pub(crate) fn new(written: RuleSet, at: Timestamp, metrics: &EngineMetrics) -> Self {
        if written.next_end().is_none() {
            return Self::of(written, None, at, metrics);
        }
        let set = written.in_force_at(at);
        Self::of(set, Some(Arc::new(written)), at, metrics)
    }

    fn of(set: RuleSet, written: Option<Arc<RuleSet>>, made_at: Timestamp, metrics: &EngineMetrics) -> Self {
        let counts = set.rules.iter().map(|rule| metrics.of_rule(&rule.name)).collect();
        let names = set.rules.iter().map(|rule| (&*rule.name).into()).collect();
        let limits = set.rules.iter().filter(|rule| rule.all_policies().next().is_some()).count();
        let number = NEXT_NUMBER.fetch_add(1, Ordering::Relaxed);
        let (index, sketch_kinds) = (Index::new(&set.rules), kinds(&set.rules));
        let order = set.generation;
        Self {
            number,
            order,
            index,
            ends_at: set.next_end(),
            set,
            written,
            made_at,
            names,
            counts,
            has_one_limit: limits <= 1,
            sketch_kinds,
            emergency: None,
        }
    }

    /// Returns these rules with an order that is greater than that of the rules before, unless they are the same. The
    /// limit of the emergency switch stays.
    pub(crate) fn after(self, before: &Self) -> Self {
        let is_same = (self.set.numbering, self.set.generation) == (before.set.numbering, before.set.generation);
        let order = if is_same { before.order } else { self.order.max(before.order + 1) };
        Self { order, emergency: before.emergency.clone(), ..self }
    }

    /// Returns the rules as they were accepted.
    pub(crate) fn written(&self) -> &RuleSet {
        self.written.as_deref().unwrap_or(&self.set)
    }

    /// Returns the rules without what has ended at an instant of store time; none if nothing has. After a step back of more than
    /// [`STEP_BACK_MS_MIN`], what had ended holds again. Their order is greater, so that leases and cached denials end.
    pub(crate) fn after_an_end(&self, at: Timestamp, metrics: &EngineMetrics) -> Option<Self> {
        let has_ended = self.ends_at.is_some_and(|ends_at| ends_at <= at);
        let is_back = at.plus_ms(STEP_BACK_MS_MIN) < self.made_at;
        let written = self.written.as_ref().filter(|_| has_ended || is_back)?;
        let rules = Self::of(written.in_force_at(at), Some(written.clone()), at, metrics);
        Some(Self { order: self.order + 1, emergency: self.emergency.clone(), ..rules })
    }

    pub(crate) fn with_emergency(&self, emergency: Option<Arc<EmergencyLimit>>) -> Self {
        let number = NEXT_NUMBER.fetch_add(1, Ordering::Relaxed);
        Self { number, emergency, ..self.clone() }
    }
}

impl RulesInForce {
    pub(crate) fn new(rules: ActiveRules) -> Self {
        Self(Arc::new(ArcSwap::from_pointee(rules)))
    }

    pub(crate) fn store(&self, rules: ActiveRules) {
        self.0.store(Arc::new(rules));
    }

    pub(crate) fn load(&self) -> Guard<Arc<ActiveRules>> {
        self.0.load()
    }

    pub(crate) fn cache(&self) -> RulesCache {
        Cache::new(self.0.clone())
    }

    #[inline]
    pub(crate) fn is_of(&self, cache: &RulesCache) -> bool {
        ptr::eq(cache.arc_swap(), &raw const *self.0)
    }
}

#[cfg(test)]
mod tests {
    use tollgate_core::rules::{LimitPolicy, Rule, TimedCallers, TimedEnd, TimedException};

    use super::*;
    use crate::report::Reports;

    /// G2, F3: an exception ends at its instant in store time, with a greater order, and holds again if the time was wrong.
    #[test]
    fn rules_are_made_anew_at_each_end_and_after_a_step_back() {
        let at = Timestamp::from_ms;
        let mut rule = Rule::per("r", &["k"], "9/min".parse().expect("a quota"));
        let policy = Some(LimitPolicy::of("99/min".parse().expect("a quota")));
        let end = TimedEnd { until: at(50_000), reason: "sale".into() };
        rule.timed = vec![TimedException { callers: TimedCallers::Key("a".into()), policy, by_tier: Vec::new(), end }];
        let reports = Reports::default();
        let metrics = reports.metrics();
        let set = RuleSet::new(7, [rule]);
        let keys = |rules: &ActiveRules| rules.set.rules[0].by_key.len();
        let first = ActiveRules::new(set.clone(), at(1_000), metrics);
        assert_eq!((keys(&first), first.order), (1, 7));
        assert!(first.after_an_end(at(49_999), metrics).is_none());
        let ended = first.after_an_end(at(50_000), metrics).expect("other rules");
        assert_eq!((keys(&ended), ended.order, ended.set.generation), (0, 8, 7));
        assert!(ended.written().is_equivalent(&set), "what was written is kept");
        assert!(ended.after_an_end(at(48_000), metrics).is_none(), "a small step");
        let again = ended.after_an_end(at(47_999), metrics).expect("other rules");
        assert_eq!((keys(&again), again.order), (1, 9));
        assert!(ActiveRules::new(RuleSet::new(7, []), at(1), metrics).after_an_end(at(9_999_999), metrics).is_none());
    }
}
