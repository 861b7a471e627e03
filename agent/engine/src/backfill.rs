//! What passed without the store: counters in debt, until the store is back and is told.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;
use tollgate_core::rules::Generation;

use crate::engine::Engine;
use crate::match_rules::MatchedRule;
use crate::store_error::StoreError;
use tollgate_core::counter::ChargeResults;
use tollgate_core::counter::{Charge, ChargeMode};

/// How many counters may be in debt to the store at once; past that the oldest debts are forgotten.
const DEBTORS_LEN_MAX: usize = 100_000;

/// How many of them are charged in one step, and after how many charges a step is long enough: no store should be held up.
const DEBTORS_STEP_LEN: usize = 64;
const CHARGES_STEP_LEN: usize = 256;

/// What is being told to the store.
#[derive(Debug)]
pub struct BackfillRequest {
    debtors: Vec<UnsyncedCounter>,
    takes: Vec<Charge>,
}

/// Counters in debt.
#[derive(Debug, Default)]
pub(crate) struct UnsyncedQueue {
    debtors: Mutex<VecDeque<UnsyncedCounter>>,
    /// Whether there are any; a call looks here first.
    any: AtomicBool,
    /// Whether each is paid alone, since one of them cannot be.
    one_by_one: AtomicBool,
}

#[derive(Debug)]
struct UnsyncedCounter {
    charge: MatchedRule,
    generation: Generation,
}

impl BackfillRequest {
    /// What to tell the store, in one step.
    #[must_use]
    pub fn takes(&self) -> &[Charge] {
        &self.takes
    }
}

impl UnsyncedQueue {
    /// How many counters are in debt.
    pub(crate) fn len(&self) -> usize {
        self.debtors.lock().len()
    }

    /// A counter is in debt from now on; the one that is forgotten for it, when there are too many.
    fn add(&self, debtor: UnsyncedCounter) -> Option<UnsyncedCounter> {
        let mut debtors = self.debtors.lock();
        self.any.store(true, Ordering::Relaxed);
        debtors.push_back(debtor);
        if debtors.len() > DEBTORS_LEN_MAX { debtors.pop_front() } else { None }
    }
}

impl Engine {
    /// Whether something passed that the store was not asked for.
    #[must_use]
    pub fn has_unsynced(&self) -> bool {
        self.unsynced.any.load(Ordering::Relaxed)
    }

    /// What the store should be told now that it answers again: the debts of the next few counters. Until the answer comes
    /// to [`Engine::paid`], these counters stay in debt, so no call overtakes the payment.
    #[must_use]
    pub fn pay_debts(&self) -> BackfillRequest {
        let (mut debtors, mut takes) = (Vec::new(), Vec::new());
        let step_len = if self.unsynced.one_by_one.load(Ordering::Relaxed) { 1 } else { DEBTORS_STEP_LEN };
        while debtors.len() < step_len && takes.len() < CHARGES_STEP_LEN {
            let Some(debtor) = self.unsynced.debtors.lock().pop_front() else { break };
            let unsynced = self.table.with(debtor.charge.counter, |seen| seen.own(&debtor.charge.policy).pay());
            let take = |units, at| debtor.charge.take(debtor.generation, units, ChargeMode::Backfill { at });
            takes.extend(unsynced.into_iter().map(|unsynced| take(unsynced.units, unsynced.at)));
            debtors.push(debtor);
        }
        BackfillRequest { debtors, takes }
    }

    /// What became of a payment. Where it is not known whether the store has charged, it is taken for made: told twice it
    /// would count twice.
    pub fn paid(&self, payment: BackfillRequest, answer: &Result<ChargeResults, StoreError>) {
        let made = matches!(answer, Ok(_) | Err(StoreError::TimedOut));
        if matches!(answer, Err(StoreError::Unreadable)) {
            return self.pay_one_by_one(payment);
        }
        if made {
            self.metrics.unsynced_units.add(payment.takes.iter().map(|take| take.cost).sum());
        }
        let mut still_in_debt = Vec::new();
        for debtor in payment.debtors {
            let in_debt = self.table.with(debtor.charge.counter, |seen| {
                let own = seen.own(&debtor.charge.policy);
                if made {
                    own.paid();
                } else {
                    own.unpaid();
                }
                own.has_unsynced()
            });
            if in_debt {
                still_in_debt.push(debtor);
            }
        }
        let mut debtors = self.unsynced.debtors.lock();
        debtors.extend(still_in_debt);
        self.unsynced.any.store(!debtors.is_empty(), Ordering::Relaxed);
    }

    /// One of several counters has no place in the store: each is paid alone, and that one's debts are forgotten.
    fn pay_one_by_one(&self, payment: BackfillRequest) {
        let alone = payment.debtors.len() == 1;
        self.unsynced.one_by_one.store(!alone, Ordering::Relaxed);
        for debtor in &payment.debtors {
            self.table.with(debtor.charge.counter, |seen| {
                let own = seen.own(&debtor.charge.policy);
                if alone { own.forget_debts() } else { own.unpaid() }
            });
        }
        let mut debtors = self.unsynced.debtors.lock();
        if alone {
            self.metrics.unsynced_forgotten.add(1);
        } else {
            debtors.extend(payment.debtors);
        }
        self.unsynced.any.store(!debtors.is_empty(), Ordering::Relaxed);
    }

    /// A counter is in debt from now on.
    pub(crate) fn falls_in_debt(&self, charge: &MatchedRule, generation: Generation) {
        let debtor = UnsyncedCounter { charge: charge.clone(), generation };
        if let Some(forgotten) = self.unsynced.add(debtor) {
            self.metrics.unsynced_forgotten.add(1);
            let MatchedRule { counter, policy, .. } = &forgotten.charge;
            self.table.with(*counter, |seen| seen.own(policy).forget_debts());
        }
        self.health.waker.wake();
    }

    /// Whether something passed on one of these counters that the store does not know.
    pub(crate) fn owes_any(&self, charges: &[MatchedRule]) -> bool {
        let owes = |charge: &MatchedRule| self.table.with(charge.counter, |seen| seen.has_unsynced());
        self.has_unsynced() && charges.iter().any(owes)
    }
}
