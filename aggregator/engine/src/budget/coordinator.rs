//! The coordinator: the aggregator of the home region that answers requests and ends grants.
//!
//! Two coordinators at once are harmless: the ledger voids what the second one repeats. An expiry is the only entry that depends on
//! time. Its writer waits a term and a window from the instant at which it *read* the last renewal, which is later than the asking
//! for it, on a clock that counts suspended time.

use std::collections::BTreeMap;

use tollgate_core::clock::Timestamp;
use tollgate_core::counter::CounterId;
use tollgate_core::messages::ledger::{EntryId, LedgerEntry, LedgerRecord, Terms};

use super::counter_budget::CounterBudget;
use super::division::divide;
use super::ledger::Ledger;

/// Maximum drift between two clocks, in millionths.
pub(crate) const DRIFT_PPM: u64 = 400;
/// Maximum time from the decision of a store's step to its end, in ms: the largest deadline of a global rule.
pub const DEADLINE_MS: u64 = 100;
/// Time after which a proposal that is not in the ledger is repeated, in ms.
const REPEATED_AFTER_MS: u64 = 2_000;

/// Answers requests for units and ends grants that nobody has renewed.
#[derive(Clone, Debug)]
pub struct Coordinator {
    writer: u64,
    sequence: u64,
    ledger: Ledger,
    /// Own times at which the last entries of grants and requests were read.
    read_at: BTreeMap<EntryId, Timestamp>,
    /// Own times of proposals, by the request or the last entry of the grant.
    proposed_at: BTreeMap<EntryId, Timestamp>,
}

impl Coordinator {
    /// Creates a coordinator that has read nothing. `writer` is a number that no other life of a process has.
    #[must_use]
    pub fn new(writer: u64) -> Self {
        let (read_at, proposed_at) = (BTreeMap::new(), BTreeMap::new());
        Self { writer, sequence: 0, ledger: Ledger::default(), read_at, proposed_at }
    }

    /// Returns the ledger as read.
    #[must_use]
    pub fn ledger(&self) -> &Ledger {
        &self.ledger
    }

    /// Reads the next record of the ledger. `now` is the time of a clock that counts suspended time.
    pub fn read(&mut self, now: Timestamp, record: &LedgerRecord) {
        let is_timed = matches!(
            record.entry,
            LedgerEntry::Terms(_) | LedgerEntry::Request(_) | LedgerEntry::Grant { .. } | LedgerEntry::Renewal { .. }
        );
        if self.ledger.apply(record).is_ok() && is_timed {
            self.read_at.insert(record.id, now);
        }
    }

    /// Returns the terms of a rule as the next entry, unless they are in force.
    pub fn propose_terms(&mut self, terms: &Terms) -> Option<LedgerRecord> {
        let is_new = self.ledger.terms(&terms.rule).is_none_or(|(_, known)| known.generation < terms.generation);
        is_new.then(|| self.entry(LedgerEntry::Terms(terms.clone())))
    }

    /// Returns the entries to append: grants, refusals of requests that nobody waits for any more, and expiries.
    pub fn tick(&mut self, now: Timestamp) -> Vec<LedgerRecord> {
        self.forget();
        let mut entries = Vec::new();
        for (counter, terms, budget) in self.ledger.counters() {
            for (about, entry) in self.answers(now, counter, terms, budget).chain(self.expiries(now, counter, budget)) {
                let proposed = self.proposed_at.get(&about);
                if proposed.is_none_or(|at| now.ms_since(*at) >= REPEATED_AFTER_MS) {
                    entries.push((about, entry));
                }
            }
        }
        entries
            .into_iter()
            .map(|(about, entry)| {
                self.proposed_at.insert(about, now);
                self.entry(entry)
            })
            .collect()
    }

    /// Returns the answers to the requests for a counter, each with its request.
    fn answers(
        &self,
        now: Timestamp,
        counter: CounterId,
        terms: &Terms,
        budget: &CounterBudget,
    ) -> impl Iterator<Item = (EntryId, LedgerEntry)> {
        let mut free = budget.free(terms.quota);
        let parts =
            if budget.pending().next().is_some() { divide(terms.quota, &budget.claims(terms)) } else { Vec::new() };
        budget.pending().filter_map(move |(region, request)| {
            let is_stale = self.read_at.get(&request).is_none_or(|at| now.ms_since(*at) >= terms.term_ms);
            let place = terms.floors.iter().position(|(name, _)| name == region);
            let part = place.map_or(0, |place| parts[place]);
            let units = if is_stale { 0 } else { part.saturating_sub(budget.held(region)).min(free) };
            free -= units;
            (units > 0 || is_stale).then_some((request, LedgerEntry::Grant { counter, request, units }))
        })
    }

    /// Returns the expiries of a counter's grants, each with the last entry of its grant.
    fn expiries(
        &self,
        now: Timestamp,
        counter: CounterId,
        budget: &CounterBudget,
    ) -> impl Iterator<Item = (EntryId, LedgerEntry)> {
        budget.grants().iter().filter_map(move |grant| {
            let waited_ms = now.ms_since(*self.read_at.get(&grant.last)?);
            let (grant_id, last) = (grant.id, grant.last);
            let is_over = waited_ms >= expires_after_ms(grant.term_ms, grant.window_ms);
            is_over.then_some((last, LedgerEntry::Expiry { counter, grant: grant_id, last }))
        })
    }

    /// Forgets the times of entries that are neither the last one of a grant nor a request without an answer.
    fn forget(&mut self) {
        let known = self.ledger.counters().map(|(_, _, budget)| budget.grants().len() + 1).sum::<usize>();
        if self.read_at.len() <= 64 + 4 * known {
            return;
        }
        let budgets = || self.ledger.counters().map(|(_, _, budget)| budget);
        let last = budgets().flat_map(|budget| budget.grants().iter().map(|grant| grant.last));
        let waiting = budgets().flat_map(|budget| budget.pending().map(|(_, request)| request));
        let kept: std::collections::BTreeSet<EntryId> = last.chain(waiting).collect();
        self.read_at.retain(|id, _| kept.contains(id));
        self.proposed_at.retain(|id, _| kept.contains(id));
    }

    fn entry(&mut self, entry: LedgerEntry) -> LedgerRecord {
        self.sequence += 1;
        LedgerRecord { id: EntryId { writer: self.writer, sequence: self.sequence }, entry }
    }
}

/// Returns the time from the reading of a grant's last renewal to its expiry, in ms: its term, a window, and the margin.
#[must_use]
pub fn expires_after_ms(term_ms: u64, window_ms: u64) -> u64 {
    let held_ms = term_ms.saturating_add(window_ms);
    held_ms.saturating_add(held_ms.saturating_mul(DRIFT_PPM).div_ceil(1_000_000)).saturating_add(DEADLINE_MS)
}

#[cfg(test)]
mod tests {
    use tollgate_core::messages::ledger::BudgetRequest;

    use super::*;

    const X: CounterId = CounterId::from_u128(1);

    #[test]
    fn a_grant_expires_after_its_term_a_window_and_a_margin() {
        for (term_ms, window_ms, expected) in [
            (0, 0, 100),
            (12_000, 10_000, 22_109),
            (1, 0, 102),
            (u64::MAX, 1, u64::MAX),
            (60_000, 3_600_000, 3_661_564),
        ] {
            assert_eq!(expires_after_ms(term_ms, window_ms), expected);
        }
    }

    fn asked(sequence: u64) -> EntryId {
        EntryId { writer: 5, sequence }
    }

    fn ms(ms: u64) -> Timestamp {
        Timestamp::from_ms(ms)
    }

    /// Returns a coordinator that has read the terms and a request at the instant 0.
    fn coordinator() -> Coordinator {
        let mut coordinator = Coordinator::new(9);
        let (window_ms, term_ms, key_fingerprint) = (10_000, 12_000, 42);
        let floors = vec![("a".into(), 0), ("b".into(), 0)];
        let terms =
            Terms { rule: "rule".into(), generation: 1, quota: 60, window_ms, term_ms, key_fingerprint, floors };
        let record = coordinator.propose_terms(&terms).expect("the terms are new");
        coordinator.read(ms(0), &record);
        assert_eq!(coordinator.propose_terms(&terms), None);
        let request = BudgetRequest { terms: record.id, counter: X, region: "a".into(), wants: 40 };
        coordinator.read(ms(0), &LedgerRecord { id: asked(1), entry: LedgerEntry::Request(request) });
        coordinator
    }

    #[test]
    fn a_request_is_answered_and_its_answer_repeated() {
        let mut coordinator = coordinator();
        let grant = |units| LedgerEntry::Grant { counter: X, request: asked(1), units };
        let entries = |records: Vec<LedgerRecord>| records.into_iter().map(|record| record.entry).collect::<Vec<_>>();
        assert_eq!(entries(coordinator.tick(ms(0))), [grant(40)]);
        assert_eq!(entries(coordinator.tick(ms(1_999))), [], "the grant is on its way");
        assert_eq!(entries(coordinator.tick(ms(2_000))), [grant(40)], "the grant may be lost");
        assert_eq!(entries(coordinator.tick(ms(12_000))), [grant(0)], "nobody waits for the answer any more");
    }

    /// Units are admitted in the longer window from then on, whatever the holder renews.
    #[test]
    fn a_grant_expires_after_the_window_of_later_terms() {
        let mut coordinator = coordinator();
        let grant = coordinator.tick(ms(0)).pop().expect("a grant");
        coordinator.read(ms(1_000), &grant);
        let (_, terms) = coordinator.ledger().terms("rule").expect("terms");
        let longer = Terms { generation: 2, window_ms: 20_000, term_ms: 24_000, ..terms.clone() };
        let record = coordinator.propose_terms(&longer).expect("the terms are newer");
        coordinator.read(ms(5_000), &record);
        assert_eq!(coordinator.tick(ms(5_000 + 32_112)), []);
        let expiry = coordinator.tick(ms(5_000 + 32_113)).pop().expect("an expiry");
        assert_eq!(expiry.entry, LedgerEntry::Expiry { counter: X, grant: grant.id, last: record.id });
        coordinator.read(ms(40_000), &expiry);
        assert_eq!(coordinator.ledger().counters().count(), 0);
    }

    /// It waits from the instant at which it has read the last renewal.
    #[test]
    fn a_grant_expires_if_no_renewal_is_read() {
        let mut coordinator = coordinator();
        let grant = coordinator.tick(ms(0)).pop().expect("a grant");
        coordinator.read(ms(1_000), &grant);
        let renewal = LedgerEntry::Renewal { counter: X, grant: grant.id, wants: 40 };
        coordinator.read(ms(20_000), &LedgerRecord { id: asked(2), entry: renewal });
        assert_eq!(coordinator.tick(ms(20_000 + 22_108)), []);
        let expiry = coordinator.tick(ms(20_000 + 22_109)).pop().expect("an expiry");
        assert_eq!(expiry.entry, LedgerEntry::Expiry { counter: X, grant: grant.id, last: asked(2) });
        coordinator.read(ms(43_000), &expiry);
        assert_eq!((coordinator.ledger().counters().count(), coordinator.tick(ms(90_000))), (0, Vec::new()));
    }
}
