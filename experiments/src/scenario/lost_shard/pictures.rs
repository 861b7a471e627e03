//! Pictures of the experiment over time: the calls under the default rule, and the true window of several rules.

use tollgate_sim::figures::count;

use super::outage::{INTERVAL_MS, LostShardOutcome, OutageCase};
use super::settings::LostShardSettings;
use super::settings::seconds;
use crate::scenario::timeline::steps;
use crate::scenario::{Axis, Plot, Series, SeriesRole};

/// Rules whose windows are drawn.
const DRAWN: [&str; 3] = ["default", "default, no signals", "open, no signals"];

/// Draws the calls of the default, and the windows of several rules.
#[expect(clippy::cast_precision_loss, reason = "numbers of calls and short times")]
pub(super) fn plots(settings: &LostShardSettings, outcomes: &[(OutageCase, LostShardOutcome)]) -> Vec<Plot> {
    let of_case = |name: &str| {
        let found = outcomes.iter().find(|(case, _)| case.name == name);
        &found.expect("it is a case").1
    };
    let (lost_at, lost_s) = (seconds(settings.shown_after_ms()), seconds(settings.lost_ms));
    let lost = |least: f64, y: f64| Series {
        name: "store lost".to_owned(),
        role: SeriesRole::Truth,
        points: vec![(lost_at, least), (lost_at, y), (lost_at + lost_s, y), (lost_at + lost_s, least)],
    };
    let plot = |name: &str, title: String, label: String, [least, most]: [f64; 2], mut series: Vec<Series>| {
        series.push(lost(least, least + (most - least) / 4.0));
        let x = Axis::new("time, s", [0.0, settings.seconds as f64]);
        Plot { name: name.to_owned(), title, x, y: Axis::new(label, [least, most]), series }
    };
    let (default, quota) = (of_case("default"), settings.quota as f64);
    // Near the quota, so that lines which differ by a few units do not lie on each other. A line begins and ends at the edge.
    let near = [0.8 * quota, 1.2 * quota];
    let window = |name: &str| {
        let mut points = steps(INTERVAL_MS, of_case(name).windows.iter().copied());
        for (_, units) in &mut points {
            *units = units.clamp(near[0], near[1]);
        }
        let left = points.iter().position(|(_, units)| *units >= near[1]);
        points.truncate(left.map_or(points.len(), |left| left + 1));
        let name = left.map_or(name.to_owned(), |_| format!("{name} (up to {})", count(of_case(name).fullest)));
        Series { name, role: SeriesRole::Measured, points }
    };
    // Lines that lie on the quota are drawn over it.
    let mut windows = vec![Series {
        name: "quota".to_owned(),
        role: SeriesRole::Limit,
        points: vec![(0.0, quota), (settings.seconds as f64, quota)],
    }];
    windows.extend(DRAWN.map(window));
    vec![
        plot(
            "calls",
            format!("The default admits up to {} calls while the store is lost for {lost_s} s", default.meanwhile),
            format!("calls in {INTERVAL_MS} ms"),
            [0.0, default.timeline.most() as f64],
            default.timeline.series(),
        ),
        plot(
            "windows",
            format!(
                "The fullest minute holds up to {} units by default, and {} under open without signals",
                count(default.fullest),
                count(of_case("open, no signals").fullest)
            ),
            "units in the last minute".to_owned(),
            near,
            windows,
        ),
    ]
}
