//! Accounts of one agent, by counter, in which the [ledger](super::ledger) enters units.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use tollgate_core::clock::Timestamp;
use tollgate_core::counter::{Charge, ChargeMode, ChargeResult, CounterId};

use super::facts::UnnamedUnits;

/// Accounts of one agent.
#[derive(Default)]
pub(crate) struct Accounts {
    /// Units that the agent's answers mean, less those that the store executed.
    pub(crate) missing: BTreeMap<CounterId, i64>,
    pub(crate) changed: BTreeSet<CounterId>,
    /// Units by counter and instant that were charged late and stand for no call, where the agent may lease.
    pub(crate) spare: HashMap<(CounterId, Timestamp), i64>,
    /// Units of settlements without a decision.
    pub(crate) unnamed: UnnamedUnits,
    /// Counters of slots whose release failed, or that were given back: it is not known if the slot is free.
    pub(crate) uncertain: BTreeSet<CounterId>,
}

/// Units by which a charge changed its counter.
pub(crate) struct Effect {
    pub(crate) charge: Charge,
    pub(crate) units: i64,
    pub(crate) at: Timestamp,
    /// True if the store counts in the window of the charge.
    pub(crate) is_of_window: bool,
}

impl Accounts {
    /// Returns true if a charge refunds units that were charged late and stand for no call.
    pub(crate) fn is_of_spare(&self, charge: &Charge) -> bool {
        let spare = |at| self.spare.get(&(charge.counter, at)).is_some_and(|units| *units >= signed(charge.cost));
        matches!(charge.mode, ChargeMode::Refund { at, .. } if charge.request.is_none() && spare(at))
    }

    pub(crate) fn enter(&mut self, counter: CounterId, units: i64) {
        *self.missing.entry(counter).or_default() += units;
        self.changed.insert(counter);
    }
}

/// Takes units of calls that were decided, so many at most.
pub(crate) fn take(decided: &mut BTreeMap<CounterId, i64>, counter: CounterId, units: i64) -> i64 {
    let left = decided.entry(counter).or_default();
    let taken = units.min(*left);
    *left -= taken;
    taken
}

/// Returns the effect of a charge, if it was made.
pub(crate) fn effect_of((charge, result): (&Charge, &ChargeResult)) -> Option<Effect> {
    let cost = signed(charge.cost);
    let units = if matches!(charge.mode, ChargeMode::Refund { .. }) { -cost } else { cost };
    let is_of_window = result.limit_until.is_none();
    (result.charged && !result.repeated).then(|| Effect { charge: charge.clone(), units, at: result.at, is_of_window })
}

pub(crate) fn signed(units: u64) -> i64 {
    i64::try_from(units).unwrap_or(i64::MAX)
}
