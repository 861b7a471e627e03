//! The ledger as a log: records on their way to the home cluster, and from there to the mirrors.

use tollgate_core::messages::ledger::{LedgerEntry, LedgerRecord};

use super::event::{Event, LedgerMember};
use super::state::{CHECKED_ALWAYS_MAX, REPEATED_LEN_MAX, RegionsWorld, digest, rule_name};
use crate::regions::mistake::RegionMistake;

/// Time by which entries and limits are late by mistake, in ms: a region would take a request that was lost for one that waits.
pub(super) const LATE_MS: u64 = 3_000;

impl RegionsWorld {
    /// Sends a record to the home cluster.
    pub(super) fn send(&mut self, member: LedgerMember, record: LedgerRecord) {
        let from_ms = self.suspended_until(member);
        let link = match member {
            LedgerMember::Region(region, _) => self.regions[region].settings.link.clone(),
            LedgerMember::Coordinator(_) => self.regions[0].settings.link.clone(),
        };
        let is_calm = self.now_ms >= self.settings.calm_from_ms;
        let is_lost = !is_calm && self.rng.u64(0..1_000) < link.lost_permille;
        let is_doubled = !is_calm && self.rng.u64(0..1_000) < link.doubled_permille;
        let is_request = matches!(record.entry, LedgerEntry::Request(_));
        let gives_up = self.mistake == Some(RegionMistake::NeverAsksAgain) && is_request;
        let Some(process) = self.process_mut(member) else { return };
        process.has_lost_request |= is_request && link.is_cut(from_ms);
        if is_lost || link.is_cut(from_ms) || gives_up && process.has_lost_request {
            return;
        }
        let is_late =
            self.mistake == Some(RegionMistake::GrantLate) && matches!(record.entry, LedgerEntry::Grant { .. });
        let from_ms = from_ms + if is_late { LATE_MS } else { 0 };
        let jitter_ms = if is_calm { 0 } else { self.rng.u64(0..=link.jitter_ms) };
        let Some(process) = self.process_mut(member) else { return };
        let at_ms = (from_ms + link.delay_ms + jitter_ms).max(process.arrives_after_ms);
        process.arrives_after_ms = at_ms;
        if is_doubled {
            let again_ms = at_ms + jitter_ms;
            self.queue.push(again_ms, Event::Appended(record.clone()));
        }
        self.queue.push(at_ms, Event::Appended(record));
    }

    pub(super) fn append(&mut self, mut record: LedgerRecord) {
        if self.mistake == Some(RegionMistake::RenewalOverlooked)
            && let LedgerEntry::Expiry { counter, grant, last } = &mut record.entry
        {
            let current = self.truth.budget(&rule_name(&self.settings), *counter);
            let held =
                current.and_then(|budget| budget.grants().iter().find(|held| held.id == *grant).map(|held| held.last));
            *last = held.unwrap_or(*last);
        }
        if self.mistake == Some(RegionMistake::GrantNotFree)
            && let LedgerEntry::Terms(terms) = &mut record.entry
        {
            terms.quota *= 2;
        }
        let len = self.truth.len();
        self.outcome.void += u64::from(self.truth.apply(&record).is_err());
        self.check_held(&record.entry);
        if let (LedgerEntry::Terms(_), Some(window_ms)) =
            (&record.entry, self.terms_in_force().map(|terms| terms.window_ms))
        {
            self.regions.iter_mut().for_each(|region| region.store.shorten(window_ms));
        }
        if self.truth.len() > len && self.settings.counters <= CHECKED_ALWAYS_MAX {
            self.digests.push(digest(&self.truth));
        }
        let place = self.outcome.ledger.len();
        self.outcome.ledger.push((self.now_ms, record));
        let is_calm = self.now_ms >= self.settings.calm_from_ms;
        for number in 0..self.coordinators.len() {
            let link = &self.regions[0].settings.link;
            let jitter_ms = if is_calm { 0 } else { self.rng.u64(0..=link.jitter_ms) };
            let arrivals = &mut self.arrivals[number];
            let at_ms = link.connected_from(self.now_ms + jitter_ms).max(arrivals.last().copied().unwrap_or(0));
            arrivals.push(at_ms);
            self.queue.push(at_ms, Event::Resume(LedgerMember::Coordinator(number)));
        }
        for region in 0..self.regions.len() {
            let link = &self.regions[region].settings.link;
            let jitter_ms = if is_calm { 0 } else { self.rng.u64(0..=link.jitter_ms) };
            let at_ms = link.connected_from(self.now_ms + link.delay_ms + jitter_ms);
            let at_ms = at_ms.max(self.regions[region].mirrored_ms);
            self.regions[region].mirrored_ms = at_ms;
            self.queue.push(at_ms, Event::Mirrored { region, place });
        }
    }

    /// Adds the record at a place of the ledger to the mirror of a region.
    pub(super) fn mirror(&mut self, region: usize, place: usize) {
        let is_calm = self.now_ms >= self.settings.calm_from_ms;
        let draw = self.rng.u64(0..1_000);
        let swaps = self.mistake == Some(RegionMistake::MirrorOutOfOrder) && self.rng.u64(0..4) == 0;
        let repeated = self.rng.usize(1..=REPEATED_LEN_MAX);
        let region = &mut self.regions[region];
        region.mirror.push(place);
        let len = region.mirror.len();
        let is_read = region.processes.iter().any(|process| process.read + 1 >= len);
        if swaps && len >= 2 && !is_read {
            region.mirror.swap(len - 1, len - 2);
        }
        if !is_calm && draw < region.settings.link.repeated_permille {
            region.mirror.extend_from_within(len.saturating_sub(repeated)..);
        }
    }
}
