//! Metrics of an agent in the OpenMetrics format. The engine counts; a collector reads its counts when they are scraped.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric, MetricEncoder, text};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::{Registry, Unit};
use tollgate_core::decision::Source;
use tollgate_engine::{Engine, Total};

#[cfg(feature = "jwt")]
use crate::request::jwt::Verifier;

/// Buckets of the duration of a check, in seconds. Local answers are far below the first; a missed deadline of 5 ms lies
/// between two of them.
const DURATION_BUCKETS_S: [f64; 12] = [1e-6, 5e-6, 2e-5, 1e-4, 5e-4, 1e-3, 2e-3, 4e-3, 6e-3, 1e-2, 5e-2, 0.5];
/// Buckets of the lag of signals, in seconds.
const LAG_BUCKETS_S: [f64; 10] = [0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.5, 1.0, 5.0];
/// Prefix of all metric names.
const PREFIX: &str = "tollgate";

/// Metrics of an agent, and the registry that exports them.
#[derive(Clone, Debug)]
pub(crate) struct AgentMetrics {
    registry: Arc<Mutex<Registry>>,
    check: Histogram,
    #[cfg(feature = "bus")]
    signal_lag: Histogram,
}

/// Exports the counts of an agent.
struct AgentCollector {
    engine: Arc<Engine>,
    #[cfg(feature = "jwt")]
    tokens: Arc<Verifier>,
}

impl AgentMetrics {
    /// Registers the metrics of an agent.
    pub(crate) fn register(
        mut registry: Registry,
        engine: Arc<Engine>,
        #[cfg(feature = "jwt")] tokens: Arc<Verifier>,
    ) -> Self {
        let (check, signal_lag) = (Histogram::new(DURATION_BUCKETS_S), Histogram::new(LAG_BUCKETS_S));
        let prefixed = registry.sub_registry_with_prefix(PREFIX);
        prefixed.register_with_unit("check_duration", "Duration of a check", Unit::Seconds, check.clone());
        let lag = "Time from a charge to its signal at this agent";
        prefixed.register_with_unit("signal_lag", lag, Unit::Seconds, signal_lag.clone());
        prefixed.register_collector(Box::new(AgentCollector {
            engine,
            #[cfg(feature = "jwt")]
            tokens,
        }));
        Self {
            registry: Arc::new(Mutex::new(registry)),
            check,
            #[cfg(feature = "bus")]
            signal_lag,
        }
    }

    /// Observes the duration of a check.
    pub(crate) fn observe_check(&self, took: Duration) {
        self.check.observe(took.as_secs_f64());
    }

    /// Observes the time from a charge to its signal at this agent.
    #[cfg(feature = "bus")]
    pub(crate) fn observe_signal_lag(&self, lag: Duration) {
        self.signal_lag.observe(lag.as_secs_f64());
    }

    /// Returns all metrics of the registry in the OpenMetrics text format.
    pub(crate) fn encode(&self) -> String {
        let mut text = String::new();
        match text::encode(&mut text, &self.registry.lock()) {
            Ok(()) => text,
            Err(_) => String::new(),
        }
    }
}

/// Each help text ends with a full stop, as the registry ends those of other metrics.
impl Collector for AgentCollector {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let (engine, metrics) = (&self.engine, self.engine.metrics());
        let rules = metrics.rules();
        let mut decisions = encoder.encode_descriptor(
            "decisions",
            "Decisions by rule, outcome and source.",
            None,
            MetricType::Counter,
        )?;
        for (rule, counts) in &rules {
            for source in Source::ALL {
                for (outcome, total) in ["denied", "allowed"].iter().zip(&counts.decisions[source as usize]) {
                    let labels = [("rule", &**rule), ("outcome", *outcome), ("source", source.as_str())];
                    encode_total(decisions.encode_family(&labels)?, total)?;
                }
            }
        }
        let help = "Calls that a rule in shadow would have denied.";
        let mut shadow_denials = encoder.encode_descriptor("shadow_denials", help, None, MetricType::Counter)?;
        for (rule, counts) in &rules {
            encode_total(shadow_denials.encode_family(&[("rule", &**rule)])?, &counts.shadow_denials)?;
        }
        let help = "Requests that the store did not answer, by reason.";
        let mut store_errors = encoder.encode_descriptor("store_errors", help, None, MetricType::Counter)?;
        for (error, count) in metrics.store_errors().filter(|(_, count)| *count > 0) {
            ConstCounter::new(count).encode(store_errors.encode_family(&[("error", error)])?)?;
        }
        #[cfg(feature = "jwt")]
        {
            let help = "Bearer tokens that the rules ask about and that gave no descriptor.";
            let mut rejected = encoder.encode_descriptor("jwt_rejected", help, None, MetricType::Counter)?;
            for (reason, count) in self.tokens.rejected() {
                ConstCounter::new(count).encode(rejected.encode_family(&[("reason", reason)])?)?;
            }
        }
        let totals = [
            ("overflow_charges", "Charges on a rule's overflow counter, past counters_max.", &metrics.overflow_charges),
            (
                "store_clock_steps",
                "Counters re-based after the store's clock stepped back.",
                &metrics.store_clock_steps,
            ),
            ("unsynced_units", "Units admitted without the store and backfilled later.", &metrics.unsynced_units),
            (
                "unsynced_forgotten",
                "Counters whose unsynced units were dropped: past the cap, or unreadable in the store.",
                &metrics.unsynced_forgotten,
            ),
            ("unreadable_records", "Records of the bus that could not be decoded.", &metrics.undecodable_records),
            ("rules_rejected", "Rule sets that were refused; the last good one stayed.", &metrics.rules_rejected),
        ];
        let totals = totals.map(|(name, help, total)| (name, help, total.get()));
        let dropped = ("dropped_rows", "Charges that could not be published in this life.", engine.dropped_rows());
        for (name, help, total) in totals.into_iter().chain([dropped]) {
            ConstCounter::new(total).encode(encoder.encode_descriptor(name, help, None, MetricType::Counter)?)?;
        }
        let gauges = [
            ("counters", "Counters in the agent's table.", engine.held().counters as u64),
            ("agents_active", "Agents in the fleet, this one included.", engine.fleet_size().get().into()),
            ("rules_generation", "Generation of the rules in force.", engine.with_rules(|rules| rules.generation)),
            ("degraded", "1 while the store does not answer.", engine.is_degraded().into()),
        ];
        for (name, help, value) in gauges {
            ConstGauge::new(value).encode(encoder.encode_descriptor(name, help, None, MetricType::Gauge)?)?;
        }
        Ok(())
    }
}

impl fmt::Debug for AgentCollector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("AgentCollector")
    }
}

fn encode_total(encoder: MetricEncoder<'_>, total: &Total) -> Result<(), fmt::Error> {
    ConstCounter::new(total.get()).encode(encoder)
}
