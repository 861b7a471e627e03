//! The view of the whole fleet: a thread that reads the rollups of all aggregators and answers questions about them.
//!
//! It has readers of its own, so that neither the history that is read at the start nor a question delays counting. No aggregator
//! asks another one.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::SyncSender;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::task::spawn_blocking;
use tollgate_aggregator_engine::analytics::{FleetView, MINUTES_KEPT_MS, SECONDS_KEPT_MS};
use tollgate_aggregator_engine::worker::DeadLetter;
use tollgate_bus::{Bus, BusRecord, LogReader, ReadFrom, Topic};
use tollgate_core::clock::{Clock, Timestamp};
use tollgate_core::counter::DigestKey;
use tollgate_core::log_throttle::LogThrottle;
use tollgate_core::messages::rollups::RollupBatch;
use tollgate_wire::Record;

use crate::fault::FaultState;
use crate::queries::AskError;
use crate::rules_reader::RulesReader;

/// Time for which a poll waits for records. Pages are a second behind in any case.
const WAIT: Duration = Duration::from_millis(200);
/// Maximum number of records that one poll takes.
const RECORDS_MAX: usize = 500;

/// A record of `rollups` or `live` that was passed over, with its bytes.
pub(crate) type PassedOver = (DeadLetter, Option<u64>, Vec<u8>);

/// A handle for questions about the whole fleet; clones share one view.
#[derive(Clone)]
pub struct Analytics {
    view: Arc<Mutex<FleetView>>,
    /// Held while an answer is made.
    turn: Arc<tokio::sync::Mutex<()>>,
    /// Key of the digests of callers.
    pub(crate) key: DigestKey,
    is_loaded: Arc<AtomicBool>,
    /// State of the topics of analytics.
    pub(crate) bus_state: FaultState,
    /// Rules whose texts are shown.
    pub(crate) rules: RulesReader,
    clock: Arc<dyn Clock>,
}

impl Analytics {
    pub(crate) fn new(clock: Arc<dyn Clock>) -> Self {
        let key = DigestKey::default();
        Self {
            view: Arc::default(),
            turn: Arc::default(),
            key,
            is_loaded: Arc::default(),
            bus_state: FaultState::default(),
            rules: RulesReader::default(),
            clock,
        }
    }

    /// Sets the key by which agents digest callers. The default is the public one.
    #[must_use]
    pub fn digested_by(self, key: &DigestKey) -> Self {
        Self { key: key.clone(), ..self }
    }

    /// Shows the texts of these rules. The default is none: the calls tell names, quotas and windows only.
    #[must_use]
    pub fn with_rules(self, rules: RulesReader) -> Self {
        Self { rules, ..self }
    }

    /// Returns the answer of a function to the view, and the time. An answer may take milliseconds, so it is made on a thread for such
    /// work, one at a time: decisions on calls, which share the process under `tollgate up`, do not wait for it.
    ///
    /// # Errors
    /// If the function panics, or the process is about to end.
    pub(crate) async fn ask<T: Send + 'static>(
        &self,
        answer: impl FnOnce(&FleetView, Timestamp) -> T + Send + 'static,
    ) -> Result<T, AskError> {
        let (turn, view, clock) = (self.turn.clone().lock_owned().await, self.view.clone(), self.clock.clone());
        let answered = spawn_blocking(move || {
            let _turn = turn;
            answer(&view.lock(), clock.now())
        });
        answered.await.map_err(|error| if error.is_panic() { AskError::ViewFailed } else { AskError::Ending })
    }

    /// Returns true once the minutes of the last day were read.
    pub(crate) fn is_loaded(&self) -> bool {
        self.is_loaded.load(Ordering::Relaxed)
    }

    /// Reads rollups until `stop` is set. Records that are passed over go to `passed_over`, as far as there is room.
    pub(crate) fn run<B: Bus>(&self, bus: &B, stop: &AtomicBool, passed_over: &SyncSender<PassedOver>) {
        let since = |kept_ms| ReadFrom::Time(self.clock.now().minus_ms(kept_ms));
        let mut readers = [(Topic::Rollups, MINUTES_KEPT_MS), (Topic::Live, SECONDS_KEPT_MS)]
            .map(|(topic, kept_ms)| (topic, bus.reader(topic, &[0], since(kept_ms)), LogThrottle::default()));
        let mut load_to = None;
        while !stop.load(Ordering::Relaxed) {
            for (topic, reader, dead_letters) in &mut readers {
                for record in reader.poll(WAIT, RECORDS_MAX) {
                    self.apply(*topic, &record, dead_letters, passed_over, bus);
                }
            }
            if !self.is_loaded() {
                load_to = load_to.or_else(|| bus.next_offset(Topic::Rollups, 0));
                let is_read = |end| readers[0].1.next(0).is_some_and(|next| next >= end);
                self.is_loaded.store(load_to.is_some_and(is_read), Ordering::Relaxed);
            }
        }
    }

    fn apply<B: Bus>(
        &self,
        topic: Topic,
        record: &BusRecord,
        dead_letters: &mut LogThrottle,
        passed_over: &SyncSender<PassedOver>,
        bus: &B,
    ) {
        let now = self.clock.now();
        let batch = RollupBatch::decode(&record.payload).map_err(|error| error.to_string());
        let applied = batch.and_then(|batch| {
            let partitions = bus.partitions(Topic::Calls);
            if batch.partition >= partitions {
                return Err(format!("`calls` has {partitions} partitions, and the record is of {}", batch.partition));
            }
            let written = (topic == Topic::Rollups).then_some(record.appended);
            self.view.lock().apply(now, written, &batch)
        });
        if let Err(reason) = applied {
            let BusRecord { partition, offset, appended, ref payload } = *record;
            let letter = DeadLetter { topic, partition, offset, appended, reason };
            // Without room, it is one of many.
            let _ = passed_over.try_send((letter, dead_letters.count(now), payload.clone()));
        }
    }
}
