//! Worlds of two regions that are made for a mistake: the home, which always wants units, and a holder with one kind of trouble.

use fastrand::Rng;
use tollgate_sim::MemberFaults;

use super::callers::CallerTimes;
use super::plan::{CALM_MS, EXPIRES_MS, RUN_MS, RegionPlan, RegionsPlan, WorldKind, global_rule};
use crate::scenario::incident::{Incident, What};
use crate::scenario::rules;

fn always(per_s: u64) -> CallerTimes {
    CallerTimes { caller: 0, from_ms: 0, until_ms: RUN_MS, per_s }
}

fn world(seed: u64, kind: WorldKind, home: RegionPlan, holder: RegionPlan) -> RegionsPlan {
    let changes = vec![(0, rules::FIRST)];
    let global = global_rule(seed, 2, false);
    RegionsPlan { seed, kind, regions: vec![home, holder], changes, global, mends_before_expiries: false }
}

/// Returns the home region, whose coordinator is suspended before a part of its entries, in thousandths.
fn home_with(seed: u64, coordinator_permille: u64, callers: &[CallerTimes]) -> RegionPlan {
    let members = MemberFaults { coordinator_permille, suspended_ms_max: 1_500, ..MemberFaults::default() };
    let mut home = RegionPlan { members, ..RegionPlan::calm(seed, 0, 1, callers) };
    home.settings.aggregators = 1;
    home
}

/// The holder has nearly the whole quota, and is heard again while the coordinator is suspended before the expiry of its grants. Then
/// the other region wants its part.
pub(super) fn silent_holder(seed: u64, rng: &mut Rng) -> RegionsPlan {
    let mut holder = RegionPlan::calm(seed, 1, 1, &[always(30)]);
    let mut from_ms = rng.u64(4_500..5_500);
    while from_ms < CALM_MS {
        let until_ms = (from_ms + EXPIRES_MS + 1_000).min(CALM_MS);
        holder.cuts.push((from_ms, until_ms));
        from_ms = until_ms + rng.u64(5_000..6_500);
    }
    let mut home = home_with(seed, 0, &[always(1)]);
    home.members = MemberFaults { expiry_permille: 900, suspended_ms_max: 3_000, ..MemberFaults::default() };
    // The other aggregator acts for the region while the coordinator is suspended.
    home.settings.aggregators = 2;
    let world = world(seed, WorldKind::SilentHolder, home, holder);
    RegionsPlan { mends_before_expiries: true, ..world }
}

/// A give-back that was decided before a crash reaches the ledger after it.
pub(super) fn suspended_writer(seed: u64, rng: &mut Rng) -> RegionsPlan {
    let mut callers = vec![always(1)];
    let mut from_ms = 0;
    while from_ms < RUN_MS {
        callers.push(CallerTimes { caller: 0, from_ms, until_ms: from_ms + 700, per_s: 30 });
        from_ms += rng.u64(2_000..3_500);
    }
    let mut holder = RegionPlan::calm(seed, 1, 1, &callers);
    holder.settings.aggregators = 1;
    holder.members = MemberFaults {
        suspended_permille: 10,
        give_back_permille: 1_000,
        suspended_ms_max: 6_000,
        ..MemberFaults::default()
    };
    holder.crashes_givers = true;
    world(seed, WorldKind::SuspendedWriter, home_with(seed, 0, &[always(14)]), holder)
}

/// The other region wants its part from the begin of the cut on.
pub(super) fn suspended_holder(seed: u64, rng: &mut Rng) -> RegionsPlan {
    let mut holder = RegionPlan::calm(seed, 1, 1, &[always(20)]);
    let mut callers = vec![always(1)];
    let mut from_ms = rng.u64(4_000..5_000);
    while from_ms < CALM_MS {
        let until_ms = (from_ms + rng.u64(7_500..9_500)).min(CALM_MS);
        holder.cuts.push((from_ms, until_ms));
        callers.push(CallerTimes { caller: 0, from_ms, until_ms, per_s: 14 });
        // All of its processes stand still for longer than a term. Its store's clock steps back by about this time.
        let at_ms = from_ms + rng.u64(0..800);
        let lasts_ms = rng.u64(3_500..6_500);
        for aggregator in 0..holder.settings.aggregators {
            holder.incidents.push(Incident { at_ms, lasts_ms, what: What::AggregatorPauses(aggregator) });
        }
        let by_ms = -rng.i64(2_500..lasts_ms.cast_signed());
        let what = What::StoreClockSteps { by_ms, from_second_ms: None, is_glitch: false };
        holder.incidents.push(Incident { at_ms: at_ms + rng.u64(2_600..lasts_ms), lasts_ms: 0, what });
        from_ms = until_ms + rng.u64(4_500..5_500);
    }
    holder.incidents.sort_by_key(|incident| incident.at_ms);
    world(seed, WorldKind::SuspendedHolder, home_with(seed, 0, &callers), holder)
}

pub(super) fn changed_window(seed: u64, rng: &mut Rng) -> RegionsPlan {
    let mut holder = RegionPlan::calm(seed, 1, 1, &[always(18)]);
    let mut changes = vec![(0, rules::FIRST)];
    let mut from_ms = 3_000;
    for generation in rules::FIRST + 1..=rules::NEWEST {
        let until_ms = (from_ms + rng.u64(5_000..9_000)).min(CALM_MS);
        holder.cuts.push((from_ms, until_ms));
        changes.push((from_ms + rng.u64(0..1_500) - 1_200, generation));
        from_ms = until_ms + rng.u64(1_500..4_000);
    }
    let mut home = RegionPlan::calm(seed, 0, 1, &[always(18)]);
    home.members.coordinator_permille = 0;
    RegionsPlan { changes, global: global_rule(seed, 2, true), ..world(seed, WorldKind::ChangedWindow, home, holder) }
}
