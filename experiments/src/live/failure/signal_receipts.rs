//! Receipts of signals at the agents: when each agent last heard of each partition.

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::Mutex;
use tollgate_core::clock::Clock;
use tollgate_core::counter::Partition;

/// Instants of the receipts at an agent, in ms since the epoch and in order, by agent and partition.
type Receipts = BTreeMap<(usize, Partition), Vec<u64>>;

/// Clones share the receipts.
#[derive(Clone)]
pub(super) struct SignalReceipts {
    clock: Arc<dyn Clock>,
    receipts: Arc<Mutex<Receipts>>,
}

impl SignalReceipts {
    pub(super) fn new(clock: Arc<dyn Clock>) -> Self {
        Self { clock, receipts: Arc::default() }
    }

    pub(super) fn received(&self, agent: usize, partition: Partition) {
        let now = self.clock.now().as_ms();
        self.receipts.lock().entry((agent, partition)).or_default().push(now);
    }

    /// Returns the instant from which each agent has a signal of each partition that is not older than `since_ms`; none
    /// if one never came.
    pub(super) fn all_after(&self, since_ms: u64) -> Option<u64> {
        let receipts = self.receipts.lock();
        let first = |instants: &Vec<u64>| instants.get(instants.partition_point(|at| *at < since_ms)).copied();
        receipts.values().map(first).try_fold(since_ms, |latest, at| Some(latest.max(at?)))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};

    use tollgate_core::clock::Timestamp;

    use super::*;

    struct SetClock(AtomicU64);

    impl Clock for SetClock {
        fn now(&self) -> Timestamp {
            Timestamp::from_ms(self.0.load(Ordering::Relaxed))
        }
    }

    #[test]
    fn the_last_partition_counts() {
        let clock = Arc::new(SetClock(AtomicU64::new(0)));
        let receipts = SignalReceipts::new(clock.clone());
        for (ms, agent, partition) in
            [(10, 0, 0), (12, 0, 1), (13, 1, 0), (20, 1, 1), (30, 0, 0), (31, 0, 1), (45, 1, 0)]
        {
            clock.0.store(ms, Ordering::Relaxed);
            receipts.received(agent, partition);
        }
        assert_eq!((receipts.all_after(0), receipts.all_after(11)), (Some(20), Some(30)));
        assert_eq!(receipts.all_after(21), None, "agent 1 has heard nothing of partition 1 since");
    }
}
