//! Double of a bus whose topics are created again, and whose cluster does not answer.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use tollgate_bus::embedded::EmbeddedBus;
use tollgate_bus::{Bus, BusError, ReadFrom, Topic};
use tollgate_core::counter::Partition;
use tollgate_core::messages::signals::{LogId, Offset};

/// Time between two looks of a question that waits.
const LOOK: Duration = Duration::from_millis(10);

/// Bus whose topics get another identity by hand, and which answers the question for it by hand.
#[derive(Clone)]
pub(super) struct RenamedBus {
    bus: EmbeddedBus,
    log: Arc<AtomicU64>,
    is_silent: Arc<AtomicBool>,
    /// Number of questions that have waited for an answer.
    waited: Arc<AtomicU64>,
}

/// Time in which a bus tells no identity; dropping it ends that time.
pub(super) struct Silence(Arc<AtomicBool>);

impl RenamedBus {
    pub(super) fn new(bus: &EmbeddedBus, log: u64) -> Self {
        let (is_silent, waited) = Default::default();
        Self { bus: bus.clone(), log: Arc::new(AtomicU64::new(log)), is_silent, waited }
    }

    pub(super) fn recreate(&self) {
        self.log.fetch_add(100, Ordering::Relaxed);
    }

    pub(super) fn silence(&self) -> Silence {
        self.is_silent.store(true, Ordering::Relaxed);
        Silence(self.is_silent.clone())
    }

    pub(super) fn waited(&self) -> u64 {
        self.waited.load(Ordering::Relaxed)
    }
}

impl Drop for Silence {
    fn drop(&mut self) {
        self.0.store(false, Ordering::Relaxed);
    }
}

impl Bus for RenamedBus {
    type Writer = <EmbeddedBus as Bus>::Writer;
    type Reader = <EmbeddedBus as Bus>::Reader;

    fn prepare(&self, wait: Duration) -> Result<(), BusError> {
        self.bus.prepare(wait)
    }

    fn partitions(&self, topic: Topic) -> u32 {
        self.bus.partitions(topic)
    }

    fn log_id(&self, _: Topic) -> LogId {
        let is_silent = || self.is_silent.load(Ordering::Relaxed);
        self.waited.fetch_add(is_silent().into(), Ordering::Relaxed);
        while is_silent() {
            std::thread::park_timeout(LOOK);
        }
        self.log.load(Ordering::Relaxed)
    }

    fn writer(&self, topic: Topic) -> Self::Writer {
        self.bus.writer(topic)
    }

    fn reader(&self, topic: Topic, partitions: &[Partition], from: ReadFrom) -> Self::Reader {
        self.bus.reader(topic, partitions, from)
    }

    fn next_offset(&self, topic: Topic, partition: Partition) -> Option<Offset> {
        self.bus.next_offset(topic, partition)
    }
}
