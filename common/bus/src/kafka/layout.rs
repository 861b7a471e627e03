//! Layout record: the number of partitions, stored in the compacted topic `rules`.
//!
//! A counter's partition is its digest modulo that number. Kafka permits adding partitions to a topic, after which the
//! counts of one counter would lie in two partitions; a simultaneous change of the settings would hide this. Therefore
//! the first process writes the number, and [`super::topics`] compares it with the settings and the topics.

use std::sync::Arc;
use std::time::Duration;

use rdkafka::consumer::{BaseConsumer, Consumer as _};
use rdkafka::error::KafkaError as Native;
use rdkafka::message::Message;
use rdkafka::topic_partition_list::{Offset, TopicPartitionList};

use super::KafkaSettings;
use super::access_fault::AccessFaults;
use super::client_context::KafkaContext;
use super::errors::contradictory;
use super::producer::ProducerHandle;
use super::unsent::DeliveryTag;
use crate::reports::ReportQueue;
use crate::{BusError, Topic};
use tollgate_core::clock::Stopwatch;

/// Readers of rules skip this key.
pub(super) const LAYOUT_KEY: &str = "layout";
/// Version of the record's form, and the name of its value.
const FORM: &str = "1 partitions=";
/// Maximum duration of one poll for the record.
const POLL_STEP: Duration = Duration::from_millis(100);

/// The newest layout record, as far as it can be read.
pub(super) enum Layout {
    /// No record: the topics are new.
    Missing,
    Partitions(u32),
    /// A record of a later version of Tollgate.
    Newer,
    /// A record that no version of Tollgate writes.
    Unreadable,
}

impl Layout {
    fn parse(text: &str) -> Self {
        let number = text.strip_prefix(FORM).and_then(|number| number.parse().ok());
        let is_newer =
            || text.split_once(' ').and_then(|(form, _)| form.parse::<u32>().ok()).is_some_and(|form| form > 1);
        match number {
            Some(number) => Self::Partitions(number),
            None if is_newer() => Self::Newer,
            None => Self::Unreadable,
        }
    }

    /// Refuses a record that cannot be read. The topics are known to have the right number of partitions, so the remedy
    /// writes that number, and keeps the published rules.
    pub(super) fn check(&self, settings: &KafkaSettings) -> Result<(), BusError> {
        let topic = settings.name(Topic::Rules);
        match self {
            Self::Missing | Self::Partitions(_) => Ok(()),
            Self::Newer => Err(BusError::refused(
                format!("the layout record in the topic `{topic}` was written by a later version of Tollgate"),
                "use a version that is at least as new",
            )),
            Self::Unreadable => Err(BusError::refused(
                format!("the layout record in the topic `{topic}` is not one of Tollgate's"),
                format!(
                    "write it again: `echo '{LAYOUT_KEY}:{FORM}{}' | kafka-console-producer.sh {} --topic {topic} --property parse.key=true --property key.separator=:`",
                    settings.partitions,
                    settings.producer_flags()
                ),
            )),
        }
    }
}

/// Reads the newest record, by reading the topic to its end.
pub(super) fn read(settings: &KafkaSettings, wait: Duration) -> Result<Layout, BusError> {
    let waited = Stopwatch::start();
    let unreachable = |reason: &str| settings.unreachable(format!("{reason} while reading the layout record"));
    let context = KafkaContext::new("reader of the layout record".into(), settings, false, AccessFaults::default());
    let mut config = settings.consumer(false)?;
    config.set("enable.partition.eof", "true");
    let consumer: BaseConsumer<KafkaContext> = config.create_with_context(context).map_err(contradictory)?;
    let name = settings.name(Topic::Rules);
    let (first, _) = consumer.fetch_watermarks(&name, 0, wait).map_err(|error| unreachable(&error.to_string()))?;
    let mut list = TopicPartitionList::new();
    let assigned = list.add_partition_offset(&name, 0, Offset::Offset(first));
    assigned.and_then(|()| consumer.assign(&list)).map_err(|error| unreachable(&error.to_string()))?;
    let mut newest = Layout::Missing;
    while waited.elapsed() < wait {
        match consumer.poll(POLL_STEP) {
            Some(Ok(message)) if message.key() == Some(LAYOUT_KEY.as_bytes()) => {
                let parse = |text| Layout::parse(&String::from_utf8_lossy(text));
                newest = message.payload().map_or(Layout::Missing, parse);
            }
            Some(Err(Native::PartitionEOF(_))) => return Ok(newest),
            _ => {}
        }
    }
    Err(unreachable("timed out"))
}

pub(super) fn write(settings: &KafkaSettings, producer: &ProducerHandle, wait: Duration) -> Result<(), BusError> {
    let unreachable = |reason: &str| settings.unreachable(format!("{reason} while writing the layout record"));
    let (name, text) = (settings.name(Topic::Rules), format!("{FORM}{}", settings.partitions));
    let queue = Arc::<ReportQueue>::default();
    let tag = DeliveryTag { queue: queue.clone(), partition: 0, tag: 0 };
    let sent = producer.send(&name, Some(LAYOUT_KEY), Some(text.as_bytes()), tag);
    sent.map_err(|code| unreachable(&code.to_string()))?;
    if !producer.flush(wait) {
        return Err(unreachable("timed out"));
    }
    let written = queue.take().iter().any(|report| report.offset.is_some());
    if written { Ok(()) } else { Err(unreachable("the record was lost")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_is_told_from_a_newer_one_and_from_junk() {
        let cases = [
            ("1 partitions=8", "8"),
            ("2 partitions=8", "newer"),
            ("2 hash=xx partitions=8", "newer"),
            ("1 partitions=x", "junk"),
            ("1 partitions=-8", "junk"),
            ("junk", "junk"),
            ("", "junk"),
        ];
        for (text, expected) in cases {
            let read = match Layout::parse(text) {
                Layout::Missing => "missing".to_owned(),
                Layout::Partitions(number) => number.to_string(),
                Layout::Newer => "newer".to_owned(),
                Layout::Unreadable => "junk".to_owned(),
            };
            assert_eq!(read, expected, "{text:?}");
        }
    }
}
