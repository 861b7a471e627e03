//! What comes in beside calls, and what goes out: signals, presence, reports, batches.

use std::time::Duration;

use tollgate_core::clock::Timestamp;
use tollgate_core::counter::Partition;
use tollgate_core::messages::calls::Batch;
use tollgate_core::messages::presence::{Presence, Role};
use tollgate_core::messages::signals::{Offset, SignalBatch};

use crate::engine::Engine;
use crate::view::{ViewEvent, update};

impl Engine {
    /// Hears a record of `signals` that was appended at this time, by the clock of the bus.
    pub fn receive_signals(&self, now: Timestamp, appended: Timestamp, batch: &SignalBatch, lags: &mut Vec<Duration>) {
        let span = self.store_time(now);
        if !self.signals.received(appended, batch) {
            return;
        }
        let active = self.rules.load();
        for signal in &batch.signals {
            let rule = active.set.rules.iter().find(|rule| rule.name == signal.rule);
            let Some(rule) = rule else { continue };
            let Some(policy) = rule.all_policies().find(|policy| policy.window == signal.admitted.window()) else {
                continue;
            };
            let counter = self
                .table
                .place(signal.counter, &rule.name, span.earliest, || self.settings.digest_key.overflow(&rule.name));
            if counter != signal.counter {
                continue;
            }
            let is_news = self.table.with(counter, |view| {
                let known = view.remote.as_ref().map(|remote| remote.newest_at);
                update(policy, view, ViewEvent::Signal { signal, log: batch.log, as_of: batch.as_of });
                known.is_none_or(|known| known < signal.newest_at)
            });
            if is_news {
                lags.push(Duration::from_millis(span.latest.ms_since(signal.newest_at)));
            }
        }
    }

    /// Hears a record of `presence`.
    pub fn receive_presence(&self, now: Timestamp, presence: &Presence) {
        self.fleet.presence(now, presence);
    }

    /// Hears how many agents show themselves in the store.
    pub fn receive_fleet_size(&self, now: Timestamp, agents: u32) {
        self.fleet.by_store(now, agents);
    }

    /// Hears that the bus cannot be used and why, or that it can.
    pub fn set_bus_error(&self, error: Option<String>) {
        *self.bus_error.lock() = error;
    }

    /// What is wrong with the bus.
    #[must_use]
    pub fn bus_error(&self) -> Option<String> {
        self.bus_error.lock().clone()
    }

    /// Records the fate of a batch of so many rows: its offset, or that it is lost.
    pub fn delivered(&self, partition: Partition, sequence: u64, offset: Option<Offset>, rows: usize) {
        if offset.is_none() {
            self.batcher.lost(rows);
        }
        self.signals.delivered(partition, sequence, offset);
    }

    /// Counts a record that could not be decoded.
    pub fn undecodable(&self) {
        self.metrics.undecodable_records.add(1);
    }

    /// Whether signals of every partition have been read long enough to be relied on.
    #[must_use]
    pub fn has_read_signals(&self) -> bool {
        self.signals.has_read_enough()
    }

    /// The next heartbeat.
    #[must_use]
    pub fn presence(&self, now: Timestamp, leaving: bool) -> Presence {
        Presence {
            id: self.settings.node.clone(),
            epoch: self.settings.epoch.as_ms(),
            region: self.settings.region.clone(),
            role: Role::Agent,
            generation: self.rules.load().set.generation,
            clock: now,
            open_breakers: if self.is_degraded() { vec!["store".into()] } else { Vec::new() },
            dropped_rows: self.batcher.dropped_rows(),
            leaving,
            http: "".into(),
            partitions: Vec::new(),
        }
    }

    /// When there will be batches for the bus.
    #[must_use]
    pub fn batches_due_at(&self) -> Timestamp {
        self.batcher.due_at()
    }

    /// The batches that the bus should get now.
    #[must_use]
    pub fn batches_due(&self, now: Timestamp) -> Vec<Batch> {
        self.batcher.due(now, self.complete_through(now))
    }

    /// All that is left, for the last time.
    #[must_use]
    pub fn batches_left(&self, now: Timestamp) -> Vec<Batch> {
        self.batcher.left(now, self.complete_through(now))
    }

    /// No later row is of an earlier time: what is asked of the store now will be decided within the longest deadline.
    fn complete_through(&self, now: Timestamp) -> Timestamp {
        let active = self.rules.load();
        let deadlines = active.set.rules.iter().flat_map(|rule| rule.all_policies()).map(|policy| policy.deadline);
        let longest = deadlines.max().unwrap_or_default();
        let in_flight_ms = u64::try_from(longest.as_millis()).unwrap_or(u64::MAX);
        self.store_time(now).earliest.minus_ms(in_flight_ms + 1)
    }

    /// Takes back a batch that the bus has no room for now.
    pub fn batch_refused(&self, batch: Batch) {
        if let Some((partition, sequence)) = self.batcher.refused(batch) {
            self.signals.delivered(partition, sequence, None);
        }
    }
}
