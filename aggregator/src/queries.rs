//! Queries about the state of an aggregator, from other threads.
//!
//! Queries wait in a short queue, and the event loop answers them between two rounds, so counting needs no locks.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::oneshot;
use tokio::time::timeout;
use tollgate_aggregator_engine::counting::CountedCounter;
use tollgate_aggregator_engine::membership::Membership;
use tollgate_aggregator_engine::worker::{AssignedPartition, Worker};
use tollgate_core::clock::Timestamp;
use tollgate_core::counter::Partition;
use tollgate_core::messages::signals::Offset;

use crate::dead_letters::{DeadLetters, KeptDeadLetter};

/// Maximum number of queries that wait; further ones are refused.
const QUERIES_LEN_MAX: usize = 64;
/// Maximum time for an answer of the event loop; one of its rounds takes far less.
const ANSWER_WAIT: Duration = Duration::from_secs(5);

/// A selection of counters.
#[derive(Clone, Debug, Default)]
pub struct CounterFilter {
    /// Only the counters of this rule.
    pub rule: Option<String>,
    /// Only the counters whose label contains this text.
    pub label: Option<String>,
    /// Maximum number of counters; the fullest come first.
    pub limit: usize,
}

/// The counters that match a filter.
#[derive(Clone, Debug)]
pub struct FoundCounters {
    /// The time of the answer.
    pub now: Timestamp,
    /// The number of counters that match, including those past the limit.
    pub matched: usize,
    /// The counters and their partitions, up to the limit.
    pub counters: Vec<(Partition, CountedCounter)>,
    /// The restored partitions, including those that are being handed over.
    pub partitions: Vec<Partition>,
}

/// The state of an assigned partition.
#[derive(Clone, Copy, Debug)]
pub struct PartitionStatus {
    /// The partition.
    pub partition: Partition,
    /// The offset of the last record that was read, and its append time.
    pub read: Option<(Offset, Timestamp)>,
    /// The time up to which all live agents have published.
    pub watermark: Option<Timestamp>,
    /// True once its counts are complete.
    pub restored: bool,
    /// False while it is being handed over.
    pub owned: bool,
}

/// The state of an aggregator.
#[derive(Clone, Debug)]
pub struct AggregatorStatus {
    /// True once it knows which partitions it owns.
    pub settled: bool,
    /// The number of live aggregators, this one included.
    pub members: usize,
    /// The HTTP addresses of the other aggregators.
    pub peers: Vec<Arc<str>>,
    /// The assigned partitions.
    pub partitions: Vec<PartitionStatus>,
    /// The number of partitions that it owns and that are not assigned yet.
    pub unassigned: usize,
    /// The reason for which the bus cannot be used.
    pub bus_error: Option<String>,
}

/// The reason for which the bus cannot be used, as the thread that prepares the bus reports it.
pub(crate) type SharedBusError = Arc<Mutex<Option<String>>>;
/// A question that the event loop answers from its state between two rounds.
pub(crate) type Query = Box<dyn FnOnce(Timestamp, &Worker, &DeadLetters) + Send>;

/// A handle for queries to an aggregator; clones query the same one.
#[derive(Clone)]
pub struct Queries {
    queue: SyncSender<Query>,
    bus_error: SharedBusError,
}

impl Queries {
    /// Returns a handle and the queue that it fills.
    pub(crate) fn open(bus_error: SharedBusError) -> (Self, Receiver<Query>) {
        let (queue, queries) = sync_channel(QUERIES_LEN_MAX);
        (Self { queue, bus_error }, queries)
    }

    /// Returns the counters that match; nothing if the event loop does not answer.
    pub async fn counters(&self, filter: CounterFilter) -> Option<FoundCounters> {
        self.ask(move |now, worker, _| find_counters(now, worker, &filter)).await
    }

    /// Returns the aggregator's state; nothing if the event loop does not answer.
    pub async fn status(&self) -> Option<AggregatorStatus> {
        let bus_error = self.bus_error.clone();
        self.ask(move |_, worker, _| status(worker, bus_error.lock().clone())).await
    }

    /// Returns the newest dead letters; nothing if the event loop does not answer.
    pub async fn dead_letters(&self) -> Option<Vec<KeptDeadLetter>> {
        self.ask(|_, _, dead_letters| dead_letters.newest().cloned().collect()).await
    }

    async fn ask<T: Send + 'static>(
        &self,
        answer: impl FnOnce(Timestamp, &Worker, &DeadLetters) -> T + Send + 'static,
    ) -> Option<T> {
        let (reply, answered) = oneshot::channel();
        // A caller that has gone is ignored.
        let query: Query =
            Box::new(move |now, worker, dead_letters| drop(reply.send(answer(now, worker, dead_letters))));
        self.queue.try_send(query).ok()?;
        timeout(ANSWER_WAIT, answered).await.ok()?.ok()
    }
}

fn find_counters(now: Timestamp, worker: &Worker, filter: &CounterFilter) -> FoundCounters {
    let (mut matching, mut partitions) = (Vec::new(), Vec::new());
    for (partition, assigned) in worker.assigned().filter(|(_, assigned)| assigned.counting.restored) {
        partitions.push(partition);
        let of_rule = |rule: &str| filter.rule.as_ref().is_none_or(|wanted| wanted == rule);
        let labelled = |label: &str| filter.label.as_ref().is_none_or(|wanted| label.contains(&**wanted));
        let counters = assigned.counting.counters();
        let counters = counters.filter(|counter| of_rule(&counter.rule) && labelled(&counter.label));
        matching.extend(counters.map(|counter| (counter.permille(now), partition, counter)));
    }
    let matched = matching.len();
    matching.sort_unstable_by(|a, b| b.0.cmp(&a.0).then_with(|| (&a.2.rule, a.2.id).cmp(&(&b.2.rule, b.2.id))));
    matching.truncate(filter.limit);
    let counters = matching.into_iter().map(|(_, partition, counter)| (partition, counter.clone())).collect();
    FoundCounters { now, matched, counters, partitions }
}

fn status(worker: &Worker, bus_error: Option<String>) -> AggregatorStatus {
    let membership = worker.membership();
    let partition_status = |(partition, assigned): (Partition, &AssignedPartition)| PartitionStatus {
        partition,
        read: assigned.counting.read,
        watermark: assigned.counting.watermark,
        restored: assigned.counting.restored,
        owned: assigned.is_owned(),
    };
    AggregatorStatus {
        settled: membership.is_none_or(Membership::is_settled),
        members: membership.map_or(1, Membership::members),
        peers: membership.map(|membership| membership.peer_addresses().cloned().collect()).unwrap_or_default(),
        partitions: worker.assigned().map(partition_status).collect(),
        unassigned: worker.unassigned(),
        bus_error,
    }
}
