//! The ledger as one aggregator reads and appends it.
//!
//! Entries go to the home cluster; records come from there or from a mirror. An entry that is not acknowledged soon keeps further
//! ones from being enqueued: they would reach the ledger long after their writer has given up on them. The engines repeat what is
//! missing.

use std::collections::BTreeMap;
use std::time::Duration;

use tollgate_bus::{Bus, BusRecord, DeliveryReport, LogReader, LogWriter, ReadFrom, Topic};
use tollgate_core::clock::Timestamp;
use tollgate_core::messages::ledger::LedgerRecord;
use tollgate_core::messages::signals::{LogId, Offset};
use tollgate_wire::Record;

use super::home_buses::HomeBuses;
use super::ledger_identities::LedgerIdentities;

/// Maximum number of records that one poll takes.
const RECORDS_MAX: usize = 1_000;
/// Time after which an entry without an acknowledgement stops further ones, in ms.
const UNREPORTED_MS_MAX: u64 = 1_000;
/// Maximum number of entries without an acknowledgement.
const UNREPORTED_LEN_MAX: usize = 10_000;
/// Interval at which the end of the ledger is asked for until it is known, in ms.
const ASK_MS: u64 = 1_000;

pub(super) struct LedgerLink<B: Bus> {
    source: B,
    reader: B::Reader,
    writer: B::Writer,
    last_tag: u64,
    /// Times of entries that are not acknowledged, by their tags.
    unreported: BTreeMap<u64, Timestamp>,
    /// End of the ledger as it was when reading began.
    end: Option<Offset>,
    is_complete: bool,
    identities: LedgerIdentities,
    /// Known identities of the topic that is read, and of the ledger at home, if that topic is a mirror of it.
    log: LogId,
    home_log: LogId,
    /// True if the mirror has entries of two ledgers.
    is_mixed: bool,
    asked_at: Option<Timestamp>,
}

impl<B: Bus> LedgerLink<B> {
    /// Reads from the oldest record on, and appends to the home cluster.
    pub(super) fn open(buses: &HomeBuses<B>, identities: LedgerIdentities) -> Self {
        let source = buses.source().clone();
        let reader = source.reader(Topic::Ledger, &[0], ReadFrom::Oldest);
        Self {
            reader,
            writer: buses.home.writer(Topic::Ledger),
            source,
            last_tag: 0,
            unreported: BTreeMap::new(),
            end: None,
            is_complete: false,
            identities,
            log: 0,
            home_log: 0,
            is_mixed: false,
            asked_at: None,
        }
    }

    pub(super) fn poll(&mut self, wait: Duration) -> Vec<BusRecord> {
        self.reader.poll(wait, RECORDS_MAX)
    }

    /// Appends an entry. Returns false if the ledger takes none at present.
    pub(super) fn append(&mut self, now: Timestamp, record: &LedgerRecord) -> bool {
        self.take_reports();
        let is_stuck = self.unreported.values().next().is_some_and(|since| now.ms_since(*since) >= UNREPORTED_MS_MAX);
        if is_stuck || self.unreported.len() >= UNREPORTED_LEN_MAX {
            return false;
        }
        self.last_tag += 1;
        let is_enqueued = self.writer.append(0, record.encode(), self.last_tag).is_ok();
        if is_enqueued {
            self.unreported.insert(self.last_tag, now);
        }
        is_enqueued
    }

    /// Returns true once everything is read that was in the ledger when reading began. Asks the bus until then.
    pub(super) fn is_complete(&mut self, now: Timestamp) -> bool {
        if !self.is_complete && self.end.is_none() && self.may_ask(now) {
            self.end = self.source.next_offset(Topic::Ledger, 0);
            self.log = self.source.log_id(Topic::Ledger);
        }
        self.is_complete |= self.end.is_some_and(|end| self.position().is_some_and(|next| next >= end));
        self.is_complete
    }

    /// Returns true if the ledger is another one than that which was read: its topic was deleted and created again.
    pub(super) fn is_recreated(&mut self) -> bool {
        let Some(found) = self.identities.take().filter(|_| self.is_complete) else { return false };
        let is_recreated = has_changed(&mut self.log, found.source);
        // A mirror goes on in one topic with the entries of the ledger that is now at home.
        self.is_mixed |= has_changed(&mut self.home_log, found.home);
        self.is_mixed &= !is_recreated;
        is_recreated
    }

    pub(super) const fn is_mixed(&self) -> bool {
        self.is_mixed
    }

    /// Returns true if the ledger is read to its end and is what the other regions read.
    pub(super) fn may_act(&mut self, now: Timestamp) -> bool {
        self.is_complete(now) && !self.has_lost_records() && !self.is_mixed
    }

    /// Begins again with the oldest record.
    pub(super) fn begin_again(&mut self) {
        self.reader.add(0, ReadFrom::Oldest);
        (self.end, self.is_complete, self.log) = (None, false, 0);
    }

    pub(super) fn position(&self) -> Option<Offset> {
        self.reader.next(0)
    }

    /// Returns true if the ledger has lost records that were not read.
    pub(super) fn has_lost_records(&self) -> bool {
        self.reader.missed() > 0
    }

    /// Waits for the acknowledgements of all entries, at most `wait`.
    pub(super) fn flush(&mut self, wait: Duration) {
        self.writer.flush(wait);
    }

    fn take_reports(&mut self) {
        for DeliveryReport { tag, .. } in self.writer.reports() {
            self.unreported.remove(&tag);
        }
    }

    fn may_ask(&mut self, now: Timestamp) -> bool {
        let is_due = self.asked_at.is_none_or(|at| now.ms_since(at) >= ASK_MS);
        if is_due {
            self.asked_at = Some(now);
        }
        is_due
    }
}

/// Takes the identity of a log, or 0 while it is unknown. Returns true if it is another one than that which was known.
fn has_changed(known: &mut LogId, found: LogId) -> bool {
    let is_other = found != 0 && *known != 0 && found != *known;
    if found != 0 {
        *known = found;
    }
    is_other
}
