//! Floods of invented callers through the sketches of one agent.

use tollgate_core::rules::Consistency;

use super::*;
use crate::engine_settings::SKETCH_BYTES_DEFAULT;

const START: Timestamp = Timestamp::from_ms(1_763_700_000_000);

fn policy(quota: &str, consistency: Consistency) -> LimitPolicy {
    let mut policy = LimitPolicy::of(quota.parse().expect("a quota"));
    policy.set_consistency(consistency);
    policy
}

/// A rule over sketches.
struct Fixture {
    sketches: Sketches,
    rule: Arc<str>,
    policy: LimitPolicy,
    now: Timestamp,
}

impl Fixture {
    fn new(bytes_max: usize, quota: &str, consistency: Consistency) -> Self {
        Self {
            sketches: Sketches::new(bytes_max),
            rule: "per-key".into(),
            policy: policy(quota, consistency),
            now: START,
        }
    }

    fn charge(&self, caller: u128, cost: u64, is_forced: bool) -> Verdict {
        let (rule, policy) = (&self.rule, &self.policy);
        let caller = CounterId::from_u128(caller);
        self.sketches.charge(self.now, &SketchCharge { rule, policy, shares: None, caller, cost, is_forced }, 1).0
    }

    /// Lets so many invented callers call once each.
    fn flood(&self, first: u128, callers: u64) {
        (first..first + u128::from(callers)).for_each(|caller| {
            self.charge(caller, 1, false);
        });
    }

    /// Returns the number of calls of new callers that are denied, of those within their quota, in permille.
    fn denied_permille(&self, quota: u64) -> u64 {
        const CALLERS: u64 = 200;
        let calls =
            |caller: u64| (0..quota).filter(move |_| !self.charge(u128::MAX - u128::from(caller), 1, false).admitted);
        (0..CALLERS).map(|caller| calls(caller).count() as u64).sum::<u64>() * 1_000 / (CALLERS * quota)
    }
}

#[test]
fn each_caller_has_its_quota_and_no_more() {
    for consistency in [Consistency::Strict, Consistency::Bounded] {
        let mut fixture = Fixture::new(1 << 20, "10/min", consistency);
        for caller in 0..50 {
            let verdicts: Vec<_> = (0..12).map(|_| fixture.charge(caller, 1, false)).collect();
            assert_eq!(verdicts.iter().filter(|verdict| verdict.admitted).count(), 10, "{consistency:?}");
            assert_eq!((verdicts[0].remaining, verdicts[11].remaining), (9, 0));
        }
        let denied = fixture.charge(7, 1, false);
        fixture.now = denied.retry_at.plus_ms(0).max(START.plus_ms(1));
        assert!(fixture.charge(7, 1, false).admitted, "{consistency:?} at {:?}", denied.retry_at);
        assert!(!fixture.charge(8, 11, false).admitted, "more than the quota");
        assert!(fixture.charge(8, 11, true).admitted, "never denied");
        fixture.now = fixture.now.plus_ms(300_000);
        assert_eq!(fixture.charge(7, 1, false).remaining, 9);
    }
}

/// A quota of bytes is larger than a cell: each caller has it all the same, and no more.
#[test]
fn a_quota_beyond_a_cell_is_enforced() {
    const GB: u64 = 1_000_000_000;
    for consistency in [Consistency::Strict, Consistency::Bounded] {
        let mut fixture = Fixture::new(1 << 20, "10000000000/h", consistency);
        for (caller, cost, calls) in [(1, GB, 10), (2, 3 * GB + 1, 3), (3, 10 * GB, 1), (4, 10 * GB + 1, 0)] {
            let admitted = (0..12).filter(|_| fixture.charge(caller, cost, false).admitted).count();
            assert_eq!(admitted, calls, "{consistency:?}, calls of {cost}");
        }
        assert!(fixture.charge(1, 100 * GB, true).admitted, "counted in any case");
        assert_eq!(fixture.charge(1, 1, false).remaining, 0);
        let before = fixture.charge(5, 1, true).remaining;
        assert!((10 * GB - 4..10 * GB).contains(&before), "{before}: small costs are rounded up by a little");
        fixture.now = fixture.now.plus_ms(9_000_000);
        assert!(fixture.charge(2, 10 * GB, false).admitted, "room comes back");
    }
}

/// I6: no window of a strict rule holds more than the quota, and a steady caller gets four fifths of it.
#[test]
fn a_strict_window_is_never_over() {
    let mut fixture = Fixture::new(1 << 20, "100/min", Consistency::Strict);
    let mut admitted = Vec::new();
    for ms in (0..600_000).step_by(250) {
        fixture.now = START.plus_ms(ms);
        if fixture.charge(1, 1, false).admitted {
            admitted.push(ms);
            assert!(admitted.iter().filter(|before| **before + 60_000 > ms).count() <= 100);
        }
    }
    assert!(admitted.len() >= 800, "{} in ten minutes", admitted.len());
    let steady = (0..600u64).filter(|second| {
        fixture.now = START.plus_ms(1_000_000 + second * 1_000);
        fixture.charge(2, 1, false).admitted
    });
    assert!(steady.count() >= 594, "one call per second passes");
}

/// K5: ten minutes at 20,000 invented keys per second, 1000/24h, 64 MB, at a tenth of the size.
#[test]
fn honest_newcomers_pass_within_a_flood_of_invented_keys() {
    let fixture = Fixture::new(SKETCH_BYTES_DEFAULT / 10, "1000/d", Consistency::Bounded);
    fixture.flood(0, 1_200_000);
    let denied = fixture.denied_permille(1_000);
    assert!(denied <= 5, "{denied} permille of the calls of newcomers within their quota");
    assert!(fixture.sketches.bytes() <= SKETCH_BYTES_DEFAULT / 10);
}

#[test]
fn rules_share_the_memory_and_not_the_cells() {
    let fixture = Fixture::new(1 << 20, "5/min", Consistency::Bounded);
    let policy = policy("5/min", Consistency::Bounded);
    let charge = |rule: &str, caller| {
        let (rule, caller) = (&rule.into(), CounterId::from_u128(caller));
        let charge = SketchCharge { rule, policy: &policy, shares: None, caller, cost: 1, is_forced: false };
        fixture.sketches.charge(START, &charge, 2).0
    };
    (0..2_000_000).for_each(|caller| {
        charge("flooded", caller);
    });
    assert!(!charge("flooded", u128::MAX).admitted, "more callers than the sketch can tell apart");
    assert_eq!(charge("other", 1).remaining, 4);
    assert!(fixture.sketches.bytes() <= 1 << 20);
    for rule in ["a", "b", "c"] {
        charge(rule, 1);
        assert!(fixture.sketches.bytes() <= 1 << 20, "sketches of rules that have gone make room");
    }
}

/// capped: the memory of the sketches is taken at the cap and given back below it.
#[test]
fn a_sketch_lives_from_the_first_caller_without_a_place_until_there_is_room() {
    let fixture = Fixture::new(1 << 20, "5/min", Consistency::Bounded);
    let sketches = &fixture.sketches;
    assert!(sketches.begin_use() && !sketches.begin_use());
    fixture.charge(1, 1, false);
    assert!(sketches.bytes() > 1 << 19);
    let (soon, later) = (START.plus_ms(UNUSED_MS), START.plus_ms(UNUSED_MS + 1));
    assert!(!sketches.end_use(soon, 0, 1_000), "used lately");
    assert!(!sketches.end_use(later, 600, 1_000), "too little room");
    assert!(sketches.end_use(later, 599, 1_000) && !sketches.end_use(later, 0, 1_000));
    assert_eq!((sketches.bytes(), sketches.is_used()), (0, false));
    for (counters_max, most) in [(1, 0), (20, 11), (99, 59)] {
        assert!(sketches.begin_use() && !sketches.end_use(later, most + 1, counters_max));
        assert!(sketches.end_use(later, most, counters_max), "a small table has room, too: {counters_max}");
    }
}

/// The table of `docs/fleet.md`: after so many invented callers, less than 1% of the calls of newcomers who use up
/// their quota are denied, and under `strict` after a third of them. The error depends on the callers per cell only, so
/// a small sketch shows it.
#[test]
fn a_sketch_holds_as_long_as_the_document_states() {
    for (quota, callers) in [(10, 1_600_000), (100, 6_000_000), (1_000, 45_000_000)] {
        for (consistency, part) in [(Consistency::Bounded, 1), (Consistency::Strict, 3)] {
            // Of callers with a small quota, few lose many calls: more sketches show their number.
            let runs = (1_000 / quota).min(20);
            let denied = (0..runs).map(|_| {
                let fixture = Fixture::new(SKETCH_BYTES_DEFAULT / 64, &format!("{quota}/d"), consistency);
                fixture.flood(0, callers / 64 / part);
                fixture.denied_permille(quota)
            });
            let denied = denied.sum::<u64>() / runs;
            println!("{quota} per day, {consistency:?}, {} callers: {denied} permille", callers / part);
            assert!(denied <= 10, "{quota} per day, {consistency:?}: {denied} permille");
        }
    }
}

/// The numbers that the sketch's own documentation states: how many invented callers cost a newcomer how many units.
#[test]
fn the_error_grows_with_the_number_of_callers() {
    const SCALE: u64 = 64;
    let fixture = Fixture::new(SKETCH_BYTES_DEFAULT / 64, "1000/d", Consistency::Bounded);
    let lost = |first: u64| {
        (first..first + 10_000).map(|id| 1_000 - fixture.charge(u128::MAX - u128::from(id), 0, true).remaining)
    };
    let mut flooded = 0;
    for (callers, lost_permille) in [(1_790_000, 75..130), (6_450_000, 900..1_100)] {
        let callers = callers / SCALE;
        fixture.flood(u128::from(flooded), callers - flooded);
        flooded = callers;
        let seen = lost(0).sum::<u64>() / 10;
        assert!(lost_permille.contains(&seen), "{callers} callers cost a newcomer {seen} thousandths of a unit");
    }
}
