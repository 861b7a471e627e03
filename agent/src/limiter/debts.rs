//! What passed without the store: counters in debt, until the store is back and is told.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;
use tollgate_core::rules::Generation;

use super::Limiter;
use super::charge::MatchedRule;
use crate::store::StoreError;
use tollgate_core::counter::ChargeResults;
use tollgate_core::counter::{Charge, ChargeMode};

/// How many counters may be in debt to the store at once; past that the oldest debts are forgotten.
const DEBTORS_LEN_MAX: usize = 100_000;

/// How many of them are charged in one step, and after how many charges a step is long enough: no store should be held up.
const DEBTORS_STEP_LEN: usize = 64;
const CHARGES_STEP_LEN: usize = 256;

/// What is being told to the store.
#[derive(Debug)]
pub struct Payment {
    debtors: Vec<Debtor>,
    takes: Vec<Charge>,
}

/// Counters in debt.
#[derive(Debug, Default)]
pub(super) struct Debts {
    debtors: Mutex<VecDeque<Debtor>>,
    /// Whether there are any; a call looks here first.
    any: AtomicBool,
    /// Whether each is paid alone, since one of them cannot be.
    one_by_one: AtomicBool,
}

#[derive(Debug)]
struct Debtor {
    charge: MatchedRule,
    generation: Generation,
}

impl Payment {
    /// What to tell the store, in one step.
    #[must_use]
    pub fn takes(&self) -> &[Charge] {
        &self.takes
    }
}

impl Debts {
    /// How many counters are in debt.
    pub(super) fn len(&self) -> usize {
        self.debtors.lock().len()
    }

    /// A counter is in debt from now on; the one that is forgotten for it, when there are too many.
    fn add(&self, debtor: Debtor) -> Option<Debtor> {
        let mut debtors = self.debtors.lock();
        self.any.store(true, Ordering::Relaxed);
        debtors.push_back(debtor);
        if debtors.len() > DEBTORS_LEN_MAX { debtors.pop_front() } else { None }
    }
}

impl Limiter {
    /// Whether something passed that the store was not asked for.
    #[must_use]
    pub fn is_in_debt(&self) -> bool {
        self.debts.any.load(Ordering::Relaxed)
    }

    /// What the store should be told now that it answers again: the debts of the next few counters. Until the answer comes
    /// to [`Limiter::paid`], these counters stay in debt, so no call overtakes the payment.
    #[must_use]
    pub fn pay_debts(&self) -> Payment {
        let (mut debtors, mut takes) = (Vec::new(), Vec::new());
        let step_len = if self.debts.one_by_one.load(Ordering::Relaxed) { 1 } else { DEBTORS_STEP_LEN };
        while debtors.len() < step_len && takes.len() < CHARGES_STEP_LEN {
            let Some(debtor) = self.debts.debtors.lock().pop_front() else { break };
            let owed = self.seen.with(debtor.charge.counter, |seen| seen.own(&debtor.charge.policy).pay());
            let take = |units, at| debtor.charge.take(debtor.generation, units, ChargeMode::Backfill { at });
            takes.extend(owed.into_iter().map(|owed| take(owed.units, owed.at)));
            debtors.push(debtor);
        }
        Payment { debtors, takes }
    }

    /// What became of a payment. Where it is not known whether the store has charged, it is taken for made: told twice it
    /// would count twice.
    pub fn paid(&self, payment: Payment, answer: &Result<ChargeResults, StoreError>) {
        let made = matches!(answer, Ok(_) | Err(StoreError::TimedOut));
        if matches!(answer, Err(StoreError::Unreadable)) {
            return self.pay_one_by_one(payment);
        }
        if made {
            self.metrics.owed.inc_by(payment.takes.iter().map(|take| take.cost).sum());
        }
        let mut still_in_debt = Vec::new();
        for debtor in payment.debtors {
            let in_debt = self.seen.with(debtor.charge.counter, |seen| {
                let own = seen.own(&debtor.charge.policy);
                if made {
                    own.paid();
                } else {
                    own.unpaid();
                }
                own.is_in_debt()
            });
            if in_debt {
                still_in_debt.push(debtor);
            }
        }
        let mut debtors = self.debts.debtors.lock();
        debtors.extend(still_in_debt);
        self.debts.any.store(!debtors.is_empty(), Ordering::Relaxed);
    }

    /// One of several counters has no place in the store: each is paid alone, and that one's debts are forgotten.
    fn pay_one_by_one(&self, payment: Payment) {
        let alone = payment.debtors.len() == 1;
        self.debts.one_by_one.store(!alone, Ordering::Relaxed);
        for debtor in &payment.debtors {
            self.seen.with(debtor.charge.counter, |seen| {
                let own = seen.own(&debtor.charge.policy);
                if alone { own.forget_debts() } else { own.unpaid() }
            });
        }
        let mut debtors = self.debts.debtors.lock();
        if alone {
            self.metrics.forgotten_debts.inc();
        } else {
            debtors.extend(payment.debtors);
        }
        self.debts.any.store(!debtors.is_empty(), Ordering::Relaxed);
    }

    /// A counter is in debt from now on.
    pub(super) fn falls_in_debt(&self, charge: &MatchedRule, generation: Generation) {
        let debtor = Debtor { charge: charge.clone(), generation };
        if let Some(forgotten) = self.debts.add(debtor) {
            self.metrics.forgotten_debts.inc();
            let MatchedRule { counter, policy, .. } = &forgotten.charge;
            self.seen.with(*counter, |seen| seen.own(policy).forget_debts());
        }
    }

    /// Whether something passed on one of these counters that the store does not know.
    pub(super) fn owes_any(&self, charges: &[MatchedRule]) -> bool {
        let owes = |charge: &MatchedRule| self.seen.with(charge.counter, |seen| seen.is_in_debt());
        self.is_in_debt() && charges.iter().any(owes)
    }
}
