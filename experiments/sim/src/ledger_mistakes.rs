//! Planted mistakes of readers of the ledger: the records as a reader with the mistake would take them.

use std::sync::Arc;

use tollgate_aggregator_engine::budget::ledger::Ledger;
use tollgate_core::clock::Timestamp;
use tollgate_core::messages::ledger::{BudgetRequest, EntryId, LedgerEntry, LedgerRecord, Terms};

use super::budget_member::BudgetMember;
use super::region_mistake::RegionMistake;

/// Returns the own time at which a coordinator takes a record for read.
pub(super) fn read_at(
    mistake: Option<RegionMistake>,
    own_now: Timestamp,
    ledger: &Ledger,
    record: &LedgerRecord,
) -> Timestamp {
    let is_renewal = matches!(record.entry, LedgerEntry::Renewal { .. });
    if mistake != Some(RegionMistake::WaitFromWrongInstant) || !is_renewal {
        return own_now;
    }
    own_now.minus_ms(ledger.rules().map(|terms| terms.term_ms).max().unwrap_or(0))
}

/// Returns a record as a member of a region reads it.
pub(super) fn read_by_region(mistake: Option<RegionMistake>, is_second: bool, record: &LedgerRecord) -> LedgerRecord {
    match (&record.entry, mistake) {
        (LedgerEntry::Terms(terms), Some(RegionMistake::OtherTerms)) if is_second => {
            let raised = |(name, units): &(_, u64)| (Arc::clone(name), units + terms.quota / 10);
            let floors = terms.floors.iter().map(raised).collect();
            let terms = Terms { quota: 2 * terms.quota, floors, ..terms.clone() };
            LedgerRecord { id: record.id, entry: LedgerEntry::Terms(terms) }
        }
        _ => record.clone(),
    }
}

/// Returns the records by which a member reads a grant of its region once more, as the answer to a request of its own.
pub(super) fn granted_again(
    mistake: Option<RegionMistake>,
    member: &BudgetMember,
    record: &LedgerRecord,
) -> Vec<LedgerRecord> {
    let LedgerEntry::Grant { counter, request, units } = record.entry else { return Vec::new() };
    if mistake != Some(RegionMistake::GrantTwice) || !member.is_second {
        return Vec::new();
    }
    let ledger = member.budgets.ledger();
    let held = ledger.counter(counter);
    let is_own = held.is_some_and(|budget| {
        budget.grants().iter().any(|grant| grant.request == request && grant.region == member.region)
    });
    let rule = ledger.counters().find(|(known, ..)| *known == counter).map(|(_, terms, _)| terms.rule.clone());
    let Some((terms, _)) = rule.filter(|_| is_own).and_then(|rule| ledger.terms(&rule)) else { return Vec::new() };
    let again = |sequence| EntryId { writer: record.id.writer ^ record.id.sequence.rotate_left(40), sequence };
    let region = member.region.clone();
    let asked = LedgerEntry::Request(BudgetRequest { terms, counter, region, wants: units });
    let granted = LedgerEntry::Grant { counter, request: again(1), units };
    vec![LedgerRecord { id: again(1), entry: asked }, LedgerRecord { id: again(2), entry: granted }]
}
