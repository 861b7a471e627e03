//! Reader: a consumer with manually assigned partitions, each with its own start position.
//!
//! librdkafka's consumer groups are not used, because they take seconds to detect a failed member and ownership is
//! known from presence records. A partition stays in `pending` until the topics are verified and its start offset is
//! known; librdkafka handles everything else, including brokers that fail and return.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use rdkafka::consumer::{BaseConsumer, Consumer as _};
use rdkafka::error::{KafkaError as Native, RDKafkaErrorCode as Code};
use rdkafka::message::{BorrowedMessage, Message};
use rdkafka::topic_partition_list::{Offset as KafkaOffset, TopicPartitionList};

use super::brokers::raw_partition;
use super::client_context::KafkaContext;
use super::errors::contradictory;
use super::layout::LAYOUT_KEY;
use super::shared::KafkaShared;
use crate::{BusError, BusRecord, LogReader, ReadFrom, Topic};
use tollgate_core::clock::{Stopwatch, Timestamp};
use tollgate_core::counter::Partition;
use tollgate_core::messages::signals::Offset;

/// Maximum time for which `reader` and `add` wait for the start offset of a partition.
const START_WAIT: Duration = Duration::from_secs(1);
/// Minimum time for which a poll waits for start offsets, even if its own timeout is shorter: one round trip.
const START_WAIT_MIN: Duration = Duration::from_millis(100);
/// Interval at which a poll retries to assign pending partitions.
const PENDING_STEP: Duration = Duration::from_millis(20);

/// Reader of a topic of a [`KafkaBus`](super::KafkaBus).
pub struct KafkaReader {
    shared: Arc<KafkaShared>,
    topic: Topic,
    name: String,
    consumer: BaseConsumer<KafkaContext>,
    pending: Vec<(Partition, ReadFrom)>,
    /// Offset of the next record of each assigned partition.
    next: HashMap<Partition, Offset>,
    missed: u64,
    /// True if the partitions stay as they are.
    is_fixed: bool,
    /// Number of renewals of the access that the consumer knows.
    renewals: u64,
}

impl KafkaReader {
    pub(super) fn new(
        shared: &Arc<KafkaShared>,
        topic: Topic,
        partitions: &[Partition],
        from: ReadFrom,
    ) -> Result<Self, BusError> {
        let renewals = shared.renewals();
        let is_fixed = !partitions.is_empty();
        let consumer = consumer(shared, topic, is_fixed)?;
        let pending = partitions.iter().map(|partition| (*partition, from)).collect();
        let (shared, name) = (shared.clone(), shared.settings.name(topic));
        let mut reader =
            Self { shared, topic, name, consumer, pending, next: HashMap::new(), missed: 0, is_fixed, renewals };
        reader.assign_pending(START_WAIT);
        Ok(reader)
    }

    /// Replaces the consumer after the access to the brokers has changed. It goes on behind the last record.
    fn renew(&mut self, renewals: u64) {
        let mut list = TopicPartitionList::new();
        for (partition, next) in &self.next {
            let added =
                list.add_partition_offset(&self.name, raw_partition(*partition), KafkaOffset::Offset(raw(*next)));
            debug_assert!(added.is_ok(), "the offset is a number");
        }
        let renewed = consumer(&self.shared, self.topic, self.is_fixed).and_then(|consumer| {
            consumer.incremental_assign(&list).map_err(contradictory)?;
            Ok(consumer)
        });
        match renewed {
            Ok(consumer) => {
                self.renewals = renewals;
                let old = std::mem::replace(&mut self.consumer, consumer);
                // Closing it waits for brokers that refuse it.
                std::thread::spawn(move || drop(old));
            }
            Err(error) => tracing::debug!(topic = self.name, %error, "a reader is not renewed yet"),
        }
    }

    /// Assigns the pending partitions with known start offsets; the others stay pending.
    ///
    /// librdkafka could resolve the oldest and the next offset itself, but it would do so after this call has returned,
    /// and half a second later on a new connection; records appended in between would be skipped.
    fn assign_pending(&mut self, wait: Duration) {
        if self.pending.is_empty() || !self.shared.is_prepared() {
            return;
        }
        // If no record is new enough for a start by time, reading starts at the end as of the first request.
        let Ok(edges) = self.resolve_offsets(edge, wait) else { return };
        let Ok(since) = self.resolve_offsets(first_since, wait) else { return };
        let mut list = TopicPartitionList::new();
        self.pending.retain(|(partition, from)| {
            let named = if let ReadFrom::Offset(offset) = from { Some(offset) } else { None };
            let Some(start) = named.or(since.get(partition)).or(edges.get(partition)) else { return true };
            let offset = KafkaOffset::Offset(raw(*start));
            if list.add_partition_offset(&self.name, raw_partition(*partition), offset).is_ok() {
                self.next.insert(*partition, *start);
            }
            false
        });
        if list.count() > 0
            && let Err(error) = self.consumer.incremental_assign(&list)
        {
            tracing::error!(topic = self.name, %error, "partitions cannot be assigned; restart this process");
        }
    }

    /// Moves the position of a partition behind a record; returns false if the partition was removed.
    fn accept(&mut self, record: &BusRecord) -> bool {
        let Some(next) = self.next.get_mut(&record.partition) else { return false };
        let BusRecord { partition, offset, .. } = *record;
        if offset < *next {
            let topic = self.topic.as_str();
            tracing::warn!(
                topic,
                partition,
                offset,
                next,
                "offsets went back: the topic lost records or was recreated"
            );
        } else if self.topic != Topic::Rules {
            // Compaction removes records from `rules`; this is not a loss.
            self.missed += offset - *next;
        }
        *next = offset + 1;
        true
    }

    /// Requests offsets for pending partitions. A position is the oldest, the end, or a timestamp, which librdkafka
    /// expects in place of an offset.
    fn resolve_offsets(
        &self,
        needed: impl Fn(ReadFrom) -> Option<KafkaOffset>,
        wait: Duration,
    ) -> Result<HashMap<Partition, Offset>, Native> {
        let mut list = TopicPartitionList::new();
        for (partition, from) in &self.pending {
            if let Some(start) = needed(*from) {
                list.add_partition_offset(&self.name, raw_partition(*partition), start)?;
            }
        }
        if list.count() == 0 {
            return Ok(HashMap::new());
        }
        let mut found = HashMap::new();
        for element in self.consumer.offsets_for_times(list, wait)?.elements() {
            element.error()?;
            if let (KafkaOffset::Offset(offset), Ok(partition)) =
                (element.offset(), Partition::try_from(element.partition()))
            {
                found.insert(partition, offset.unsigned_abs());
            }
        }
        Ok(found)
    }
}

impl LogReader for KafkaReader {
    fn poll(&mut self, wait: Duration, records_max: usize) -> Vec<BusRecord> {
        let waited = Stopwatch::start();
        let renewals = self.shared.renewals();
        if renewals != self.renewals {
            self.renew(renewals);
        }
        self.assign_pending(wait.clamp(START_WAIT_MIN, START_WAIT));
        let mut taken = Vec::new();
        while taken.len() < records_max {
            let rest = if taken.is_empty() { wait.saturating_sub(waited.elapsed()) } else { Duration::ZERO };
            let step = if self.pending.is_empty() { rest } else { rest.min(PENDING_STEP) };
            match self.consumer.poll(whole_ms(step)) {
                Some(Ok(message)) => {
                    self.consumer.context().confirm_connection();
                    // Records without content delete publications that are no longer kept.
                    let is_for_readers = message.key() != Some(LAYOUT_KEY.as_bytes()) && message.payload().is_some();
                    let record = record(&message);
                    taken.extend(record.filter(|record| self.accept(record) && is_for_readers));
                }
                // A consumer asks for the coordinator of its group, which no reader needs.
                Some(Err(Native::MessageConsumption(Code::GroupAuthorizationFailed))) => {}
                Some(Err(Native::MessageConsumption(code))) if !is_connection_error(code) => {
                    self.consumer.context().log_failure("records cannot be read", &self.name, code);
                }
                Some(Err(_)) => {}
                None if rest.is_zero() => break,
                None => self.assign_pending(START_WAIT_MIN),
            }
        }
        taken
    }

    fn add(&mut self, partition: Partition, from: ReadFrom) {
        self.remove(partition);
        // If other partitions are pending, the brokers are unavailable, and waiting for one more is useless.
        let wait = if self.pending.is_empty() { START_WAIT } else { Duration::ZERO };
        self.pending.push((partition, from));
        if !wait.is_zero() {
            self.assign_pending(wait);
        }
    }

    fn remove(&mut self, partition: Partition) {
        self.pending.retain(|(waiting, _)| *waiting != partition);
        if self.next.remove(&partition).is_some() {
            let mut list = TopicPartitionList::new();
            list.add_partition(&self.name, raw_partition(partition));
            if let Err(error) = self.consumer.incremental_unassign(&list) {
                tracing::warn!(topic = self.topic.as_str(), partition, %error, "a partition cannot be unassigned; its records are discarded");
            }
        }
    }

    fn next(&self, partition: Partition) -> Option<Offset> {
        self.next.get(&partition).copied()
    }

    fn missed(&self) -> u64 {
        self.missed
    }
}

fn consumer(shared: &KafkaShared, topic: Topic, is_fixed: bool) -> Result<BaseConsumer<KafkaContext>, BusError> {
    let (name, faults) = (format!("reader of {}", topic.as_str()), shared.producer.context.faults().clone());
    let context = KafkaContext::new(name, &shared.settings, false, faults);
    shared.settings.consumer(is_fixed)?.create_with_context(context).map_err(contradictory)
}

fn record(message: &BorrowedMessage<'_>) -> Option<BusRecord> {
    let partition = Partition::try_from(message.partition()).ok()?;
    let offset = Offset::try_from(message.offset()).ok()?;
    let appended = message.timestamp().to_millis().and_then(|ms| u64::try_from(ms).ok()).unwrap_or_default();
    let appended = Timestamp::from_ms(appended);
    Some(BusRecord { partition, offset, appended, payload: message.payload().unwrap_or_default().to_vec() })
}

/// Rounds up to whole milliseconds. librdkafka truncates its timeout, so a remainder below 1 ms would cause busy
/// polling.
fn whole_ms(wait: Duration) -> Duration {
    Duration::from_millis(u64::try_from(wait.as_micros().div_ceil(1_000)).unwrap_or(u64::MAX))
}

/// Returns the edge of the partition that must be resolved for a start position.
fn edge(from: ReadFrom) -> Option<KafkaOffset> {
    match from {
        ReadFrom::Oldest => Some(KafkaOffset::Beginning),
        ReadFrom::Next | ReadFrom::Time(_) => Some(KafkaOffset::End),
        ReadFrom::Offset(_) => None,
    }
}

/// Returns the timestamp that must be resolved for a start position.
fn first_since(from: ReadFrom) -> Option<KafkaOffset> {
    if let ReadFrom::Time(time) = from { Some(KafkaOffset::Offset(raw(time.as_ms()))) } else { None }
}

/// Returns true for errors that `KafkaContext` already logs.
fn is_connection_error(code: Code) -> bool {
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Regression: the remainder below 1 ms was waited for by polling without a pause, which kept a core busy.
    #[test]
    fn waits_are_rounded_up_to_whole_milliseconds() {
        let waits = [0, 1, 999, 1_000, 1_001].map(|us| whole_ms(Duration::from_micros(us)).as_millis());
        assert_eq!(waits, [0, 1, 1, 1, 2]);
    }
}
