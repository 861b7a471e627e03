//! Pictures of the experiment: found windows beside their bounds, and the worst attack on the default algorithm over time.

use super::attack_target::{AttackTarget, TargetResult};
use super::store_target::StoreTarget;
use crate::scenario::{Axis, Plot, Series, SeriesRole};

/// Draws found windows and bounds, and the worst attack on the first algorithm.
pub(super) fn plots(targets: &[AttackTarget], results: &[TargetResult]) -> Vec<Plot> {
    let worst = targets.iter().zip(results).find_map(|(target, result)| match target {
        AttackTarget::Store(target) => Some(worst_attack(target, result)),
        AttackTarget::Fleet(_) => None,
    });
    std::iter::once(against_bounds(results)).chain(worst).collect()
}

/// Draws the found windows beside their bounds, by the row of the tables.
#[expect(clippy::cast_precision_loss, reason = "a few rows")]
fn against_bounds(results: &[TargetResult]) -> Plot {
    let steps = |value: fn(&TargetResult) -> f64| {
        let rows = results.iter().enumerate();
        rows.flat_map(|(row, result)| [0.6, 1.4].map(|end| (row as f64 + end, value(result)))).collect()
    };
    let most =
        results.iter().map(|result| result.bound_of_found_percent().max(result.found_percent())).fold(0.0, f64::max);
    let line = |name: &str, role, points| Series { name: name.to_owned(), role, points };
    let beaten = results.iter().filter(|result| result.worst.of_bound > 100.0).count();
    Plot {
        name: "bounds".to_owned(),
        title: match beaten {
            0 => format!("None of the {} printed bounds is exceeded", results.len()),
            _ => format!("{beaten} of {} printed bounds are exceeded", results.len()),
        },
        x: Axis::new("row of the tables", [0.0, results.len() as f64 + 1.0]),
        y: Axis::new("units of a window, % of the quota", [0.0, most]),
        series: vec![
            line(
                "printed bound, with the calls of 3 or 6 s",
                SeriesRole::Limit,
                steps(TargetResult::bound_of_found_percent),
            ),
            line("found", SeriesRole::Measured, steps(TargetResult::found_percent)),
        ],
    }
}

/// Draws the calls of the worst attack on an algorithm, and the true window.
#[expect(clippy::cast_precision_loss, reason = "small times and numbers of calls")]
fn worst_attack(target: &StoreTarget, result: &TargetResult) -> Plot {
    let (attack, space) = (&result.worst.attack, target.space());
    let second = |ms: u64| ms as f64 / 1_000.0;
    let (mut calls, mut made) = (vec![(0.0, 0.0)], 0.0_f64);
    for (at_ms, _) in attack.calls(1) {
        calls.push((second(at_ms), made));
        made += 1.0;
        calls.push((second(at_ms), made));
    }
    // Each admission enters the window, and leaves it a window later.
    let mut changes = vec![(0, 0.0)];
    for (at_ms, _) in target.admitted(attack) {
        changes.extend([(at_ms, 1.0), (at_ms + space.width_ms, -1.0)]);
    }
    changes.retain(|(at_ms, _)| *at_ms <= space.end_ms);
    changes.sort_by_key(|(at_ms, _)| *at_ms);
    let mut units = 0.0;
    let window = changes.into_iter().flat_map(|(at_ms, change)| {
        let before = units;
        units += change;
        [(second(at_ms), before), (second(at_ms), units)]
    });
    let end = second(space.end_ms);
    let line = |name: &str, role, points| Series { name: name.to_owned(), role, points };
    Plot {
        name: "worst-attack".to_owned(),
        title: format!(
            "The worst attack on {}: {} units in a window of {}",
            result.name, result.worst.outcome.units, result.quota
        ),
        x: Axis::new("time, s", [0.0, end]),
        y: Axis::new("calls and units", [0.0, made.max(result.worst.outcome.units as f64)]),
        series: vec![
            line("units in the true window", SeriesRole::Truth, window.collect()),
            line("calls since the beginning", SeriesRole::Measured, calls),
            line("quota", SeriesRole::Limit, vec![(0.0, result.quota as f64), (end, result.quota as f64)]),
        ],
    }
}
