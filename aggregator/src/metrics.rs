//! Metrics of an aggregator, by partition, in the OpenMetrics format.
//!
//! The engine keeps plain tallies; the event loop copies their growth into these families a few times a second. The counters
//! of all partitions exist from the start, and the gauges of a partition while it is assigned; a gauge is 0 while its value
//! is unknown.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::{Registry, Unit};
use tollgate_aggregator_engine::counting::CountingTally;
use tollgate_aggregator_engine::worker::Worker;
use tollgate_core::clock::Timestamp;
use tollgate_core::counter::Partition;
use tollgate_core::messages::Topic;

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct PartitionLabel {
    partition: Partition,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct TopicLabel {
    topic: &'static str,
    reader: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct AgentLabel {
    agent: String,
}

/// Interval of heartbeats, in ms.
const AGENTS_INTERVAL_MS: u64 = 1_000;
const DEAD_LETTER_TOPICS: [Topic; 4] = [Topic::Calls, Topic::Presence, Topic::Rollups, Topic::Live];

type PartitionGauges = Family<PartitionLabel, Gauge<u64, AtomicU64>>;
type PartitionSeconds = Family<PartitionLabel, Gauge<f64, AtomicU64>>;

/// A metric of the tallies: name, help, and value.
type TallyMetric = (&'static str, &'static str, fn(&CountingTally) -> u64);

const TALLIES: [TallyMetric; 10] = [
    ("batches", "Batches of calls counted", |tally| tally.batches),
    ("rows", "Charges counted", |tally| tally.rows),
    ("duplicates", "Batches that were counted before", |tally| tally.duplicates),
    ("late", "Charges that came after the watermark had passed their sub-window", |tally| tally.late),
    ("too_old", "Charges whose sub-window had left the window; they are not counted", |tally| tally.too_old),
    (
        "from_the_future",
        "Charges of a time after that of their record; they are counted at the latest credible time",
        |tally| tally.from_the_future,
    ),
    ("uncounted", "Charges of counters past the cap; they are not counted", |tally| tally.uncounted),
    ("signals", "Signals sent", |tally| tally.signals),
    ("late_for_minute", "Charges that came minutes too late for analytics; they are counted, and in no sum", |tally| {
        tally.rollups.too_late
    }),
    ("other_callers", "Charges of callers past a cap of the analytics, which are summed as others", |tally| {
        tally.rollups.of_others
    }),
];

/// The metrics, and the tallies that they already contain.
#[derive(Default)]
pub(crate) struct AggregatorMetrics {
    tallies: [Family<PartitionLabel, Counter>; TALLIES.len()],
    counters: PartitionGauges,
    lag: PartitionSeconds,
    lag_records: PartitionGauges,
    watermark_lag: PartitionSeconds,
    missed: Counter,
    pub(crate) dead_letters: DeadLetterTotals,
    /// 1 while the bus can be used; set by the thread that prepares it.
    pub(crate) bus_connected: Gauge<u64, AtomicU64>,
    members: Gauge<u64, AtomicU64>,
    clock_offset: Family<AgentLabel, Gauge<f64, AtomicU64>>,
    /// Agents with a gauge.
    agents: HashSet<Arc<str>>,
    agents_updated_at: Timestamp,
    updated: HashMap<Partition, CountingTally>,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct DeadLetterTotals(Family<TopicLabel, Counter>);

impl DeadLetterTotals {
    pub(crate) fn register(&self, registry: &mut Registry, topics: &[Topic]) {
        let help = "Records that changed nothing: undecodable ones, and those that report what cannot be";
        registry.register("tollgate_dead_letters", help, self.0.clone());
        for topic in topics {
            drop(self.0.get_or_create(&label(*topic)));
        }
    }

    pub(crate) fn count(&self, topic: Topic) {
        self.0.get_or_create(&label(topic)).inc();
    }
}

impl AggregatorMetrics {
    pub(crate) fn register(registry: &mut Registry, partitions: u32) -> Self {
        let metrics = Self::default();
        let m = &metrics;
        m.dead_letters.register(registry, &DEAD_LETTER_TOPICS);
        let r = registry.sub_registry_with_prefix("tollgate_aggregator");
        for ((name, help, _), family) in TALLIES.iter().zip(&m.tallies) {
            r.register(*name, *help, family.clone());
            for partition in 0..partitions {
                drop(family.get_or_create(&PartitionLabel { partition }));
            }
        }
        r.register("counters", "Counters in the table", m.counters.clone());
        r.register_with_unit("lag", "Age of the newest counted record", Unit::Seconds, m.lag.clone());
        r.register("lag_records", "Records in the log that are not counted yet", m.lag_records.clone());
        let help = "Age of the time up to which all live agents have published";
        r.register_with_unit("watermark_lag", help, Unit::Seconds, m.watermark_lag.clone());
        r.register("missed_records", "Records that the bus deleted before they were read", m.missed.clone());
        r.register("bus_connected", "1 while calls can be read, and signals written", m.bus_connected.clone());
        r.register("members", "Live aggregators, this one included", m.members.clone());
        let help = "Clock of an agent less that of Kafka, the delay of a heartbeat included";
        r.register_with_unit("agent_clock_offset", help, Unit::Seconds, m.clock_offset.clone());
        metrics
    }

    /// Updates all metrics; `missed` is the number of records that the reader missed so far.
    pub(crate) fn update(&mut self, now: Timestamp, worker: &Worker, missed: u64) {
        self.missed.inc_by(missed.saturating_sub(self.missed.get()));
        self.members.set(worker.members() as u64);
        if now.as_ms().abs_diff(self.agents_updated_at.as_ms()) >= AGENTS_INTERVAL_MS {
            self.agents_updated_at = now;
            self.update_agents(worker);
        }
        for (partition, assigned) in worker.assigned() {
            let (label, counting) = (PartitionLabel { partition }, &assigned.counting);
            let tally = counting.tally();
            let before = self.updated.insert(partition, tally).unwrap_or_default();
            for ((_, _, value), family) in TALLIES.iter().zip(&self.tallies) {
                family.get_or_create(&label).inc_by(value(&tally) - value(&before));
            }
            self.counters.get_or_create(&label).set(tally.counters as u64);
            let seconds_since = |time: Option<Timestamp>| time.map_or(0.0, |time| seconds(now.ms_since(time)));
            self.lag.get_or_create(&label).set(seconds_since(counting.read.map(|(_, appended)| appended)));
            self.lag_records.get_or_create(&label).set(assigned.lag_records.unwrap_or_default());
            self.watermark_lag.get_or_create(&label).set(seconds_since(counting.watermark));
        }
    }

    /// Updates the gauges of the agents that are heard, and removes those of others.
    fn update_agents(&mut self, worker: &Worker) {
        let mut gone = std::mem::take(&mut self.agents);
        for (name, agent) in worker.agents().iter() {
            gone.remove(name);
            self.agents.insert(name.clone());
            let offset = seconds(agent.clock_offset_ms.unsigned_abs());
            let offset = if agent.clock_offset_ms < 0 { -offset } else { offset };
            self.clock_offset.get_or_create(&AgentLabel { agent: name.to_string() }).set(offset);
        }
        for name in gone {
            self.clock_offset.remove(&AgentLabel { agent: name.to_string() });
        }
    }

    /// Removes the gauges of a revoked partition; its counters keep their values.
    pub(crate) fn forget(&mut self, partition: Partition) {
        self.updated.remove(&partition);
        let label = PartitionLabel { partition };
        self.counters.remove(&label);
        self.lag.remove(&label);
        self.lag_records.remove(&label);
        self.watermark_lag.remove(&label);
    }
}

fn label(topic: Topic) -> TopicLabel {
    TopicLabel { topic: topic.as_str(), reader: "aggregator" }
}

#[expect(clippy::cast_precision_loss, reason = "no lag reaches 2^52 ms")]
pub(crate) fn seconds(ms: u64) -> f64 {
    ms as f64 / 1_000.0
}
