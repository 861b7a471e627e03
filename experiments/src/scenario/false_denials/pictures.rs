//! Pictures of the experiment: false denials and the worst minute over the load, for one quota.

use super::cell::Cell;
use super::settings::FalseDenialSettings;
use super::{Contender, Tally};
use crate::scenario::{Axis, Plot, Series, SeriesRole};

/// Draws false denials and the worst minute of the middle quota.
pub(super) fn plots(settings: &FalseDenialSettings, contenders: &[Contender], cells: &[Cell]) -> Vec<Plot> {
    let quota = settings.quotas[settings.quotas.len() / 2];
    let (least, most) = (settings.loads[0], settings.loads[settings.loads.len() - 1]);
    let [denied, mut worst] = [Tally::denied_percent, Tally::worst_percent]
        .map(|value| curves(settings.shown_parts(), contenders, cells, quota, value));
    worst.insert(
        0,
        Series { name: "quota".to_owned(), role: SeriesRole::Limit, points: vec![(least, 100.0), (most, 100.0)] },
    );
    // A single load has a range, too.
    let margin = 0.05 * most;
    let plot = |name: &str, title: String, label: &str, series: Vec<Series>| Plot {
        name: name.to_owned(),
        title,
        x: Axis::new("demand, quotas", [least - margin, most + margin]),
        y: Axis::new(label, [0.0, highest(&series).max(0.1)]),
        series,
    };
    vec![
        plot("false-denials", title_of_denials(settings, quota, &denied), "calls denied falsely, %", denied),
        plot(
            "worst-minute",
            format!("{} of {quota} in its fullest minute", highest_of(&worst, "admits up to")),
            "worst minute, % of the quota",
            worst,
        ),
    ]
}

fn highest(series: &[Series]) -> f64 {
    series.iter().flat_map(|series| &series.points).map(|(_, value)| *value).fold(0.0, f64::max)
}

/// States the first and the last curve at the load nearest to the quota.
fn title_of_denials(settings: &FalseDenialSettings, quota: u64, curves: &[Series]) -> String {
    let load = settings.load_nearest_to(1.0);
    let of_curve = |curve: &Series| {
        let point = curve.points.iter().find(|(other, _)| other.total_cmp(&load).is_eq())?;
        Some(format!("{} denies {:.1}% falsely", curve.name, point.1))
    };
    let ends = curves.first().into_iter().chain(curves.last());
    format!("Demand of {load} times {quota}/min: {}", ends.filter_map(of_curve).collect::<Vec<_>>().join(", "))
}

/// Names the line with the highest point, and its value.
fn highest_of(series: &[Series], verb: &str) -> String {
    let points = series.iter().flat_map(|series| series.points.iter().map(|(_, value)| (&series.name, *value)));
    points
        .max_by(|a, b| a.1.total_cmp(&b.1))
        .map_or(String::new(), |(name, value)| format!("{name} {verb} {value:.0}%"))
}

/// Returns a value of the drawn contenders over the load.
fn curves(parts: u32, contenders: &[Contender], cells: &[Cell], quota: u64, value: fn(&Tally) -> f64) -> Vec<Series> {
    let drawn = [
        format!("interpolated {parts}"),
        format!("conservative {parts}"),
        "fixed_window".to_owned(),
        "token_bucket 60s".to_owned(),
        "sliding_log".to_owned(),
    ];
    let curve = |name: String| {
        let position = contenders.iter().position(|contender| contender.name == name)?;
        let of_quota = cells.iter().filter(|cell| cell.quota == quota);
        let points = of_quota.map(|cell| (cell.load, value(&cell.tallies[position]))).collect();
        Some(Series { name, role: SeriesRole::Measured, points })
    };
    drawn.into_iter().filter_map(curve).collect()
}
