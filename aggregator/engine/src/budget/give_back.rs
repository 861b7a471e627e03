//! A give-back under way: the limit is lowered in the store, the last window is looked at, the entry is appended.

use tollgate_core::clock::Timestamp;
use tollgate_core::messages::ledger::{EntryId, Terms};

use super::counter_budget::{BudgetGrant, CounterBudget, takes_part};
use super::division::{Claim, divide};
use tollgate_core::regions::stored_limit::Fence;

#[derive(Clone, Copy, Debug)]
pub(super) struct GiveBack {
    pub(super) fence: Fence,
    /// Instant at which the entry was appended.
    pub(super) appended_at: Option<Timestamp>,
}

/// Returns the last entry of the grant of a region that gives back most of `units`, newest first, and the units that it keeps.
pub(super) fn chosen(budget: &CounterBudget, region: &str, units: u64) -> Option<(EntryId, u64)> {
    let newest: &BudgetGrant = budget.grants_of(region).last()?;
    (units > 0).then(|| (newest.granted, newest.units.saturating_sub(units)))
}

/// Returns the units of its grants that a region leaves to others: its part of what they lack, as far as it has more
/// than its own part of the quota. A floor that waits for units lacks them even if its region has grants, because those
/// end with their terms. A region that the terms do not name leaves all.
pub(super) fn owed(budget: &CounterBudget, terms: &Terms, region: &str, own_wants: u64) -> u64 {
    if !takes_part(terms, region) {
        return budget.held(region).saturating_sub(budget.floor(region));
    }
    let own = |name: &str| name == region;
    let claims: Vec<Claim> = (terms.floors.iter().zip(budget.claims(terms)))
        .map(|((name, _), claim)| if own(name) { Claim { wants: own_wants, ..claim } } else { claim })
        .collect();
    let (mut lacking, mut over, mut own_over) = (0_u64, budget.held_outside(terms), 0_u64);
    for ((name, by_terms), part) in terms.floors.iter().zip(divide(terms.quota, &claims)) {
        let floor = budget.floor(name);
        let (granted, reserved) = (budget.held(name).saturating_sub(floor), floor.max(*by_terms));
        let beside = part.saturating_sub(reserved);
        let granted_over = granted.saturating_sub(beside);
        lacking = lacking.saturating_add(reserved - floor).saturating_add(beside.saturating_sub(granted));
        over = over.saturating_add(granted_over).saturating_add(reserved.saturating_sub(part));
        if own(name) {
            own_over = granted_over;
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

#[cfg(test)]
mod tests {
    use super::*;

    fn id(sequence: u64) -> EntryId {
        EntryId { writer: 1, sequence }
    }

    /// Returns terms of the regions `a` and `b` without floors, and a counter with their units and wants.
    fn counter(quota: u64, units: &[(&str, u64)], wants: [u64; 2]) -> (Terms, CounterBudget) {
        let (rule, window_ms, term_ms, key_fingerprint) = ("rule".into(), 10, 12, 42);
        let floors = vec![("a".into(), 0), ("b".into(), 0)];
        let terms = Terms { rule, generation: 1, quota, window_ms, term_ms, key_fingerprint, floors };
        let mut budget = CounterBudget::default();
        ["a", "b"].into_iter().zip(wants).for_each(|(region, wants)| budget.ask(region.into(), wants, id(90)));
        for (place, (region, units)) in (1..).zip(units) {
            budget.add((id(place), id(90)), (*region).into(), *units, &terms);
        }
        (terms, budget)
    }

    #[test]
    fn a_region_owes_its_part_of_what_others_lack() {
        for (case, quota, units, wants, owed_by_a) in [
            ("nobody lacks any", 100, [("a", 60), ("b", 40)], [60, 40], 0),
            ("the other one lacks all", 100, [("a", 100), ("b", 0)], [10, 50], 50),
            ("some are free", 100, [("a", 60), ("b", 0)], [60, 50], 10),
            ("it has no more than its part", 100, [("a", 50), ("b", 0)], [60, 100], 0),
            ("the other one has more than its part, too", 100, [("a", 30), ("b", 70)], [0, 70], 0),
            ("the quota was lowered", 50, [("a", 40), ("b", 40)], [40, 40], 15),
            ("the quota was lowered, and all is wanted by the other one", 50, [("a", 40), ("b", 40)], [0, 90], 40),
            ("the largest units", u64::MAX, [("a", u64::MAX), ("b", 0)], [0, u64::MAX], u64::MAX),
        ] {
            let (terms, budget) = counter(quota, &units, wants);
            assert_eq!(owed(&budget, &terms, "a", wants[0]), owed_by_a, "{case}");
        }
    }

    /// The terms give `b` a floor of 20, which it does not ask for.
    #[test]
    fn a_floor_that_waits_for_units_is_owed() {
        for (case, units, owed_by_a) in [
            ("nothing is free", [("a", 100), ("b", 0)], 20),
            ("a part is free", [("a", 90), ("b", 0)], 10),
            ("all of it is free", [("a", 80), ("b", 0)], 0),
            ("its region has grants", [("a", 80), ("b", 20)], 0),
        ] {
            let (terms, budget) = counter(100, &units, [100, 20]);
            let terms = Terms { floors: vec![("a".into(), 0), ("b".into(), 20)], ..terms };
            assert_eq!(owed(&budget, &terms, "a", 100), owed_by_a, "{case}");
            let owed_by_b = if units[1].1 == 20 { 20 } else { 0 };
            assert_eq!(owed(&budget, &terms, "b", 20), owed_by_b, "{case}");
        }
    }

    /// The terms do not name `c` any more.
    #[test]
    fn a_region_that_has_left_the_terms_owes_all() {
        for (units, wants, owed_by_a, owed_by_c) in [
            ([("a", 40), ("b", 40), ("c", 20)], [40, 40], 0, 20),
            ([("a", 80), ("b", 0), ("c", 20)], [80, 20], 0, 20),
            ([("a", 80), ("b", 0), ("c", 20)], [80, 40], 20, 20),
        ] {
            let (terms, budget) = counter(100, &units, wants);
            let owed = |region, wants| owed(&budget, &terms, region, wants);
            assert_eq!((owed("a", wants[0]), owed("c", 0)), (owed_by_a, owed_by_c), "{units:?} for {wants:?}");
        }
    }

    #[test]
    fn the_newest_grant_is_given_back_first() {
        let (terms, mut budget) = counter(100, &[("a", 20), ("b", 5)], [0, 0]);
        assert!(budget.add((id(3), id(90)), "a".into(), 10, &Terms { term_ms: 13, ..terms }));
        for (units, expected) in [(0, None), (4, Some((id(3), 6))), (10, Some((id(3), 0))), (25, Some((id(3), 0)))] {
            assert_eq!(chosen(&budget, "a", units), expected, "{units}");
        }
        assert_eq!(chosen(&budget, "c", 4), None);
    }
}
