//! Living with other aggregators on one bus: each shows itself, and hears who is there.

use std::time::Duration;

use tollgate_bus::{Bus, LogReader, LogWriter, ReadFrom, Topic};
use tollgate_core::clock::Timestamp;
use tollgate_core::counter::Partition;
use tollgate_core::messages::presence::{Presence, Role};
use tollgate_wire::Record;

use super::Settings;
use crate::ownership::{HEARTBEAT_MS, Ownership};

const RECORDS_MAX: usize = 1_000;
/// How long a goodbye may take on its way.
const FLUSH_WAIT: Duration = Duration::from_secs(2);

pub(super) struct Others<B: Bus> {
    settings: Settings,
    log: B::Writer,
    reader: B::Reader,
    ownership: Ownership,
    shown_at: Timestamp,
}

impl<B: Bus> Others<B> {
    pub(super) fn new(bus: &B, settings: &Settings) -> Self {
        Self {
            log: bus.writer(Topic::Presence),
            reader: bus.reader(Topic::Presence, &[0], ReadFrom::Next),
            ownership: Ownership::new((settings.id.clone(), settings.epoch.as_ms())),
            shown_at: Timestamp::default(),
            settings: settings.clone(),
        }
    }

    pub(super) fn ownership(&self) -> &Ownership {
        &self.ownership
    }

    /// Shows itself when that is due, with the partitions that are its own and restored, and hears who is there.
    pub(super) fn meet(&mut self, now: Timestamp, own: Vec<Partition>, leaving: bool) {
        if leaving || now.ms_since(self.shown_at) >= HEARTBEAT_MS {
            self.shown_at = now;
            // One that finds no room is followed by the next.
            let _ = self.log.append(0, self.presence(now, own, leaving).encode(), 0);
            self.log.reports();
        }
        let before = self.ownership.members();
        for record in self.reader.poll(Duration::ZERO, RECORDS_MAX) {
            // What cannot be read is no sign of an aggregator that this one could share with.
            if let Ok(presence) = Presence::decode(&record.payload) {
                self.ownership.heard(&presence, record.appended);
            }
        }
        let members = self.ownership.members();
        if members != before {
            tracing::info!(aggregator = %self.settings.id, members, "aggregators came or went");
        }
        if leaving {
            self.log.flush(FLUSH_WAIT);
        }
    }

    fn presence(&self, now: Timestamp, own: Vec<Partition>, leaving: bool) -> Presence {
        Presence {
            id: self.settings.id.clone(),
            epoch: self.settings.epoch.as_ms(),
            region: self.settings.region.clone(),
            role: Role::Aggregator,
            generation: 0,
            clock: now,
            open_breakers: Vec::new(),
            dropped_rows: 0,
            leaving,
            http: self.settings.http.clone(),
            partitions: if leaving { Vec::new() } else { own },
        }
    }
}
