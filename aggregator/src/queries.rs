//! Queries about the state of an aggregator, from other threads.
//!
//! Queries wait in a short queue, and the event loop answers them between two rounds, so counting needs no locks.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

use tokio::sync::oneshot;
use tollgate_aggregator_engine::counting::CountedCounter;
use tollgate_aggregator_engine::membership::Membership;
use tollgate_aggregator_engine::worker::Worker;
use tollgate_core::clock::Timestamp;
use tollgate_core::counter::Partition;
use tollgate_core::messages::signals::Offset;

use crate::dead_letters::{DeadLetters, KeptDeadLetter};

/// Maximum number of queries that wait; further ones are refused.
const QUERIES_LEN_MAX: usize = 64;

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

/// A counter and its partition.
#[derive(Clone, Debug)]
pub struct FoundCounter {
    /// The partition.
    pub partition: Partition,
    /// The count.
    pub counter: CountedCounter,
}

/// The counters that match a filter.
#[derive(Clone, Debug)]
pub struct FoundCounters {
    /// The time of the answer.
    pub now: Timestamp,
    /// The number of counters that match, including those past the limit.
    pub matched: usize,
    /// The counters, up to the limit.
    pub counters: Vec<FoundCounter>,
    /// The restored partitions, including those that are being handed over.
    pub partitions: Vec<PartitionStatus>,
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

pub(crate) enum Query {
    Counters(CounterFilter, oneshot::Sender<FoundCounters>),
    Status(oneshot::Sender<AggregatorStatus>),
    DeadLetters(oneshot::Sender<Vec<KeptDeadLetter>>),
}

/// A handle for queries to an aggregator; clones query the same one.
#[derive(Clone)]
pub struct Queries(SyncSender<Query>);

impl Queries {
    /// Returns a handle and the queue that it fills.
    pub(crate) fn open() -> (Self, Receiver<Query>) {
        let (sender, receiver) = sync_channel(QUERIES_LEN_MAX);
        (Self(sender), receiver)
    }

    /// Returns the counters that match; nothing if too many queries wait.
    pub async fn counters(&self, filter: CounterFilter) -> Option<FoundCounters> {
        self.ask(|reply| Query::Counters(filter, reply)).await
    }

    /// Returns the aggregator's state; nothing if too many queries wait.
    pub async fn status(&self) -> Option<AggregatorStatus> {
        self.ask(Query::Status).await
    }

    /// Returns the newest dead letters; nothing if too many queries wait.
    pub async fn dead_letters(&self) -> Option<Vec<KeptDeadLetter>> {
        self.ask(Query::DeadLetters).await
    }

    async fn ask<T>(&self, query: impl FnOnce(oneshot::Sender<T>) -> Query) -> Option<T> {
        let (reply, answer) = oneshot::channel();
        self.0.try_send(query(reply)).ok()?;
        answer.await.ok()
    }
}

impl Query {
    /// Answers from the state between two rounds. A caller that has gone is ignored.
    pub(crate) fn answer(
        self,
        now: Timestamp,
        worker: &Worker,
        dead_letters: &DeadLetters,
        bus_error: impl FnOnce() -> Option<String>,
    ) {
        match self {
            Self::Counters(filter, reply) => drop(reply.send(find_counters(now, worker, &filter))),
            Self::Status(reply) => drop(reply.send(status(worker, bus_error()))),
            Self::DeadLetters(reply) => drop(reply.send(dead_letters.newest().cloned().collect())),
        }
    }
}

fn find_counters(now: Timestamp, worker: &Worker, filter: &CounterFilter) -> FoundCounters {
    let mut matching = Vec::new();
    for (partition, assigned) in worker.assigned().filter(|(_, assigned)| assigned.counting().is_restored()) {
        let of_rule = |rule: &str| filter.rule.as_ref().is_none_or(|wanted| wanted == rule);
        let labelled = |label: &str| filter.label.as_ref().is_none_or(|wanted| label.contains(&**wanted));
        let counters = assigned.counting().counters();
        let counters = counters.filter(|counter| of_rule(&counter.rule) && labelled(&counter.label));
        matching.extend(counters.map(|counter| (counter.permille(now), partition, counter)));
    }
    let matched = matching.len();
    matching.sort_unstable_by(|a, b| b.0.cmp(&a.0).then_with(|| (&a.2.rule, a.2.id).cmp(&(&b.2.rule, b.2.id))));
    matching.truncate(filter.limit);
    let found = |(_, partition, counter): (u32, Partition, &CountedCounter)| FoundCounter {
        partition,
        counter: counter.clone(),
    };
    let counters = matching.into_iter().map(found).collect();
    let partitions = partition_statuses(worker).filter(|partition| partition.restored).collect();
    FoundCounters { now, matched, counters, partitions }
}

fn status(worker: &Worker, bus_error: Option<String>) -> AggregatorStatus {
    let membership = worker.membership();
    AggregatorStatus {
        settled: membership.is_none_or(Membership::is_settled),
        members: membership.map_or(1, Membership::members),
        peers: membership.map(|membership| membership.peer_addresses().cloned().collect()).unwrap_or_default(),
        partitions: partition_statuses(worker).collect(),
        unassigned: worker.unassigned(),
        bus_error,
    }
}

fn partition_statuses(worker: &Worker) -> impl Iterator<Item = PartitionStatus> {
    worker.assigned().map(|(partition, assigned)| PartitionStatus {
        partition,
        read: assigned.counting().read(),
        watermark: assigned.counting().watermark(),
        restored: assigned.counting().is_restored(),
        owned: assigned.is_owned(),
    })
}
