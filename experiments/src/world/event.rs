//! What can happen, and when.

use std::cmp::Ordering;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use tollgate::store::StoreError;
use tollgate_bus::DeliveryReport;
use tollgate_core::clock::{Clock, Timestamp};
use tollgate_core::counter::Charge;
use tollgate_core::counter::ChargeResults;
use tollgate_core::counter::Partition;
use tollgate_core::messages::calls::Batch;

/// The number of a call that waits for the store.
pub(super) type Ticket = u64;

/// A clock that says what the world tells it.
#[derive(Debug)]
pub struct VirtualClock(AtomicU64);

/// Something that happens.
#[derive(Debug)]
pub(super) enum Event {
    /// The store reads a question.
    StoreReads { ticket: Ticket, takes: Vec<Charge> },
    /// Its answer arrives.
    StoreReplies { ticket: Ticket, answer: Result<ChargeResults, StoreError> },
    /// A call waits no longer.
    Deadline { ticket: Ticket },
    /// An agent's writer wakes.
    Wake { agent: usize },
    /// An agent in debt looks whether the store is back.
    Probe { agent: usize },
    /// A batch reaches the bus.
    Append { agent: usize, batch: Batch },
    /// The bus says what became of a batch.
    Report { agent: usize, report: DeliveryReport },
    /// The aggregator looks at a partition; `again` and again.
    Count { partition: Partition, again: bool },
    /// A signal reaches an agent.
    Hear { agent: usize, appended: Timestamp, payload: Vec<u8> },
    /// A heartbeat reaches an agent.
    Meet { agent: usize, payload: Vec<u8> },
}

/// An event and its time. Of two at the same time, the one that was scheduled first comes first.
#[derive(Debug)]
pub(super) struct Scheduled {
    pub(super) at: Timestamp,
    pub(super) order: u64,
    pub(super) event: Event,
}

impl VirtualClock {
    pub(super) fn at(now: Timestamp) -> Self {
        Self(AtomicU64::new(now.as_ms()))
    }

    pub(super) fn set(&self, now: Timestamp) {
        self.0.store(now.as_ms(), Relaxed);
    }

    pub(super) fn now_ms(&self) -> Timestamp {
        Timestamp::from_ms(self.0.load(Relaxed))
    }
}

impl Clock for VirtualClock {
    fn now(&self) -> Timestamp {
        self.now_ms()
    }
}

impl Ord for Scheduled {
    fn cmp(&self, other: &Self) -> Ordering {
        (self.at, self.order).cmp(&(other.at, other.order))
    }
}

impl PartialOrd for Scheduled {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Scheduled {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Scheduled {}
