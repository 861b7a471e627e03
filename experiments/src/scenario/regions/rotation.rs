//! A client that wants too much and moves from region to region, to use the quota of each.

use super::baselines::regional_limits;
use super::settings::{GlobalQuotaSettings, REGIONS};
use super::union::{admitted_exactly, fullest_minute};
use super::world::{CallerPlan, RegionsRun};
use crate::scenario::arrivals::MINUTE_MS;

/// Units that the client got.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct RotationTally {
    pub(super) admitted: u64,
    pub(super) exact: u64,
    pub(super) fullest: u64,
    /// Units of the fullest minute with limits of each region.
    pub(super) fullest_regional: u64,
    pub(super) is_violated: bool,
}

/// Runs a client that stays at each region for `stay_s`.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::cast_precision_loss,
    reason = "a rate of calls"
)]
pub(super) fn rotation(settings: &GlobalQuotaSettings, seed: u64, tick_ms: u64, stay_s: u64) -> RotationTally {
    let (run_ms, each_ms) = (settings.rotation_min * MINUTE_MS, stay_s * 1_000);
    let per_minute = (settings.rotation_demand * settings.quota as f64).round() as u64;
    let mut callers = vec![Vec::new(); REGIONS.len()];
    for (place, from_ms) in (0..run_ms).step_by(usize::try_from(each_ms).unwrap_or(1)).enumerate() {
        let plan = CallerPlan { counter: 0, from_ms, until_ms: from_ms + each_ms, per_minute };
        callers[place % REGIONS.len()].push(plan);
    }
    let (quota, floor) = (settings.quota, settings.floor);
    let run = RegionsRun { seed, run_ms, tick_ms, counters: 1, quota, floor, callers, cuts: Vec::new() };
    let outcome = run.outcome(settings);
    let calls = &outcome.calls[0];
    RotationTally {
        admitted: outcome.admitted[0].len() as u64,
        exact: admitted_exactly(calls, quota).len() as u64,
        fullest: fullest_minute(&outcome.admitted[0]),
        fullest_regional: fullest_minute(&regional_limits(calls, quota)),
        is_violated: outcome.is_violated,
    }
}
