//! Picture of the experiment: the fullest window over the number of agents.

use super::cell::TrafficCell;
use super::settings::RealTrafficSettings;
use crate::scenario::{Axis, Plot, Series, SeriesRole};

/// Draws the fullest window of each rule of the algorithm that stands first.
pub(super) fn plots(settings: &RealTrafficSettings, cells: &[TrafficCell]) -> Vec<Plot> {
    let algorithm = settings.rules[0].split(' ').next().unwrap_or_default();
    let (least, most) = (settings.agents[0], settings.agents[settings.agents.len() - 1]);
    let drawn = settings.rules.iter().filter(|rule| rule.split(' ').next() == Some(algorithm));
    let curve = |rule: &String| {
        let of_rule = settings.places().zip(cells).filter(|((other, _), _)| other == rule);
        let points = of_rule.map(|((_, agents), cell)| (as_f64(agents), settings.worst_percent(cell))).collect();
        Series { name: rule.clone(), role: SeriesRole::Measured, points }
    };
    let mut series: Vec<Series> = drawn.map(curve).collect();
    let final_percent = |series: &Series| series.points.last().map_or(0.0, |(_, value)| *value);
    let consistency = |series: &Series| series.name.split(' ').next_back().unwrap_or_default().to_owned();
    let windows = series.iter().map(|series| format!("{:.0}% ({})", final_percent(series), consistency(series)));
    let title = format!("{algorithm}, {most} agents: fullest window {}", windows.collect::<Vec<_>>().join(", "));
    let highest = series.iter().flat_map(|series| &series.points).map(|(_, value)| *value).fold(100.0, f64::max);
    let margin = 0.05 * as_f64(most);
    let range = [as_f64(least) - margin, as_f64(most) + margin];
    let points = vec![(as_f64(least), 100.0), (as_f64(most), 100.0)];
    series.insert(0, Series { name: "quota".to_owned(), role: SeriesRole::Limit, points });
    vec![Plot {
        name: "worst-window".to_owned(),
        title,
        x: Axis::new("agents", range),
        y: Axis::new("fullest window, % of the quota", [0.0, highest]),
        series,
    }]
}

#[expect(clippy::cast_precision_loss, reason = "a small number")]
fn as_f64(agents: usize) -> f64 {
    agents as f64
}
