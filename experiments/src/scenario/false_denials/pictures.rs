//! Pictures of the experiment: false denials and excess over the load, for one quota.

use super::{Cell, Contender, FalseDenialSettings, Tally};
use crate::scenario::{Axis, Plot, Series, SeriesRole};

/// Contenders that are drawn, if the scenario has them.
const DRAWN: [&str; 5] = ["interpolated 12", "conservative 12", "fixed_window", "token_bucket", "sliding_log"];
/// Height of a picture in heights of its highest point: the legend is above.
const LEGEND_ROOM: f64 = 1.6;

/// Draws false denials and excess of the middle quota.
pub(super) fn plots(settings: &FalseDenialSettings, contenders: &[Contender], cells: &[Cell]) -> Vec<Plot> {
    let quota = settings.quotas[settings.quotas.len() / 2];
    let [denied, excess] =
        [Tally::denied_percent, Tally::excess_percent].map(|value| curves(contenders, cells, quota, value));
    let loads = denied.iter().flat_map(|series| &series.points).map(|(load, _)| *load);
    let load = loads.filter(|load| *load <= 1.0).fold(0.0, f64::max);
    let at_load = |curves: &[Series], name: &str| {
        let curve = curves.iter().find(|series| series.name == name);
        let point = curve.and_then(|series| series.points.iter().find(|(other, _)| other.total_cmp(&load).is_eq()));
        point.map_or("?".to_owned(), |(_, percent)| format!("{percent:.1}%"))
    };
    vec![
        plot(
            ("false-denials", "calls denied falsely, %"),
            format!(
                "At {load} of {quota}/min, the default denies {} of the calls falsely, and sliding_log {}",
                at_load(&denied, "interpolated 12"),
                at_load(&denied, "sliding_log")
            ),
            denied.clone(),
        ),
        plot(
            ("excess", "admissions beyond the quota, %"),
            format!(
                "At {load} of {quota}/min, {} of the admissions of a token bucket are beyond it, and {} of the default's",
                at_load(&excess, "token_bucket"),
                at_load(&excess, "interpolated 12")
            ),
            excess.clone(),
        ),
    ]
}

/// Returns the value of each drawn contender over the load.
fn curves(contenders: &[Contender], cells: &[Cell], quota: u64, value: fn(&Tally) -> f64) -> Vec<Series> {
    let curve = |name: &str| {
        let position = contenders.iter().position(|contender| contender.name == name)?;
        let of_quota = cells.iter().filter(|cell| cell.quota == quota);
        let mut points: Vec<(f64, f64)> = of_quota.map(|cell| (cell.load, value(&cell.tallies[position]))).collect();
        points.sort_by(|a, b| a.0.total_cmp(&b.0));
        Some(Series { name: name.to_owned(), role: SeriesRole::Measured, points })
    };
    DRAWN.into_iter().filter_map(curve).collect()
}

fn plot((name, label): (&str, &str), title: String, series: Vec<Series>) -> Plot {
    let points = || series.iter().flat_map(|series| &series.points);
    let loads = points().map(|(load, _)| *load);
    let (least, most) = (loads.clone().fold(f64::INFINITY, f64::min), loads.fold(0.0, f64::max));
    let highest = points().map(|(_, value)| *value).fold(0.1, f64::max);
    // A single load has a range, too.
    let margin = 0.05 * most;
    Plot {
        name: name.to_owned(),
        title,
        x: Axis { label: "demand, quotas".to_owned(), range: [least - margin, most + margin] },
        y: Axis { label: label.to_owned(), range: [0.0, LEGEND_ROOM * highest] },
        series,
    }
}
