//! A give-back under way: the limit is lowered in the store, the last window is looked at, the entry is appended.

use tollgate_core::clock::Timestamp;
use tollgate_core::messages::ledger::{EntryId, Terms};

use super::counter_budget::{BudgetGrant, CounterBudget};
use super::division::{Claim, divide};
use super::stored_limit::Fence;

/// Give-back that a region has begun.
#[derive(Clone, Copy, Debug)]
pub(super) struct GiveBack {
    pub(super) fence: Fence,
    /// Instant at which the entry was appended.
    pub(super) appended_at: Option<Timestamp>,
}

/// Returns the grant of a region that gives back most of `units`, newest first, and the units that it keeps.
pub(super) fn chosen(budget: &CounterBudget, region: &str, units: u64) -> Option<(EntryId, u64)> {
    let newest: &BudgetGrant = budget.grants_of(region).last()?;
    (units > 0).then(|| (newest.id, newest.units.saturating_sub(units)))
}

/// Returns the units that a region leaves to others: its part of what they lack, as far as it holds more than its own part of
/// the quota.
pub(super) fn owed(budget: &CounterBudget, terms: &Terms, region: &str, own_wants: u64) -> u64 {
    let own = |name: &str| name == region;
    let claims: Vec<Claim> = (terms.floors.iter().zip(budget.claims(terms)))
        .map(|((name, _), claim)| if own(name) { Claim { wants: own_wants, ..claim } } else { claim })
        .collect();
    let (mut lacking, mut over, mut own_over) = (0_u64, 0_u64, 0_u64);
    for ((name, _), part) in terms.floors.iter().zip(divide(terms.quota, &claims)) {
        let held = budget.held(name);
        lacking = lacking.saturating_add(part.saturating_sub(held));
        over = over.saturating_add(held.saturating_sub(part));
        if own(name) {
            own_over = held.saturating_sub(part);
        }
    }
    // After the quota was lowered, the units beyond it are given back even if nobody lacks any.
    let beyond = budget.held_by_all().saturating_sub(terms.quota);
    let lacking = lacking.saturating_sub(budget.free(terms.quota)).saturating_add(beyond);
    if over == 0 {
        return 0;
    }
    let share = (u128::from(lacking) * u128::from(own_over)).div_ceil(u128::from(over));
    u64::try_from(share).unwrap_or(u64::MAX).min(own_over)
}
