//! Reading: partitions assigned by hand, each from where it was told, for as long as the reader lives.
//!
//! librdkafka's group protocol is not used: it takes seconds to notice a death, and owners here are found otherwise. A
//! partition waits in `pending` until the topics are known to be right and its start is known; all else, brokers that
//! come and go included, librdkafka does by itself.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use rdkafka::consumer::{BaseConsumer, Consumer as _};
use rdkafka::error::{KafkaError as Native, RDKafkaErrorCode as Code};
use rdkafka::message::{BorrowedMessage, Message};
use rdkafka::topic_partition_list::{Offset as Place, TopicPartitionList};

use super::contact::Contact;
use super::{KafkaError, LAYOUT_KEY, Shared, settings};
use crate::{Delivered, From, Reader, Topic};
use tollgate_core::clock::{Stopwatch, Timestamp};
use tollgate_core::counter::Partition;
use tollgate_core::messages::signals::Offset;

/// How long `read` and `add` wait for the brokers to say where a partition starts.
const START_WAIT: Duration = Duration::from_secs(1);
/// How long a poll waits for that, though it was told to wait less: an answer takes a way there and back.
const START_WAIT_MIN: Duration = Duration::from_millis(100);
/// How often a poll looks whether what is pending can be taken up.
const PENDING_STEP: Duration = Duration::from_millis(20);

/// Reads a topic of a [`Kafka`](super::Kafka).
pub struct KafkaReader {
    shared: Arc<Shared>,
    topic: Topic,
    name: String,
    consumer: BaseConsumer<Contact>,
    contact: Contact,
    pending: Vec<(Partition, From)>,
    places: Places,
}

/// How far each partition is read.
struct Places {
    topic: Topic,
    /// The next offset, once it is known.
    next: HashMap<Partition, Option<Offset>>,
    missed: u64,
}

impl KafkaReader {
    pub(super) fn new(shared: &Arc<Shared>, topic: Topic) -> Result<Self, KafkaError> {
        let contact = Contact::new(format!("reader of {}", topic.as_str()), &shared.settings.brokers);
        let config = shared.settings.reader();
        let consumer = config.create_with_context(contact.clone()).map_err(|error| settings::contradictory(&error))?;
        let (name, places) = (shared.settings.name(topic), Places { topic, next: HashMap::new(), missed: 0 });
        Ok(Self { shared: shared.clone(), topic, name, consumer, contact, pending: Vec::new(), places })
    }

    /// Takes some partitions up at once.
    pub(super) fn start(&mut self, partitions: &[Partition], from: From) {
        self.pending.extend(partitions.iter().map(|partition| (*partition, from)));
        self.take_up(START_WAIT);
    }

    /// Assigns what is pending and can be; the rest stays.
    ///
    /// Where a partition starts is asked here, though librdkafka could find the oldest and the next record by itself: it
    /// would do so later than the call that wanted the next one, and half a second late on a new connection.
    fn take_up(&mut self, wait: Duration) {
        if self.pending.is_empty() || !self.shared.is_prepared() {
            return;
        }
        let edges = self.look_up(edge, wait);
        // Without an answer to the first question there is none to the second.
        let since = edges.as_ref().map_or(Err(()), |_| self.look_up(first_since, wait).map_err(drop));
        let edges = edges.unwrap_or_default();
        let (mut list, mut waiting) = (TopicPartitionList::new(), Vec::new());
        for (partition, from) in self.pending.drain(..) {
            let edge = edges.get(&partition).copied();
            let (known, otherwise) = match (from, &since) {
                (From::Oldest, _) => (edge, Place::Beginning),
                (From::Next, _) => (edge, Place::End),
                (From::Offset(offset), _) => (None, Place::Offset(raw(offset))),
                // Where nothing is that young, what comes next is: counted from before the question.
                (From::Time(_), Ok(since)) => (since.get(&partition).copied().or(edge), Place::End),
                (From::Time(_), Err(())) => {
                    waiting.push((partition, from));
                    continue;
                }
            };
            let place = known.map_or(otherwise, |offset| Place::Offset(raw(offset)));
            if list.add_partition_offset(&self.name, raw_partition(partition), place).is_ok() {
                let named = if let From::Offset(offset) = from { Some(offset) } else { None };
                self.places.next.insert(partition, known.or(named));
            }
        }
        self.pending = waiting;
        if list.count() > 0
            && let Err(error) = self.consumer.incremental_assign(&list)
        {
            tracing::error!(topic = self.name, %error, "partitions cannot be taken up; restart the reader");
        }
    }

    /// Asks for offsets of pending partitions: of a place, or of a time, which librdkafka puts where a place would be.
    fn look_up(
        &self,
        matters: impl Fn(From) -> Option<Place>,
        wait: Duration,
    ) -> Result<HashMap<Partition, Offset>, Native> {
        let mut list = TopicPartitionList::new();
        for (partition, from) in &self.pending {
            if let Some(place) = matters(*from) {
                list.add_partition_offset(&self.name, raw_partition(*partition), place)?;
            }
        }
        if list.count() == 0 {
            return Ok(HashMap::new());
        }
        let mut found = HashMap::new();
        for element in self.consumer.offsets_for_times(list, wait)?.elements() {
            element.error()?;
            if let (Place::Offset(offset), Ok(partition)) = (element.offset(), Partition::try_from(element.partition()))
            {
                found.insert(partition, offset.unsigned_abs());
            }
        }
        Ok(found)
    }
}

impl Reader for KafkaReader {
    fn poll(&mut self, wait: Duration, records_max: usize) -> Vec<Delivered> {
        let waited = Stopwatch::start();
        self.take_up(wait.clamp(START_WAIT_MIN, START_WAIT));
        let mut taken = Vec::new();
        while taken.len() < records_max {
            let rest = if taken.is_empty() { wait.saturating_sub(waited.elapsed()) } else { Duration::ZERO };
            let step = if self.pending.is_empty() { rest } else { rest.min(PENDING_STEP) };
            match self.consumer.poll(whole_ms(step)) {
                Some(Ok(message)) => {
                    self.contact.heard();
                    taken.extend(self.places.take(&message));
                }
                Some(Err(Native::MessageConsumption(code))) if !is_of_the_connection(code) => {
                    self.contact.failed("records cannot be read", code);
                }
                Some(Err(_)) => {}
                None if rest.is_zero() => break,
                None => self.take_up(START_WAIT_MIN),
            }
        }
        taken
    }

    fn add(&mut self, partition: Partition, from: From) {
        self.remove(partition);
        // Where others are still waiting the brokers are away, and one more need not wait for them here.
        let wait = if self.pending.is_empty() { START_WAIT } else { Duration::ZERO };
        self.pending.push((partition, from));
        if !wait.is_zero() {
            self.take_up(wait);
        }
    }

    fn remove(&mut self, partition: Partition) {
        self.pending.retain(|(waiting, _)| *waiting != partition);
        if self.places.next.remove(&partition).is_some() {
            let mut list = TopicPartitionList::new();
            list.add_partition(&self.name, raw_partition(partition));
            if let Err(error) = self.consumer.incremental_unassign(&list) {
                tracing::warn!(topic = self.topic.as_str(), partition, %error, "a partition cannot be left; its records are passed over");
            }
        }
    }

    fn next(&self, partition: Partition) -> Option<Offset> {
        self.places.next.get(&partition).copied().flatten()
    }

    fn missed(&self) -> u64 {
        self.places.missed
    }
}

impl Places {
    /// What a message delivers: nothing when its partition was left, or when it is a note of Tollgate's own.
    fn take(&mut self, message: &BorrowedMessage<'_>) -> Option<Delivered> {
        let partition = Partition::try_from(message.partition()).ok()?;
        let offset = Offset::try_from(message.offset()).ok()?;
        let next = self.next.get_mut(&partition)?;
        match *next {
            // Compaction takes records out of `rules`; that is not a loss.
            Some(next) if offset > next && self.topic != Topic::Rules => self.missed += offset - next,
            Some(next) if offset < next => {
                let topic = self.topic.as_str();
                tracing::warn!(topic, partition, offset, next, "the log went back: it lost records or was made anew");
            }
            _ => {}
        }
        *next = Some(offset + 1);
        if self.topic == Topic::Rules && message.key() == Some(LAYOUT_KEY.as_bytes()) {
            return None;
        }
        let appended = message.timestamp().to_millis().and_then(|ms| u64::try_from(ms).ok()).unwrap_or_default();
        let appended = Timestamp::from_ms(appended);
        Some(Delivered { partition, offset, appended, payload: message.payload().unwrap_or_default().to_vec() })
    }
}

/// librdkafka waits whole milliseconds and takes less for none: polled with the rest of one, it would spin until that is
/// over.
fn whole_ms(wait: Duration) -> Duration {
    Duration::from_millis(u64::try_from(wait.as_micros().div_ceil(1_000)).unwrap_or(u64::MAX))
}

/// The end of a partition that a start there, or at a time, depends on.
fn edge(from: From) -> Option<Place> {
    match from {
        From::Oldest => Some(Place::Beginning),
        From::Next | From::Time(_) => Some(Place::End),
        From::Offset(_) => None,
    }
}

/// The first record since a time.
fn first_since(from: From) -> Option<Place> {
    if let From::Time(time) = from { Some(Place::Offset(raw(time.as_ms()))) } else { None }
}

/// What `Contact` says already.
fn is_of_the_connection(code: Code) -> bool {
    matches!(
        code,
        Code::BrokerTransportFailure
            | Code::AllBrokersDown
            | Code::Resolve
            | Code::OperationTimedOut
            | Code::Authentication
            | Code::SaslAuthenticationFailed
            | Code::SSL
    )
}

fn raw(offset: Offset) -> i64 {
    i64::try_from(offset).unwrap_or(i64::MAX)
}

fn raw_partition(partition: Partition) -> i32 {
    i32::try_from(partition).unwrap_or(i32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The last part of a millisecond was waited for by polling without a pause, a core's worth of it.
    #[test]
    fn no_wait_is_shorter_than_librdkafka_can_wait() {
        let waits = [0, 1, 999, 1_000, 1_001].map(|us| whole_ms(Duration::from_micros(us)).as_millis());
        assert_eq!(waits, [0, 1, 1, 1, 2]);
    }
}
