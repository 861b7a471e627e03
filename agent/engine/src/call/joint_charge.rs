//! Joint charges: calls of one request that share a counter are charged once, with the sum of their costs.

use tollgate_core::counter::{Charge, DigestKey};

/// Adds a charge to another one on the same counter. The smaller limit decides both. Different request ids become one id of
/// all of them, by which the store recognises a retry of the whole request.
pub(crate) fn join(known: &mut Charge, charge: &Charge, key: &DigestKey) {
    if known.cost == 0 {
        // A charge without cost was only evaluated.
        known.mode = charge.mode;
    }
    known.cost = known.cost.saturating_add(charge.cost);
    if (charge.limit.units, charge.limit.burst) < (known.limit.units, known.limit.burst) {
        known.limit = charge.limit;
    }
    if known.request != charge.request {
        let ids = known.request.iter().chain(&charge.request).map(ToString::to_string);
        known.request = Some(key.request(&ids.collect::<String>(), known.cost, []));
    }
}

#[cfg(test)]
mod tests {
    use tollgate_core::algorithm::{Algorithm, CounterState, Limit};
    use tollgate_core::clock::Timestamp;
    use tollgate_core::counter::{ChargeResult, CounterId};
    use tollgate_core::window::{Estimate, Window};

    use super::*;

    /// Each case: the quota, the costs of the calls that share a counter, true if the charge is enforced; for each call the
    /// expected (admitted, remaining).
    #[test]
    fn calls_that_share_a_counter_are_decided_as_if_one_came_after_the_other() {
        type Case = (u64, &'static [u64], bool, &'static [(bool, u64)]);
        let cases: [Case; 6] = [
            (9, &[2], true, &[(true, 7)]),
            (9, &[2, 3], true, &[(true, 7), (true, 4)]),
            (4, &[2, 3], true, &[(true, 4), (false, 4)]),
            (4, &[2, 3], false, &[(true, 2), (false, 0)]),
            (1, &[2, 3], false, &[(false, 0), (false, 0)]),
            (3, &[1, 1, 1], false, &[(true, 2), (true, 1), (true, 0)]),
        ];
        let (counter, now, later) =
            (CounterId::from_u128(1), Timestamp::from_ms(1_000_000), Timestamp::from_ms(2_000_000));
        for (units, costs, is_enforced, expected) in cases {
            let algorithm = Algorithm::SlidingWindow(Estimate::Conservative);
            let limit = Limit { algorithm, units, window: Window::new(60_000, 12).unwrap(), burst: 0 };
            let key = DigestKey::default();
            let mut charges = costs.iter().map(|cost| Charge::enforce(counter, limit, 1, *cost, later));
            let mut joint = charges.next().unwrap();
            charges.for_each(|charge| join(&mut joint, &charge, &key));
            let verdict = CounterState::new(&limit).step(&limit, now, joint.cost);
            let result = ChargeResult {
                verdict,
                charged: verdict.admitted || !is_enforced,
                repeated: false,
                leased: 0,
                at: now,
                limit: units,
                limit_until: None,
                born: now,
                previous: now,
            };
            let mut before = 0;
            let parts = costs.iter().map(|cost| {
                let part = result.share(&joint, before, *cost).verdict;
                before += cost;
                part
            });
            let seen: Vec<_> = parts.map(|verdict| (verdict.admitted, verdict.remaining)).collect();
            assert_eq!(seen, expected, "{units} {costs:?} {is_enforced}");
        }
    }
}
