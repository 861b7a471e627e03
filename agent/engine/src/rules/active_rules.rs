//! The rules in force, with what is computed once per rule set.

use std::ptr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use arc_swap::{ArcSwap, Cache, Guard};
use tollgate_core::name::Name;
use tollgate_core::rules::{Generation, Index, RuleSet};

use crate::counters::kinds;
use crate::report::{EngineMetrics, RuleCounts};
use crate::rules::emergency_limit::EmergencyLimit;

static NEXT_NUMBER: AtomicU32 = AtomicU32::new(1);

/// Rules, and what is computed once per rule set.
#[derive(Clone, Debug)]
pub(crate) struct ActiveRules {
    /// Number that no other rules of any engine in the process have.
    pub(crate) number: u32,
    /// Generation in charges. It is greater than that of the rules before, whose numbers may have another origin.
    pub(crate) order: Generation,
    pub(crate) set: RuleSet,
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
    pub(crate) fn new(set: RuleSet, metrics: &EngineMetrics) -> Self {
        let counts = set.rules.iter().map(|rule| metrics.of_rule(&rule.name)).collect();
        let names = set.rules.iter().map(|rule| (&*rule.name).into()).collect();
        let limits = set.rules.iter().filter(|rule| rule.all_policies().next().is_some()).count();
        let number = NEXT_NUMBER.fetch_add(1, Ordering::Relaxed);
        let (index, sketch_kinds) = (Index::new(&set.rules), kinds(&set.rules));
        let order = set.generation;
        Self { number, order, index, set, names, counts, has_one_limit: limits <= 1, sketch_kinds, emergency: None }
    }

    /// Returns these rules with an order that is greater than that of the rules before, unless they are the same. The
    /// limit of the emergency switch stays.
    pub(crate) fn after(self, before: &Self) -> Self {
        let is_same = (self.set.numbering, self.set.generation) == (before.set.numbering, before.set.generation);
        let order = if is_same { before.order } else { self.order.max(before.order + 1) };
        Self { order, emergency: before.emergency.clone(), ..self }
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
