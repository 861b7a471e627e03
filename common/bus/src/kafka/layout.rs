//! The record of how many partitions there are, in the compacted topic `rules`.
//!
//! A counter's partition is its digest modulo that number. Kafka lets anyone add partitions, and from then on counts of
//! one counter would lie in two of them; settings altered alongside would hide it. So whoever finds no record writes one,
//! and everybody compares.

use std::sync::Arc;
use std::time::Duration;

use rdkafka::consumer::{BaseConsumer, Consumer as _};
use rdkafka::error::KafkaError as Native;
use rdkafka::message::Message;
use rdkafka::topic_partition_list::{Offset, TopicPartitionList};

use super::contact::Contact;
use super::writer::{Route, Writer};
use super::{KafkaError, KafkaSettings};
use crate::Topic;
use tollgate_core::clock::Stopwatch;

/// The key of the record; readers of rules pass it over.
pub(super) const LAYOUT_KEY: &str = "layout";
/// Before the number, with the version of the form.
const FORM: &str = "1 partitions=";
/// The longest wait for one message before the time left is looked at.
const STEP: Duration = Duration::from_millis(100);

/// Compares the record with the settings; writes it where there is none.
pub(super) fn check(settings: &KafkaSettings, writer: &Writer, wait: Duration) -> Result<(), KafkaError> {
    let waited = Stopwatch::start();
    match recorded(settings, wait)? {
        None => write(settings, writer, wait.saturating_sub(waited.elapsed())),
        Some(text) => match text.strip_prefix(FORM).and_then(|number| number.parse::<u32>().ok()) {
            Some(number) if number == settings.partitions => Ok(()),
            Some(number) => Err(KafkaError::refused(
                format!(
                    "the topics were laid out for {number} partitions and are to have {} now, which would tear counters apart",
                    settings.partitions
                ),
                format!(
                    "go back to {number} partitions, or begin anew with another topic prefix (or delete `{}`, `{}` and `{}`)",
                    settings.name(Topic::Calls),
                    settings.name(Topic::Signals),
                    settings.name(Topic::Rules)
                ),
            )),
            None => Err(KafkaError::refused(
                format!("the record of the layout in `{}` is of another form", settings.name(Topic::Rules)),
                "use a version of Tollgate at least as new as the one that wrote it",
            )),
        },
    }
}

/// The newest record, read through to the end of the topic.
fn recorded(settings: &KafkaSettings, wait: Duration) -> Result<Option<String>, KafkaError> {
    let waited = Stopwatch::start();
    let unreachable = |reason: &str| settings.unreachable(format!("{reason} while the layout was read"));
    let contact = Contact::new("reader of the layout".into(), &settings.brokers);
    let mut config = settings.reader();
    config.set("enable.partition.eof", "true");
    let consumer: BaseConsumer<Contact> =
        config.create_with_context(contact).map_err(|error| super::settings::contradictory(&error))?;
    let name = settings.name(Topic::Rules);
    let (first, next) = consumer.fetch_watermarks(&name, 0, wait).map_err(|error| unreachable(&error.to_string()))?;
    if first == next {
        return Ok(None);
    }
    let mut list = TopicPartitionList::new();
    let assigned = list.add_partition_offset(&name, 0, Offset::Offset(first));
    assigned.and_then(|()| consumer.assign(&list)).map_err(|error| unreachable(&error.to_string()))?;
    let mut newest = None;
    while waited.elapsed() < wait {
        match consumer.poll(STEP) {
            Some(Ok(message)) if message.key() == Some(LAYOUT_KEY.as_bytes()) => {
                newest = message.payload().map(|text| String::from_utf8_lossy(text).into_owned());
            }
            Some(Err(Native::PartitionEOF(_))) => return Ok(newest),
            _ => {}
        }
    }
    Err(unreachable("the time was over"))
}

fn write(settings: &KafkaSettings, writer: &Writer, wait: Duration) -> Result<(), KafkaError> {
    let unreachable = |reason: &str| settings.unreachable(format!("{reason} while the layout was written"));
    let (name, text) = (settings.name(Topic::Rules), format!("{FORM}{}", settings.partitions));
    let route = Arc::<Route>::default();
    writer
        .send((&name, 0), Some(LAYOUT_KEY), text.as_bytes(), (&route, 0))
        .map_err(|code| unreachable(&code.to_string()))?;
    if !writer.flush(&route, wait) {
        return Err(unreachable("the time was over"));
    }
    let written = route.take_reports().iter().any(|report| report.offset.is_some());
    if written { Ok(()) } else { Err(unreachable("the record was lost")) }
}
