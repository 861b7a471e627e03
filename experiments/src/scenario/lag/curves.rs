//! Values of the fleets over the delay.

use tollgate_sim::figures::ratio;

use super::callers::LagDemand;
use super::cell::{Decider, LagCell, LagTallies};
use super::settings::LagSettings;
use crate::scenario::fleet::FleetTally;

pub(super) type LagResult = (LagCell, LagTallies);

/// Returns the units of the fullest window in percent of the quota.
pub(super) fn worst_percent(settings: &LagSettings, tally: &FleetTally) -> f64 {
    100.0 * ratio(tally.worst_window, settings.quota)
}

/// Returns the false denials in percent of the calls.
pub(super) fn denied_percent(tally: &FleetTally) -> f64 {
    100.0 * ratio(tally.under_admitted, tally.calls)
}

/// Returns a value of a fleet of this size and way of deciding over the delay, for callers of one demand.
pub(super) fn curve(
    results: &[LagResult],
    agents: usize,
    decider: Decider,
    demand: LagDemand,
    value: impl Fn(&FleetTally) -> f64,
) -> Vec<(f64, f64)> {
    let of_curve = results.iter().filter(|(cell, _)| (cell.agents, cell.decider) == (agents, decider));
    of_curve.map(|(cell, tallies)| (cell.delay_s, value(&tallies[demand as usize]))).collect()
}

/// Returns the first point with the largest value.
pub(super) fn highest(points: impl IntoIterator<Item = (f64, f64)>) -> (f64, f64) {
    let higher = |best: (f64, f64), point: (f64, f64)| if point.1 > best.1 { point } else { best };
    points.into_iter().reduce(higher).expect("there is a delay")
}

/// Returns the delay at which signals last made at least half of the decisions of `eventual`; 0 if at none.
pub(super) fn signalled_to_s(results: &[LagResult], agents: usize) -> f64 {
    let by_signals =
        curve(results, agents, Decider::Eventual, LagDemand::Steady, |tally| ratio(tally.by_signals, tally.calls));
    by_signals.into_iter().filter(|(_, part)| *part >= 0.5).map(|(delay_s, _)| delay_s).fold(0.0, f64::max)
}
