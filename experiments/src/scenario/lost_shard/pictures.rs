//! Pictures of the experiment over time: the calls under the default rule, and the true window of several rules.

use super::outage::{INTERVAL_MS, LostShardOutcome, OutageCase};
use super::{LostShardSettings, seconds};
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
    let lost = |y: f64| Series {
        name: "store lost".to_owned(),
        role: SeriesRole::Truth,
        points: vec![(lost_at, 0.0), (lost_at, y), (lost_at + lost_s, y), (lost_at + lost_s, 0.0)],
    };
    let plot = |name: &str, title: String, label: String, most: f64, mut series: Vec<Series>| {
        series.push(lost(most / 4.0));
        let x = Axis::new("time, s", [0.0, settings.seconds as f64]);
        Plot { name: name.to_owned(), title, x, y: Axis::new(label, [0.0, most]), series }
    };
    let (default, quota) = (of_case("default"), settings.quota as f64);
    // A line ends where it leaves the picture.
    let window = |name: &str| Series {
        name: name.to_owned(),
        role: SeriesRole::Measured,
        points: steps(
            INTERVAL_MS,
            of_case(name).windows.iter().copied().take_while(|units| *units <= 2 * settings.quota),
        ),
    };
    let mut windows: Vec<Series> = DRAWN.into_iter().map(window).collect();
    windows.push(Series {
        name: "quota".to_owned(),
        role: SeriesRole::Limit,
        points: vec![(0.0, quota), (settings.seconds as f64, quota)],
    });
    vec![
        plot(
            "calls",
            format!("The default admits up to {} calls while the store is lost for {lost_s} s", default.meanwhile),
            format!("calls in {INTERVAL_MS} ms"),
            default.timeline.most() as f64,
            default.timeline.series(),
        ),
        plot(
            "windows",
            format!(
                "The fullest minute holds up to {} units by default, and {} under open without signals",
                default.fullest,
                of_case("open, no signals").fullest
            ),
            "units in the last minute".to_owned(),
            2.0 * quota,
            windows,
        ),
    ]
}
