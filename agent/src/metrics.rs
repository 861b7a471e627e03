//! What an agent counts about itself, in OpenMetrics policy.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use prometheus_client::encoding::{EncodeLabelSet, EncodeLabelValue, LabelValueEncoder};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::{Registry, Unit};
use tollgate_core::decision::Source;

/// The registry that everything of one process is in.
pub type Metrics = Registry;

/// Seconds; local answers are far below the first, a missed deadline of 5 ms lies between two of them.
const LATENCY_BUCKETS_S: [f64; 12] = [1e-6, 5e-6, 2e-5, 1e-4, 5e-4, 1e-3, 2e-3, 4e-3, 6e-3, 1e-2, 5e-2, 0.5];
const LAG_BUCKETS_S: [f64; 10] = [0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.5, 1.0, 5.0];

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct DecisionLabels {
    rule: String,
    outcome: &'static str,
    source: SourceLabel,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct RuleLabels {
    rule: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ErrorLabels {
    error: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct SourceLabel(Source);

/// Counters of one rule, so that a decision finds its own without looking labels up.
#[derive(Clone, Debug)]
pub(crate) struct RuleCounters {
    by_source: [[Counter; 2]; Source::ALL.len()],
    /// Calls that the rule would have denied, were it not in shadow.
    pub(crate) shadowed: Counter,
}

/// Everything that an agent counts.
#[derive(Clone, Debug)]
pub(crate) struct AgentMetrics {
    decisions: Family<DecisionLabels, Counter>,
    store_errors: Family<ErrorLabels, Counter>,
    shadowed: Family<RuleLabels, Counter>,
    pub(crate) latency: Histogram,
    pub(crate) signal_lag: Histogram,
    pub(crate) overflowed: Counter,
    pub(crate) rebased: Counter,
    pub(crate) owed: Counter,
    pub(crate) forgotten_debts: Counter,
    pub(crate) unreadable: Counter,
    pub(crate) rules_rejected: Counter,
    pub(crate) dropped_rows: Gauge<u64, AtomicU64>,
    pub(crate) counters: Gauge<u64, AtomicU64>,
    pub(crate) agents: Gauge<u64, AtomicU64>,
    pub(crate) generation: Gauge<u64, AtomicU64>,
    pub(crate) degraded: Gauge<u64, AtomicU64>,
}

impl EncodeLabelValue for SourceLabel {
    fn encode(&self, encoder: &mut LabelValueEncoder<'_>) -> Result<(), std::fmt::Error> {
        self.0.as_str().encode(encoder)
    }
}

impl AgentMetrics {
    /// Counters that start at zero and are shown by this registry.
    pub(crate) fn register(registry: &mut Registry) -> Self {
        let metrics = Self {
            decisions: Family::default(),
            store_errors: Family::default(),
            shadowed: Family::default(),
            latency: Histogram::new(LATENCY_BUCKETS_S),
            signal_lag: Histogram::new(LAG_BUCKETS_S),
            overflowed: Counter::default(),
            rebased: Counter::default(),
            owed: Counter::default(),
            forgotten_debts: Counter::default(),
            unreadable: Counter::default(),
            rules_rejected: Counter::default(),
            dropped_rows: Gauge::default(),
            counters: Gauge::default(),
            agents: Gauge::default(),
            generation: Gauge::default(),
            degraded: Gauge::default(),
        };
        let m = &metrics;
        let r = registry.sub_registry_with_prefix("tollgate");
        r.register("decisions", "Decisions by the rule shown, outcome and source", m.decisions.clone());
        r.register("shadow_denials", "Calls that a rule in shadow would have denied", m.shadowed.clone());
        r.register("store_errors", "Questions that the store did not answer", m.store_errors.clone());
        r.register_with_unit("check_duration", "How long a check took", Unit::Seconds, m.latency.clone());
        r.register_with_unit("signal_lag", "From a charge to its signal here", Unit::Seconds, m.signal_lag.clone());
        r.register("overflow_charges", "Charges on a rule's overflow counter, past counters_max", m.overflowed.clone());
        r.register("store_clock_steps", "Counters moved because the store's clock stepped back", m.rebased.clone());
        r.register(
            "owed_units",
            "Units that passed without the store and were charged when it was back",
            m.owed.clone(),
        );
        r.register(
            "forgotten_debts",
            "Counters whose owed units were forgotten, too many were in debt",
            m.forgotten_debts.clone(),
        );
        r.register("unreadable_records", "Records of the bus that could not be read", m.unreadable.clone());
        r.register("rules_rejected", "Rule sets that were refused, the last good one stayed", m.rules_rejected.clone());
        r.register("dropped_rows", "Charges that could not be published in this life", m.dropped_rows.clone());
        r.register("counters", "Counters that the agent remembers", m.counters.clone());
        r.register("agents_active", "Agents in the fleet, this one included", m.agents.clone());
        r.register("rules_generation", "Generation of the rules in force", m.generation.clone());
        r.register("degraded", "1 while the store does not answer", m.degraded.clone());
        metrics
    }

    /// The counters of decisions that show this rule.
    pub(crate) fn of_rule(&self, rule: &str) -> Arc<RuleCounters> {
        let counter = |source, outcome| {
            let labels = DecisionLabels { rule: rule.to_owned(), outcome, source: SourceLabel(source) };
            self.decisions.get_or_create(&labels).clone()
        };
        Arc::new(RuleCounters {
            by_source: Source::ALL.map(|source| [counter(source, "denied"), counter(source, "allowed")]),
            shadowed: self.shadowed.get_or_create(&RuleLabels { rule: rule.to_owned() }).clone(),
        })
    }

    pub(crate) fn store_error(&self, error: &'static str) {
        self.store_errors.get_or_create(&ErrorLabels { error }).inc();
    }
}

impl RuleCounters {
    pub(crate) fn count(&self, source: Source, allowed: bool) {
        self.by_source[source as usize][usize::from(allowed)].inc();
    }
}
