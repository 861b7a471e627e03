//! Settings that Tollgate's topics are created with, and their reasons.

use crate::Topic;

/// Settings of the ledger: its state is a function of all its records.
pub(super) const KEPT_FOR_EVER: [(&str, &str); 3] =
    [("cleanup.policy", "delete"), ("retention.ms", "-1"), ("retention.bytes", "-1")];

/// Setting of all topics. Lateness and freshness are measured by the broker's clock; the writers' clocks prove nothing.
pub(super) const BY_BROKERS_CLOCK: (&str, &str) = ("message.timestamp.type", "LogAppendTime");

/// Returns the further settings that a topic is created with.
pub(super) const fn topic_settings(topic: Topic) -> &'static [(&'static str, &'static str)] {
    match topic {
        Topic::Calls => &[
            ("cleanup.policy", "delete"),
            // Windows of up to a day can be recounted from the log, which leaves a day for repairs.
            ("retention.ms", "172800000"),
            // Brokers store the batches as the agents compressed them (lz4).
            ("compression.type", "producer"),
        ],
        Topic::Signals => &[
            // Not compacted: signals are repeated every 1.5 s, and older ones are useless.
            ("cleanup.policy", "delete"),
            ("retention.ms", "120000"),
            // Only closed segments are deleted; by default a segment is closed after a week.
            ("segment.ms", "60000"),
        ],
        Topic::Presence => &[
            ("cleanup.policy", "delete"),
            // Members without a heartbeat are gone after seconds; a minute allows for slow readers.
            ("retention.ms", "60000"),
            ("segment.ms", "60000"),
        ],
        Topic::Rules => &[
            // The layout record and the last publications are kept, each by its key; a publisher deletes older ones.
            ("cleanup.policy", "compact"),
        ],
        Topic::Ledger => &KEPT_FOR_EVER,
        Topic::Rollups => &[
            ("cleanup.policy", "delete"),
            // Minutes of 30 days; each is a few hundred bytes for each caller.
            ("retention.ms", "2592000000"),
        ],
        Topic::Live => &[
            ("cleanup.policy", "delete"),
            // Aggregators read the seconds of a quarter of an hour when they start.
            ("retention.ms", "1200000"),
            ("segment.ms", "300000"),
        ],
        Topic::Decisions => &[
            ("cleanup.policy", "delete"),
            // A week to load them into a warehouse.
            ("retention.ms", "604800000"),
        ],
        Topic::Usage => &[
            ("cleanup.policy", "delete"),
            // Readers use the last seconds; the rest is for whoever looks at the topic.
            ("retention.ms", "3600000"),
            ("segment.ms", "600000"),
        ],
    }
}
