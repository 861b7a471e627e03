//! What passed without the store: counters in debt, until the store is back and is told.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;
use tollgate_common::counter::CounterId;
use tollgate_common::rule::{Generation, Rule};

use super::Limiter;
use super::charge::Charge;
use crate::enforce::{Take, TakeKind};

/// How many counters may be in debt to the store at once; past that the oldest debts are forgotten.
const DEBTORS_LEN_MAX: usize = 100_000;

/// How many of them are charged in one step.
const DEBTORS_STEP_LEN: usize = 256;

/// Counters in debt.
#[derive(Debug, Default)]
pub(super) struct Debts {
    debtors: Mutex<VecDeque<Debtor>>,
    /// Whether there are any; a call looks here first.
    any: AtomicBool,
}

#[derive(Debug)]
struct Debtor {
    rule: Arc<Rule>,
    generation: Generation,
    counter: CounterId,
}

impl Debts {
    /// How many counters are in debt.
    pub(super) fn len(&self) -> usize {
        self.debtors.lock().len()
    }

    /// A counter is in debt from now on; whether another one had to be forgotten for it.
    pub(super) fn add(&self, charge: &Charge, generation: Generation) -> bool {
        let mut debtors = self.debtors.lock();
        self.any.store(true, Ordering::Relaxed);
        debtors.push_back(Debtor { rule: charge.rule.clone(), generation, counter: charge.counter });
        debtors.len() > DEBTORS_LEN_MAX && debtors.pop_front().is_some()
    }

    /// The next few.
    fn take(&self) -> Vec<Debtor> {
        let mut debtors = self.debtors.lock();
        let step = debtors.len().min(DEBTORS_STEP_LEN);
        self.any.store(debtors.len() > step, Ordering::Relaxed);
        debtors.drain(..step).collect()
    }
}

impl Limiter {
    /// Whether something passed that the store was not asked for.
    #[must_use]
    pub fn is_in_debt(&self) -> bool {
        self.debts.any.load(Ordering::Relaxed)
    }

    /// What the store should be told now that it answers again. What is returned is taken for told, whether the store says
    /// so or not: told twice it would count twice.
    pub fn settle_debts(&self) -> Vec<Take> {
        let mut takes = Vec::new();
        for debtor in self.debts.take() {
            let owed = self.seen.with(debtor.counter, |seen| seen.own(&debtor.rule).settle_debt().collect::<Vec<_>>());
            for owed in owed {
                self.metrics.owed.inc_by(owed.units);
                takes.push(Take {
                    counter: debtor.counter,
                    limit: debtor.rule.limit(),
                    generation: debtor.generation,
                    cost: owed.units,
                    kind: TakeKind::Owed { at: owed.at },
                });
            }
        }
        takes
    }

    /// Whether something passed on one of these counters that the store does not know.
    pub(super) fn owes_any(&self, charges: &[Charge]) -> bool {
        let owes = |charge: &Charge| self.seen.with(charge.counter, |seen| seen.is_in_debt());
        self.debts.any.load(Ordering::Relaxed) && charges.iter().any(owes)
    }
}
