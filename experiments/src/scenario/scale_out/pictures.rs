//! Picture of the experiment: the agents and the fullest last minute over time.

use super::course::{Courses, RUNS};
use super::settings::ScaleOutSettings;
use crate::scenario::{Axis, Plot, Series, SeriesRole};

/// Height of the line that shows the loss of the store.
const LOST_HEIGHT: f64 = 15.0;

/// Draws the number of agents and the fullest last minute of the fleets and of sticky sessions.
#[expect(clippy::cast_precision_loss, reason = "seconds, and numbers of agents")]
pub(super) fn plot(settings: &ScaleOutSettings, courses: &Courses) -> Plot {
    let (end, bound) = (settings.seconds() as f64, settings.percent(courses.bound));
    let over_time =
        |value: &dyn Fn(u64) -> f64| (0..settings.seconds()).map(|second| (second as f64, value(second))).collect();
    let series = |name: &str, role, points| Series { name: name.to_owned(), role, points };
    let limit =
        |name: String, percent| Series { name, role: SeriesRole::Limit, points: vec![(0.0, percent), (end, percent)] };
    let fullest = |name: &str, fullest: &[u64]| {
        let points = fullest.iter().enumerate().map(|(second, units)| (second as f64 + 1.0, settings.percent(*units)));
        series(name, SeriesRole::Measured, points.collect())
    };
    let mut lines = vec![
        limit("quota: 100%".to_owned(), 100.0),
        limit(format!("bound of an outage: {bound:.0}%"), bound),
        series("agents", SeriesRole::Truth, over_time(&|second| settings.agents_at(second) as f64)),
    ];
    let runs = RUNS.iter().zip(&courses.runs);
    let drawn = runs.filter(|(run, _)| run.name.starts_with("strict"));
    lines.extend(drawn.map(|(run, course)| fullest(run.name, &course.fullest)));
    lines.push(fullest("sticky", &courses.sticky.fullest));
    let is_lost = |second| if settings.is_store_lost_at(second) { LOST_HEIGHT } else { 0.0 };
    lines.push(series("store lost", SeriesRole::Measured, over_time(&is_lost)));
    let highest = lines.iter().flat_map(|line| &line.points).map(|(_, value)| *value).fold(0.0, f64::max);
    let percent = |units| settings.percent(units);
    Plot {
        name: "windows".to_owned(),
        title: format!(
            "{} to {} agents: strict admits up to {:.0}% of the quota in a minute, sticky sessions {:.0}%",
            settings.agents[0],
            settings.agents[1],
            percent(courses.runs[0].tally().worst_window),
            percent(courses.sticky.tally().worst_window)
        ),
        x: Axis::new("time, s", [0.0, end]),
        y: Axis::new("last minute, % of the quota; agents", [0.0, 1.2 * highest]),
        series: lines,
    }
}
