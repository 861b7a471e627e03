//! Metrics of an agent in the OpenMetrics format. The engine counts; a collector reads its counts when they are scraped.
//!
//! Every series exists from the start, so that the first event is an increase and not a new series.

use std::fmt;
use std::sync::Arc;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::{Registry, Unit};
use tollgate_core::decision::Source;
use tollgate_core::messages::Topic;
use tollgate_engine::{Engine, OTHER_RULES, RULE_COUNTS_LEN_MAX};
use tollgate_metrics::{MetricName, encode_metric};

use crate::check_durations::CheckDurations;
#[cfg(feature = "jwt")]
use crate::request::jwt::Verifier;

/// Buckets of the duration of requests to the store, in seconds. A missed deadline of 15 ms lies between two of them.
const STORE_BUCKETS_S: [f64; 11] = [2e-5, 5e-5, 1e-4, 2e-4, 5e-4, 1e-3, 2e-3, 5e-3, 1e-2, 2e-2, 5e-2];
const LAG_BUCKETS_S: [f64; 10] = [0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.5, 1.0, 5.0];

const READ_TOPICS: [Topic; 3] = [Topic::Signals, Topic::Presence, Topic::Rules];

#[derive(Clone)]
pub(crate) struct AgentMetrics {
    registry: Arc<Registry>,
    sources: Arc<[MetricsSource]>,
    pub(crate) check: CheckDurations,
    /// Durations of requests to the store, in s.
    pub(crate) store: Histogram,
    /// Times from a charge to its signal at this agent, in s.
    #[cfg(feature = "bus")]
    pub(crate) signal_lag: Histogram,
}

/// Source of further metrics, as OpenMetrics text.
pub(crate) type MetricsSource = Box<dyn Fn() -> String + Send + Sync>;

struct AgentCollector {
    engine: Arc<Engine>,
    #[cfg(feature = "jwt")]
    tokens: Arc<Verifier>,
}

impl AgentMetrics {
    pub(crate) fn register(
        engine: Arc<Engine>,
        sources: Vec<MetricsSource>,
        #[cfg(feature = "jwt")] tokens: Arc<Verifier>,
    ) -> Self {
        let mut registry = Registry::default();
        let (check, store) = (CheckDurations::default(), Histogram::new(STORE_BUCKETS_S));
        let signal_lag = Histogram::new(LAG_BUCKETS_S);
        let prefixed = registry.sub_registry_with_prefix("tollgate");
        let duration = "Duration of a check. One that need not wait for the store is not timed: it is in the smallest bucket, and adds nothing to the sum";
        prefixed.register_with_unit("check_duration", duration, Unit::Seconds, check.clone());
        let duration = "Time from a request of calls to the store until its answer, or until its deadline";
        prefixed.register_with_unit("store_duration", duration, Unit::Seconds, store.clone());
        let lag = "Time from a charge to its signal at this agent";
        prefixed.register_with_unit("signal_lag", lag, Unit::Seconds, signal_lag.clone());
        prefixed.register_collector(Box::new(AgentCollector {
            engine,
            #[cfg(feature = "jwt")]
            tokens,
        }));
        Self {
            registry: Arc::new(registry),
            sources: sources.into(),
            check,
            store,
            #[cfg(feature = "bus")]
            signal_lag,
        }
    }

    /// Returns all metrics, and those of the sources, in the OpenMetrics text format.
    pub(crate) fn encode(&self) -> String {
        let own = [tollgate_metrics::build_info(), tollgate_metrics::encode(&self.registry)];
        tollgate_metrics::join(own.into_iter().chain(self.sources.iter().map(|source| source())))
    }
}

impl Collector for AgentCollector {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        self.encode_rules(&mut encoder)?;
        self.encode_causes(&mut encoder)?;
        self.encode_totals(&mut encoder)?;
        self.encode_gauges(&mut encoder)
    }
}

impl AgentCollector {
    fn encode_rules(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let rules = self.engine.metrics().rules();
        let decisions = rules.iter().flat_map(|(rule, counts)| {
            Source::ALL.into_iter().flat_map(move |source| {
                let totals = ["denied", "allowed"].into_iter().zip(counts.decisions()[source as usize]);
                let labels = move |outcome| [("rule", &**rule), ("outcome", outcome), ("source", source.as_str())];
                totals.map(move |(outcome, total)| (labels(outcome), total))
            })
        });
        let help = format!(
            "Decisions by rule, outcome and source. `{OTHER_RULES}`: of rules past {RULE_COUNTS_LEN_MAX} since the start."
        );
        encode_family(encoder, "decisions", &help, decisions)?;
        let near = rules.iter().map(|(rule, counts)| ([("rule", &**rule)], counts.near_limit()));
        let help = "Calls that were allowed, and left less than a fifth of what may pass at once.";
        encode_family(encoder, "near_limit", help, near)?;
        let denials = rules.iter().map(|(rule, counts)| ([("rule", &**rule)], counts.shadow_denials.get()));
        encode_family(encoder, "shadow_denials", "Calls that a rule in shadow would have denied.", denials)?;
        let charges = rules.iter().map(|(rule, counts)| ([("rule", &**rule)], counts.sketch_charges.get()));
        encode_family(encoder, "sketch_charges", "Charges past counters_max, which a sketch counts.", charges)?;
        let leased = rules.iter().map(|(rule, counts)| ([("rule", &**rule)], counts.lease_units.get()));
        encode_family(encoder, "lease_units", "Units that the store has leased to this agent.", leased)?;
        let stranded = rules.iter().map(|(rule, counts)| ([("rule", &**rule)], counts.lease_units_stranded.get()));
        encode_family(encoder, "lease_units_stranded", "Leased units that were not spent in time.", stranded)?;

        let parts = rules.iter().map(|(rule, counts)| ([("rule", &**rule)], counts.late_part_units.get()));
        encode_family(encoder, "late_part_units", "Units admitted by the agent's part while Redis was late.", parts)?;
        let denials = rules.iter().map(|(rule, counts)| ([("rule", &**rule)], counts.late_denials.get()));
        encode_family(encoder, "late_denials", "Calls denied because Redis was late.", denials)
    }

    fn encode_causes(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let (engine, metrics) = (&self.engine, self.engine.metrics());
        let letters =
            READ_TOPICS.map(|topic| ([("topic", topic.as_str()), ("reader", "agent")], engine.dead_letters(topic)));
        let help = "Records that changed nothing: undecodable ones, and those that report what cannot be.";
        encode_family(encoder, "dead_letters", help, letters.into_iter())?;
        let errors = metrics.store_errors().map(|(error, count)| ([("error", error)], count));
        encode_family(encoder, "store_errors", "Requests that the store did not answer, by reason.", errors)?;
        let late = metrics.late_answers().map(|(outcome, count)| ([("outcome", outcome)], count));
        let help = "Requests that missed their deadline, by what their late answer said of the charge.";
        encode_family(encoder, "late_answers", help, late)?;
        #[cfg(feature = "jwt")]
        {
            let rejected = self.tokens.rejected().map(|(reason, count)| ([("reason", reason)], count));
            let help = "Bearer tokens that the rules ask about and that gave no descriptor.";
            encode_family(encoder, "jwt_rejected", help, rejected)?;
        }
        Ok(())
    }

    fn encode_totals(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let (engine, metrics) = (&self.engine, self.engine.metrics());
        let totals = [
            (
                "store_clock_steps",
                "Steps of the store's clock by more than a second, back or forward.",
                &metrics.store_clock_steps,
            ),
            ("backfilled_units", "Units admitted without the store and backfilled later.", &metrics.backfilled_units),
            (
                "unsynced_forgotten",
                "Counters whose unsynced units were dropped: past the cap, or unreadable in the store.",
                &metrics.unsynced_forgotten,
            ),
            (
                "unsynced_joined",
                "Calls with an id whose units are backfilled with those of others, because there were too many.",
                &metrics.unsynced_joined,
            ),
            (
                "refund_units_forgotten",
                "Units that the store was not told to give back, past the cap on refunds of a counter.",
                &metrics.refund_units_forgotten,
            ),
            (
                "store_losses",
                "Losses of all counts by the store: a flush, a restart without data, or a failover.",
                &metrics.store_losses,
            ),
            (
                "store_lost",
                "Counters whose units the store had lost, or may have lost, and that were to be opened again.",
                &metrics.store_lost,
            ),
            ("store_lost_forgotten", "Lost counters that were not opened again.", &metrics.lost_forgotten),
            ("rules_rejected", "Rule sets that were refused; the last good one stayed.", &metrics.rules_rejected),
        ];
        let totals = totals.map(|(name, help, total)| (name, help, total.get()));
        let dropped = ("dropped_rows", "Charges that could not be published in this life.", engine.dropped_rows());
        for (name, help, total) in totals.into_iter().chain([dropped]) {
            encode_metric(encoder, MetricName(name, help, None), &ConstCounter::new(total))?;
        }
        Ok(())
    }

    fn encode_gauges(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let (engine, metrics) = (&self.engine, self.engine.metrics());
        let reloaded = engine.rules_accepted_at().as_ms() / 1_000;
        let sizes = engine.held();
        let gauges = [
            ("counters", "Counters in the agent's table.", sizes.counters as u64),
            ("table_full", "1 while new callers are limited by a sketch.", engine.is_table_full().into()),
            ("sketch_bytes", "Memory of the sketch.", sizes.sketch_bytes as u64),
            ("agents_active", "Agents in the fleet, this one included.", engine.fleet_size().get().into()),
            ("rules_generation", "Generation of the rules in force.", engine.with_rules(|rules| rules.generation)),
            (
                "rules_last_reload_success_timestamp_seconds",
                "Unix time at which rules were accepted last; 0 before there are any.",
                reloaded,
            ),
            (
                "rules_last_reload_successful",
                "0 while the newest rules are refused and older ones are in force.",
                engine.rejection().is_none().into(),
            ),
            (
                "fleet_frozen",
                "1 while no own heartbeat comes back, so the fleet counts as the agents known last.",
                engine.is_fleet_frozen().into(),
            ),
            (
                "rules_unreachable",
                "1 while published rules can be read neither from the bus nor from the store.",
                engine.is_cut_off_from_rules().into(),
            ),
            (
                "digest_keys_differ",
                "1 while other agents that share the store digest callers by another key.",
                engine.do_digest_keys_differ().into(),
            ),
            ("degraded", "1 while the store does not answer.", engine.is_degraded().into()),
            (
                "unsynced_units",
                "Units admitted without the store that it does not know yet.",
                metrics.unsynced_units.get(),
            ),
            (
                "emergency",
                "1 while the emergency switch is on.",
                engine.emergency().is_some_and(|switch| switch.quota.is_some()).into(),
            ),
            (
                "bus_connected",
                "1 while calls can be published; 0 also without a bus.",
                engine.is_bus_connected().into(),
            ),
        ];
        for (name, help, value) in gauges {
            encode_metric(encoder, MetricName(name, help, None), &ConstGauge::new(value))?;
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
