//! What comes in beside calls, and what goes out: signals, presence, reports, batches.

use std::time::Duration;

use tollgate_bus::DeliveryReport;
use tollgate_core::clock::Timestamp;
use tollgate_core::messages::presence::{Presence, Role};
use tollgate_core::messages::signals::SignalBatch;

use super::Limiter;
use crate::enforce::{News, learn};
use crate::outbox::Outgoing;

impl Limiter {
    /// Hears a record of `signals` that was appended at this time, by the clock of the bus.
    pub fn hear_signals(&self, now: Timestamp, appended: Timestamp, batch: &SignalBatch) {
        let span = self.store_time(now);
        if !self.inbox.signals(appended, batch) {
            return;
        }
        let loaded = self.rules.load();
        for signal in &batch.signals {
            let rule = loaded.set.rules.iter().find(|rule| rule.name == signal.rule);
            let Some(rule) = rule else { continue };
            let Some(policy) = rule.all_policies().find(|policy| policy.window == signal.admitted.window()) else {
                continue;
            };
            let counter =
                self.seen.place(signal.counter, &rule.name, span.lo, || self.settings.digest_key.overflow(&rule.name));
            if counter != signal.counter {
                continue;
            }
            let is_news = self.seen.with(counter, |seen| {
                let known = seen.signal.as_ref().map(|told| told.newest_at);
                learn(policy, seen, News::Signal { signal, log: batch.log, as_of: batch.as_of });
                known.is_none_or(|known| known < signal.newest_at)
            });
            if is_news {
                let lag_ms = span.hi.ms_since(signal.newest_at);
                self.metrics.signal_lag.observe(Duration::from_millis(lag_ms).as_secs_f64());
            }
        }
    }

    /// Hears a record of `presence`.
    pub fn hear_presence(&self, now: Timestamp, presence: &Presence) {
        self.inbox.presence(now, presence);
    }

    /// Hears how many agents show themselves in the store.
    pub fn hear_fleet_in_store(&self, now: Timestamp, agents: u32) {
        self.inbox.fleet_in_store(now, agents);
    }

    /// Hears that the bus cannot be used and why, or that it can.
    pub fn hear_of_bus(&self, error: Option<String>) {
        *self.bus_error.lock() = error;
    }

    /// What is wrong with the bus.
    #[must_use]
    pub fn bus_error(&self) -> Option<String> {
        self.bus_error.lock().clone()
    }

    /// Hears what became of a batch of so many rows.
    pub fn hear_report(&self, report: &DeliveryReport, rows: usize) {
        if report.offset.is_none() {
            self.outbox.lost(rows);
        }
        self.inbox.report(report);
    }

    /// Counts a record that could not be read.
    pub fn hear_noise(&self) {
        self.metrics.unreadable.inc();
    }

    /// Whether signals of every partition have been read long enough to be relied on.
    #[must_use]
    pub fn has_read_signals(&self) -> bool {
        self.inbox.has_read_enough()
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
            dropped_rows: self.outbox.dropped_rows(),
            leaving,
            http: "".into(),
            partitions: Vec::new(),
        }
    }

    /// When there will be batches for the bus.
    #[must_use]
    pub fn batches_due_at(&self) -> Timestamp {
        self.outbox.due_at()
    }

    /// The batches that the bus should get now.
    #[must_use]
    pub fn batches_due(&self, now: Timestamp) -> Vec<Outgoing> {
        self.outbox.due(now, self.complete_through(now))
    }

    /// All that is left, for the last time.
    #[must_use]
    pub fn batches_left(&self, now: Timestamp) -> Vec<Outgoing> {
        self.outbox.left(now, self.complete_through(now))
    }

    /// No later row is of an earlier time: what is asked of the store now will be decided within the longest deadline.
    fn complete_through(&self, now: Timestamp) -> Timestamp {
        let loaded = self.rules.load();
        let deadlines = loaded.set.rules.iter().flat_map(|rule| rule.all_policies()).map(|policy| policy.deadline);
        let longest = deadlines.max().unwrap_or_default();
        let in_flight_ms = u64::try_from(longest.as_millis()).unwrap_or(u64::MAX);
        self.store_time(now).lo.minus_ms(in_flight_ms + 1)
    }

    /// Takes back a batch that the bus has no room for now.
    pub fn batch_refused(&self, batch: Outgoing) {
        if let Some((partition, sequence)) = self.outbox.refused(batch) {
            self.inbox.report(&DeliveryReport { partition, tag: sequence, offset: None });
        }
    }
}
