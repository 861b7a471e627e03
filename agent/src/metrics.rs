//! Metrics of an agent in the OpenMetrics format. The engine counts; a collector reads its counts when they are scraped.

use std::fmt;
use std::sync::Arc;

use parking_lot::Mutex;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric, text};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::{Registry, Unit};
use tollgate_core::decision::Source;
use tollgate_engine::Engine;

use crate::check_durations::CheckDurations;
#[cfg(feature = "jwt")]
use crate::request::jwt::Verifier;

/// Buckets of the lag of signals, in seconds.
const LAG_BUCKETS_S: [f64; 10] = [0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.5, 1.0, 5.0];
/// Prefix of all metric names.
const PREFIX: &str = "tollgate";

/// Metrics of an agent, and the registry that exports them.
#[derive(Clone, Debug)]
pub(crate) struct AgentMetrics {
    registry: Arc<Mutex<Registry>>,
    /// Durations of checks.
    pub(crate) check: CheckDurations,
    /// Times from a charge to its signal at this agent, in s.
    #[cfg(feature = "bus")]
    pub(crate) signal_lag: Histogram,
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
        let (check, signal_lag) = (CheckDurations::default(), Histogram::new(LAG_BUCKETS_S));
        let prefixed = registry.sub_registry_with_prefix(PREFIX);
        let duration = "Duration of a check, 0 for one that need not wait for the store";
        prefixed.register_with_unit("check_duration", duration, Unit::Seconds, check.clone());
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

    /// Returns all metrics of the registry in the OpenMetrics text format.
    pub(crate) fn encode(&self) -> String {
        let mut text = String::new();
        text::encode(&mut text, &self.registry.lock()).map(|()| text).unwrap_or_default()
    }
}

/// Each help text ends with a full stop, as the registry ends those of other metrics.
impl Collector for AgentCollector {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let (engine, metrics) = (&self.engine, self.engine.metrics());
        let rules = metrics.rules();
        let decisions = rules.iter().flat_map(|(rule, counts)| {
            Source::ALL.into_iter().flat_map(move |source| {
                let totals = ["denied", "allowed"].into_iter().zip(counts.decisions()[source as usize]);
                let labels = move |outcome| [("rule", &**rule), ("outcome", outcome), ("source", source.as_str())];
                totals.map(move |(outcome, total)| (labels(outcome), total))
            })
        });
        encode_family(&mut encoder, "decisions", "Decisions by rule, outcome and source.", decisions)?;
        let denials = rules.iter().map(|(rule, counts)| ([("rule", &**rule)], counts.shadow_denials.get()));
        encode_family(&mut encoder, "shadow_denials", "Calls that a rule in shadow would have denied.", denials)?;
        let errors = metrics.store_errors().filter(|(_, count)| *count > 0);
        let errors = errors.map(|(error, count)| ([("error", error)], count));
        encode_family(&mut encoder, "store_errors", "Requests that the store did not answer, by reason.", errors)?;
        #[cfg(feature = "jwt")]
        {
            let rejected = self.tokens.rejected().map(|(reason, count)| ([("reason", reason)], count));
            let help = "Bearer tokens that the rules ask about and that gave no descriptor.";
            encode_family(&mut encoder, "jwt_rejected", help, rejected)?;
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

/// Encodes counters that differ in the values of their labels.
fn encode_family<'a, const N: usize>(
    encoder: &mut DescriptorEncoder<'_>,
    name: &str,
    help: &str,
    counts: impl Iterator<Item = ([(&'a str, &'a str); N], u64)>,
) -> fmt::Result {
    let mut family = encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
    for (labels, count) in counts {
        ConstCounter::new(count).encode(family.encode_family(&labels)?)?;
    }
    Ok(())
}
