//! Layout record: the number of partitions, stored in the compacted topic `rules`.
//!
//! A counter's partition is its digest modulo that number. Kafka permits adding partitions to a topic, after which the
//! counts of one counter would lie in two partitions; a simultaneous change of the settings would hide this. Therefore
//! the first process writes the number, and every process compares it with its settings.

use std::sync::Arc;
use std::time::Duration;

use rdkafka::consumer::{BaseConsumer, Consumer as _};
use rdkafka::error::KafkaError as Native;
use rdkafka::message::Message;
use rdkafka::topic_partition_list::{Offset, TopicPartitionList};

use super::client_context::KafkaContext;
use super::producer::{DeliveryTag, ProducerHandle};
use super::{KafkaSettings, settings::contradictory};
use crate::reports::ReportQueue;
use crate::{BusError, Topic};
use tollgate_core::clock::Stopwatch;

/// Key of the record. Readers of rules skip it.
pub(super) const LAYOUT_KEY: &str = "layout";
/// Version of the record's form, and the name of its value.
const FORM: &str = "1 partitions=";
/// Maximum duration of one poll for the record.
const POLL_STEP: Duration = Duration::from_millis(100);

/// Compares the record with the settings, or writes it if there is none.
pub(super) fn check(settings: &KafkaSettings, producer: &ProducerHandle, wait: Duration) -> Result<(), BusError> {
    let waited = Stopwatch::start();
    match recorded(settings, wait)? {
        None => write(settings, producer, wait.saturating_sub(waited.elapsed())),
        Some(text) => match text.strip_prefix(FORM).and_then(|number| number.parse::<u32>().ok()) {
            Some(number) if number == settings.partitions => Ok(()),
            Some(number) => Err(BusError::refused(
                format!(
                    "the topics were laid out for {number} partitions, and with {} now each counter would be split over two of them",
                    settings.partitions
                ),
                format!(
                    "go back to {number} partitions, or start over with another topic prefix (or delete `{}`, `{}` and `{}`)",
                    settings.name(Topic::Calls),
                    settings.name(Topic::Signals),
                    settings.name(Topic::Rules)
                ),
            )),
            None => Err(BusError::refused(
                format!("the layout record in `{}` has an unknown form", settings.name(Topic::Rules)),
                "use a version of Tollgate that is at least as new as the one that wrote it",
            )),
        },
    }
}

/// Reads the newest record, by reading the topic to its end.
fn recorded(settings: &KafkaSettings, wait: Duration) -> Result<Option<String>, BusError> {
    let waited = Stopwatch::start();
    let unreachable = |reason: &str| settings.unreachable(format!("{reason} while reading the layout record"));
    let context = KafkaContext::new("reader of the layout record".into(), &settings.brokers, false);
    let mut config = settings.consumer();
    config.set("enable.partition.eof", "true");
    let consumer: BaseConsumer<KafkaContext> = config.create_with_context(context).map_err(contradictory)?;
    let name = settings.name(Topic::Rules);
    let (first, _) = consumer.fetch_watermarks(&name, 0, wait).map_err(|error| unreachable(&error.to_string()))?;
    let mut list = TopicPartitionList::new();
    let assigned = list.add_partition_offset(&name, 0, Offset::Offset(first));
    assigned.and_then(|()| consumer.assign(&list)).map_err(|error| unreachable(&error.to_string()))?;
    let mut newest = None;
    while waited.elapsed() < wait {
        match consumer.poll(POLL_STEP) {
            Some(Ok(message)) if message.key() == Some(LAYOUT_KEY.as_bytes()) => {
                newest = message.payload().map(|text| String::from_utf8_lossy(text).into_owned());
            }
            Some(Err(Native::PartitionEOF(_))) => return Ok(newest),
            _ => {}
        }
    }
    Err(unreachable("timed out"))
}

fn write(settings: &KafkaSettings, producer: &ProducerHandle, wait: Duration) -> Result<(), BusError> {
    let unreachable = |reason: &str| settings.unreachable(format!("{reason} while writing the layout record"));
    let (name, text) = (settings.name(Topic::Rules), format!("{FORM}{}", settings.partitions));
    let queue = Arc::<ReportQueue>::default();
    let tag = DeliveryTag { queue: queue.clone(), partition: 0, tag: 0 };
    let sent = producer.send(&name, Some(LAYOUT_KEY), text.as_bytes(), tag);
    sent.map_err(|code| unreachable(&code.to_string()))?;
    if !producer.flush(wait) {
        return Err(unreachable("timed out"));
    }
    let written = queue.take().iter().any(|report| report.offset.is_some());
    if written { Ok(()) } else { Err(unreachable("the record was lost")) }
}
