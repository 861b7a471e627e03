//! Division of a quota among regions by their demand: max-min fair, with a floor for each.
//!
//! Source: max-min fairness by progressive filling (Bertsekas and Gallager, "Data Networks", 1992, 6.5.2). No region gets more than
//! it wants beyond its floor, and a unit moves to no region at the cost of one that has less.

/// Region that takes part in a division.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Claim {
    /// Units that are reserved for it.
    pub floor: u64,
    /// Units that it could use.
    pub wants: u64,
}

/// Returns the units of each claim. They are at least its floor, and at most the larger of floor and want. Their sum is at most
/// `capacity` if that of the floors is. Units that cannot be divided evenly go to the first claims.
#[must_use]
pub fn divide(capacity: u64, claims: &[Claim]) -> Vec<u64> {
    let mut parts: Vec<u64> = claims.iter().map(|claim| claim.floor).collect();
    let mut left = capacity.saturating_sub(sum(&parts));
    // Claims are filled in the order of what they would have if they were full: the level rises from one to the next.
    let ceiling = |index: usize| claims[index].wants.max(claims[index].floor);
    let mut by_floor: Vec<usize> = (0..claims.len()).filter(|index| ceiling(*index) > claims[*index].floor).collect();
    by_floor.sort_by_key(|index| claims[*index].floor);
    let mut rising: Vec<usize> = Vec::new();
    let mut waiting = by_floor.into_iter().peekable();
    while left > 0 {
        if rising.is_empty() {
            let Some(next) = waiting.next() else { break };
            rising.push(next);
        }
        let level = parts[rising[0]];
        while let Some(next) = waiting.next_if(|next| claims[*next].floor <= level) {
            rising.push(next);
        }
        rising.sort_unstable();
        let full_at = rising.iter().map(|index| ceiling(*index)).min().unwrap_or(level);
        let joined_at = waiting.peek().map_or(u64::MAX, |next| claims[*next].floor);
        let step = full_at.min(joined_at) - level;
        let count = rising.len() as u64;
        if step.checked_mul(count).is_none_or(|needed| needed > left) {
            for (place, index) in rising.iter().enumerate() {
                parts[*index] += left / count + u64::from((place as u64) < left % count);
            }
            break;
        }
        for index in &rising {
            parts[*index] += step;
        }
        left -= step * count;
        rising.retain(|index| parts[*index] < ceiling(*index));
    }
    parts
}

fn sum(units: &[u64]) -> u64 {
    units.iter().fold(0, |sum, units| sum.saturating_add(*units))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parts(capacity: u64, claims: &[(u64, u64)]) -> Vec<u64> {
        let claims: Vec<Claim> = claims.iter().map(|(floor, wants)| Claim { floor: *floor, wants: *wants }).collect();
        divide(capacity, &claims)
    }

    #[test]
    fn a_quota_is_divided_by_demand() {
        for (capacity, claims, expected) in [
            (120, &[(0, 1000), (0, 50), (0, 10)][..], &[60, 50, 10][..]),
            // Nobody gets more than it wants, but each has its floor.
            (120, &[(10, 30), (10, 0), (10, 5)], &[30, 10, 10]),
            // A floor counts towards a fair part.
            (100, &[(60, 100), (0, 100)], &[60, 40]),
            (100, &[(60, 100), (0, 30)], &[70, 30]),
            (100, &[(10, 100), (30, 40), (0, 20)], &[40, 40, 20]),
            (10, &[(0, 9), (0, 9), (0, 9)], &[4, 3, 3]),
            (0, &[(0, 9)], &[0]),
            (5, &[], &[]),
            // Floors hold even past the capacity: they fall by give-backs only.
            (10, &[(8, 9), (8, 9)], &[8, 8]),
            (u64::MAX, &[(0, u64::MAX), (0, u64::MAX), (1, u64::MAX)], &[u64::MAX / 3; 3]),
        ] {
            assert_eq!(parts(capacity, claims), expected, "{capacity} for {claims:?}");
        }
    }

    /// Compares with a division that gives one unit after the other to the claim that has the least.
    #[test]
    fn a_division_is_that_of_single_units() {
        let mut rng = fastrand::Rng::with_seed(1);
        for _ in 0..2_000 {
            let claims: Vec<(u64, u64)> = (0..rng.usize(1..6)).map(|_| (rng.u64(0..20), rng.u64(0..40))).collect();
            let floors: u64 = claims.iter().map(|(floor, _)| floor).sum();
            let capacity = floors + rng.u64(0..80);
            let mut single: Vec<u64> = claims.iter().map(|(floor, _)| *floor).collect();
            for _ in floors..capacity {
                let hungry = (0..claims.len()).filter(|index| single[*index] < claims[*index].1);
                if let Some(least) = hungry.min_by_key(|index| (single[*index], *index)) {
                    single[least] += 1;
                }
            }
            assert_eq!(parts(capacity, &claims), single, "{capacity} for {claims:?}");
        }
    }
}
