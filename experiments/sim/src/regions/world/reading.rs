//! The reading of the ledger by its members.

use tollgate_aggregator_engine::budget::region::RegionInput;
use tollgate_core::messages::ledger::{BudgetRequest, EntryId, LedgerEntry, LedgerRecord, Terms};

use super::event::LedgerMember;
use super::state::{RegionsWorld, rule_name};
use crate::regions::mistake::RegionMistake;
use crate::regions::process::ProcessEngine;

impl RegionsWorld {
    /// Lets a member read all records that have arrived.
    pub(super) fn catch_up(&mut self, member: LedgerMember) {
        while let Some(process) = self.process(member) {
            if process.suspended_until_ms > self.now_ms {
                return;
            }
            let record = match member {
                LedgerMember::Region(region, _) => {
                    let place = self.regions[region].mirror.get(process.read);
                    place.and_then(|place| self.outcome.ledger.get(*place)).map(|(_, record)| record.clone())
                }
                LedgerMember::Coordinator(number) => {
                    let has_arrived =
                        self.arrivals[number].get(process.read).is_some_and(|at_ms| *at_ms <= self.now_ms);
                    self.outcome.ledger.get(process.read).filter(|_| has_arrived).map(|(_, record)| record.clone())
                }
            };
            let Some(record) = record else { return };
            if let Some(process) = self.process_mut(member) {
                process.read += 1;
            }
            self.read(member, &record);
        }
    }

    pub(super) fn read(&mut self, member: LedgerMember, record: &LedgerRecord) {
        let (now_ms, mistake) = (self.now_ms, self.mistake);
        match member {
            LedgerMember::Coordinator(number) => {
                let process = &mut self.coordinators[number];
                let mut now = process.time(now_ms);
                let ProcessEngine::Coordinator(coordinator) = &mut process.engine else { return };
                if mistake == Some(RegionMistake::WaitFromWrongInstant)
                    && matches!(record.entry, LedgerEntry::Renewal { .. })
                {
                    let term_ms = coordinator.ledger().rules().map(|terms| terms.term_ms).max().unwrap_or(0);
                    now = now.minus_ms(term_ms);
                }
                coordinator.read(now, record);
            }
            LedgerMember::Region(region, _) => {
                let is_second = region == 1;
                let altered = match (&record.entry, mistake) {
                    (LedgerEntry::Terms(terms), Some(RegionMistake::OtherTerms)) if is_second => {
                        let floors =
                            terms.floors.iter().map(|(name, units)| (name.clone(), units + terms.quota / 10)).collect();
                        Some(LedgerRecord {
                            id: record.id,
                            entry: LedgerEntry::Terms(Terms { quota: 2 * terms.quota, floors, ..terms.clone() }),
                        })
                    }
                    _ => None,
                };
                self.poll(member, RegionInput::Record(altered.as_ref().unwrap_or(record)));
                if let (LedgerEntry::Grant { .. }, Some(RegionMistake::GrantTwice), true) =
                    (&record.entry, mistake, is_second)
                {
                    self.grant_again(member, record);
                }
                self.check_state(member);
            }
        }
    }

    /// Makes a region read a grant once more, as the answer to a request of its own.
    pub(super) fn grant_again(&mut self, member: LedgerMember, record: &LedgerRecord) {
        let LedgerEntry::Grant { counter, request, units } = record.entry else { return };
        let rule = rule_name(&self.settings);
        let Some((terms, _)) = self.truth.terms(&rule).map(|(id, terms)| (id, terms.clone())) else { return };
        let region = match member {
            LedgerMember::Region(region, _) => self.regions[region].settings.name.into(),
            LedgerMember::Coordinator(_) => return,
        };
        let held = self.truth.budget(&rule, counter);
        if !held.is_some_and(|budget| {
            budget.grants().iter().any(|grant| grant.request == request && grant.region == region)
        }) {
            return;
        }
        let again = |sequence| EntryId { writer: record.id.writer ^ record.id.sequence.rotate_left(40), sequence };
        let asked = LedgerEntry::Request(BudgetRequest { terms, counter, region, wants: units });
        let asked = LedgerRecord { id: again(1), entry: asked };
        self.poll(member, RegionInput::Record(&asked));
        let granted = LedgerRecord { id: again(2), entry: LedgerEntry::Grant { counter, request: again(1), units } };
        self.poll(member, RegionInput::Record(&granted));
    }
}
